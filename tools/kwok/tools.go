//go:build tools

// Package tools pins kwok, which simulates nodes, and kwokctl, which runs a cluster of them.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
	_ "sigs.k8s.io/kwok/cmd/kwokctl"
)
