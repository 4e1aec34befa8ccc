// Command tokenworks-ratelimit is Envoy's rate-limit service, which keeps token budgets for all
// gateway replicas together.
//
// The service itself takes every setting from the environment and ignores its arguments, so that
// asking it for its version would start it. This one answers --version and is otherwise the same.
package main

import (
	"fmt"
	"os"

	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
)

// Set by the linker.
var version string

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("envoyproxy/ratelimit", version)
		return
	}
	service := runner.NewRunner(settings.NewSettings())
	service.Run()
}
