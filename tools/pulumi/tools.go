//go:build tools

// Package tools pins the Pulumi command-line interface.
package tools

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
