// Command pulumi-resource-kubernetes is Pulumi's Kubernetes provider.
//
// The module publishes the provider as a package but leaves out the generated files its own
// main needs. schema.json and terraform-mapping.json are copied beside this file from the
// module's cmd/pulumi-resource-kubernetes before building; they are not kept in this repository.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var terraformMapping []byte

func main() {
	provider.Serve("kubernetes", version.Version, schema, terraformMapping)
}
