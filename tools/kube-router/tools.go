//go:build tools

// Package tools pins kube-router, of which the firewall alone is used.
package tools

import _ "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
