//go:build tools

// Package tools pins nvidia-ctk, which says what NVIDIA would write into containerd's configuration.
package tools

import _ "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk"
