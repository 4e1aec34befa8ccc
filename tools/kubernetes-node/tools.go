//go:build tools

// Package tools pins what makes a machine a node: the kubelet, and the proxy of Services.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
