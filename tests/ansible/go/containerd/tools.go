//go:build tools

// Package tools pins containerd, which says how it understands its configuration.
package tools

import _ "github.com/containerd/containerd/v2/cmd/containerd"
