"""`pulumi preview` and `up` of the serving program against a bare program of the same resources.

The bare program registers what ours would, with the same SDK, from a recording: no components, no
plan, no guard, no policy pack. Both run on one real API server, in turn, so what
is printed are ratios of one run, not seconds of somebody's machine.

usage: python -m benchmarks.preview [MODELS ...]      (default: 1 10 50)
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.local.checkout import Checkout
from tokenworks.operations.record import record_environment
from tokenworks.planning import plan_environment
from tokenworks.toolchain import ENVIRONMENT_TOOLS, Toolbox, ensure, showing
from tokenworks.workspace import Workspace

SIZES = (1, 10, 50)
ROUNDS = 3
ENVIRONMENT = "local"
OURS, BARE = f"{ENVIRONMENT}-serving", "bare"
PACK = "policy/tokenworks-policy"

HEAD = """\
platform: simulated
node_pools:
  - {{name: l4, instance: g6.4xlarge, nodes: {nodes}, driver_version: 580.126.20}}
weights_storage: {{read_mib_per_second: 1000}}
gateway:
  hostname: inference.local
  tenants: [{{name: search, api_keys: [{{pulumi_secret: gateway-key-search}}]}}]
models:
"""
MODEL = """\
  - name: llama-{index:03d}
    engine: {{name: tensorrt-llm, version: 1.2.1}}
    weights:
      repository: meta-llama/Llama-3.1-8B-Instruct
      revision: 0e9e39f249a16976918f6564b8830bc894c89659
      manifest: weights/llama-3.1-8b-instruct.json
    node_pool: l4
    max_model_len_tokens: 4096
    peak_concurrency: 3
    replicas: 1
"""
PROGRAM = """\
import importlib
import json
import pathlib
import re

import pulumi
import pulumi_kubernetes

provider = pulumi_kubernetes.Provider(
    "cluster",
    kubeconfig=pulumi.Config().require("kubeconfig"),
    enable_config_map_mutable=True,
    enable_secret_mutable=True,
)
claims = {}


def snake(name):
    return re.sub("([A-Z])", lambda match: "_" + match[1].lower(), name)


for each in json.loads(pathlib.Path("resources.json").read_text()):
    _, group, kind = each["type"].split(":")
    module = group.replace(".k8s.io", "").replace("/", ".")
    made = getattr(importlib.import_module("pulumi_kubernetes." + module), kind)
    written = {k: v for k, v in each["inputs"].items() if k not in ("apiVersion", "kind")}
    # A claim goes after the pods that use it; otherwise both would wait for each other.
    used = [claim for name, claim in claims.items() if name in json.dumps(written)]
    opts = pulumi.ResourceOptions(provider=provider, depends_on=used)
    one = made(each["name"], opts=opts, **{snake(key): value for key, value in written.items()})
    if kind == "PersistentVolumeClaim":
        claims[written["metadata"]["name"]] = one
"""


@dataclasses.dataclass(frozen=True)
class Pair:
    """Seconds of the same work by our program and by the bare one."""

    ours: float
    bare: float

    @property
    def ratio(self) -> float:
        """Ours over bare."""
        return self.ours / self.bare


def environment(models: int) -> str:
    """An environment file with so many models, each on a GPU of its own, and one to spare."""
    return HEAD.format(nodes=models + 1) + "".join(MODEL.format(index=i) for i in range(models))


def bare_project(checkout: Checkout) -> int:
    """Write the bare program beside the checkout's own; returns how many resources it registers."""
    workspace = Workspace(checkout.path)
    plan = plan_environment(workspace, ENVIRONMENT)
    recorded = record_environment(workspace, plan)["serving"].resources
    resources = [
        {"type": one.type, "name": one.name, "inputs": one.inputs}
        for one in recorded
        if one.custom and one.type.startswith("kubernetes:")
    ]
    folder = checkout.path / "bare"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: bare\nruntime: python\n")
    (folder / "__main__.py").write_text(PROGRAM)
    (folder / "resources.json").write_text(json.dumps(resources))
    checkout.pulumi("stack", "init", BARE, "--cwd", "bare")
    checkout.pulumi(
        "config", "set", "kubeconfig", str(checkout.kubeconfig()), "--stack", BARE, "--cwd", "bare"
    )
    return len(resources)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def previews(checkout: Checkout, *more: str) -> Pair:
    """Medians of previews that would create everything, taken in turn."""
    ours, bare = [], []
    for _ in range(ROUNDS):
        bare.append(seconds(lambda: checkout.pulumi("preview", "--stack", BARE, "--cwd", "bare")))
        ours.append(seconds(lambda: checkout.pulumi("preview", "--stack", OURS, *more)))
    return Pair(statistics.median(ours), statistics.median(bare))


def updates(checkout: Checkout) -> Pair:
    """One creation of everything by each, the other's being destroyed before."""
    up, destroy = ("up", "--yes", "--skip-preview"), ("destroy", "--yes", "--skip-preview")
    bare = seconds(lambda: checkout.pulumi(*up, "--stack", BARE, "--cwd", "bare"))
    checkout.pulumi(*destroy, "--stack", BARE, "--cwd", "bare")
    ours = seconds(lambda: checkout.pulumi(*up, "--stack", OURS, "--policy-pack", PACK))
    return Pair(ours, bare)


def measure(models: int, toolbox: Toolbox) -> tuple[int, dict[str, Pair]]:
    """Resources, and each kind of work, for an environment of so many models."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Checkout(Path(folder), toolbox)
        (checkout.path / f"stacks/{ENVIRONMENT}.yaml").write_text(environment(models))
        try:
            # Leaves cluster, keys and certificate behind, and takes the serving stack away again.
            checkout.tokenworks("up", ENVIRONMENT, "--yes")
            checkout.pulumi("destroy", "--yes", "--skip-preview", "--stack", OURS)
            count = bare_project(checkout)
            return count, {
                "preview": previews(checkout),
                "preview with policy pack": previews(checkout, "--policy-pack", PACK),
                "up with policy pack": updates(checkout),
            }
        finally:
            checkout.end()


def main(sizes: tuple[int, ...]) -> None:
    """Print one row for each size and kind of work."""
    console = Console()
    with showing(Console(stderr=True)) as report:
        toolbox = ensure(ENVIRONMENT_TOOLS, report)
    table = Table(box=None, pad_edge=False)
    for heading in ("models", "resources", "work", "ours s", "bare s", "ratio"):
        table.add_column(heading, justify="left" if heading == "work" else "right")
    for models in sizes:
        count, pairs = measure(models, toolbox)
        for work, pair in pairs.items():
            row = (work, f"{pair.ours:.1f}", f"{pair.bare:.1f}", f"{pair.ratio:.2f}")
            table.add_row(str(models), str(count), *row)
            console.print(f"{models} models, {work}: {pair.ratio:.2f} x bare", highlight=False)
    console.print(table)


if __name__ == "__main__":
    main(tuple(int(size) for size in sys.argv[1:]) or SIZES)
