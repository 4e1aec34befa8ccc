// Command tokenworks-pause holds a pod's namespaces open: it does nothing until it is told to end.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Set by the linker.
var version string

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("tokenworks-pause", version)
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
