//go:build tools

// Package tools pins CoreDNS.
package tools

import _ "github.com/coredns/coredns"
