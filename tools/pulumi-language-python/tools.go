//go:build tools

// Package tools pins the last published Python language host of Pulumi.
package tools

import _ "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
