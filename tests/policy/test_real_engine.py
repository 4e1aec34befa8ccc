"""Pack and guard in the real engine: the Pulumi CLI, its language host and the real provider.

No cluster is needed, since the provider renders manifests to a folder. What people read is
asserted, too: a refusal names resource, rule, reason and remedy, and is no traceback.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

pytestmark = pytest.mark.cluster

REPOSITORY = Path(__file__).parents[2]
PACK = REPOSITORY / "policy" / "tokenworks-policy"
SECRET = "hunter2-of-the-engine"  # noqa: S105  made up, and must not be seen again
DIGEST = f"sha256:{'6d' * 32}"

HEAD = """\
import pulumi
import pulumi_kubernetes as kubernetes

provider = kubernetes.Provider("render", render_yaml_to_directory="rendered")
here = pulumi.ResourceOptions(provider=provider)
labels = {"tokenworks.dev/role": "engine"}


def service(name, kind):
    ports = [{"port": 443, "target_port": 8000}]
    spec = {"type": kind, "selector": labels, "ports": ports}
    kubernetes.core.v1.Service(name, spec=spec, opts=here)


def pod(name, image):
    env = [{"name": "API_KEY", "value": pulumi.Output.secret("%s")}]
    locked = {"allow_privilege_escalation": False, "capabilities": {"drop": ["ALL"]}}
    engine = {"name": "engine", "image": image, "env": env, "security_context": locked}
    spec = {
        "containers": [engine],
        "automount_service_account_token": False,
        "security_context": {
            "run_as_non_root": True,
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
    }
    metadata = {"name": name, "labels": labels}
    kubernetes.core.v1.Pod(name, metadata=metadata, spec=spec, opts=here)

""".replace("%s", SECRET)
# Closes the engines, as every environment does.
CLOSED = """\
gateway = {"match_labels": {"tokenworks.dev/role": "gateway"}}
entries = [{"from_": [{"pod_selector": gateway}], "ports": [{"port": 8000}]}]
closed = {
    "pod_selector": {"match_labels": labels},
    "policy_types": ["Ingress"],
    "ingress": entries,
}
kubernetes.networking.v1.NetworkPolicy("engines", spec=closed, opts=here)
"""
GUARD = "from tokenworks.check.guard import install_guard\n\ninstall_guard()\n"
BAD = """\
service("llama", "LoadBalancer")
service("qwen", "NodePort")
pod("llama", "vllm/vllm-openai:latest")
"""
GOOD = f"""\
{CLOSED}
service("llama", "ClusterIP")
pod("llama", "vllm/vllm-openai:v0.23.0@{DIGEST}")
"""
# The name that a ConfigMap gets is its id, which is not known before it exists.
NOT_KNOWN_YET = f"""\
{CLOSED}
settings = kubernetes.core.v1.ConfigMap("settings", data={{}}, opts=here)
pod("llama", settings.id)
"""
# Components stand for resources of providers that are not here: the engine shows their inputs.
CLOUD = """\
def cloud(type_, name, inputs, **options):
    pulumi.ComponentResource(type_, name, inputs, pulumi.ResourceOptions(**options))


def group(name, source, **options):
    rule = {"protocol": "tcp", "fromPort": 8000, "toPort": 8000, "cidrBlocks": source}
    cloud("aws:ec2/securityGroup:SecurityGroup", name, {"ingress": [rule]}, **options)


settings = kubernetes.core.v1.ConfigMap("settings", data={}, opts=here)
"""
ADMITS = "aws:ec2/securityGroup:SecurityGroup {}: engine-ports-admit-only-private-sources: "

BALANCER = "only-the-gateway-has-a-load-balancer"
LLAMA = (
    f"kubernetes:core/v1:Service llama: {BALANCER}: spec.type: LoadBalancer "
    "would publish an engine, since its selector's tokenworks.dev/role is engine; "
    "use type ClusterIP, and let the gateway serve it."
)
QWEN = f"kubernetes:core/v1:Service qwen: {BALANCER}: spec.type: NodePort would"
IMAGE = (
    "kubernetes:core/v1:Pod llama: images-are-pinned-by-digest: spec.containers[0].image: "
    "vllm/vllm-openai:latest has a tag, which can be moved, and no digest; append the digest"
)


class Toolbox(Protocol):
    """The tools that the real run needs."""

    @property
    def search_path(self) -> tuple[Path, ...]:
        """Folders of the tools, to be put before PATH."""

    @property
    def pulumi_home(self) -> Path:
        """A PULUMI_HOME with the Kubernetes provider."""


@dataclass(frozen=True)
class Project:
    """One Pulumi project in a folder of its own, with a file backend beside it."""

    folder: Path
    environment: dict[str, str]

    def pulumi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the CLI and return its exit code and everything that it says."""
        return subprocess.run(
            ["pulumi", *arguments, "--stack", "test", "--non-interactive"],  # noqa: S607  toolbox
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )

    def rendered(self) -> list[str]:
        """Return the names of the manifests that the provider has rendered."""
        return sorted(path.name for path in self.folder.glob("rendered/**/*.yaml"))


@pytest.fixture
def project(toolbox: Toolbox, tmp_path: Path) -> Callable[[str], Project]:
    def make(program: str) -> Project:
        folder, state = tmp_path / "program", tmp_path / "state"
        folder.mkdir()
        state.mkdir()
        (folder / "Pulumi.yaml").write_text("name: refusals\nruntime: python\n")
        (folder / "__main__.py").write_text(program)
        folders = [*toolbox.search_path, Path(sys.executable).parent, os.environ["PATH"]]
        environment = {
            "HOME": str(tmp_path),
            "PATH": os.pathsep.join(map(str, folders)),
            "PYTHONPATH": str(REPOSITORY),
            "PULUMI_HOME": str(toolbox.pulumi_home),
            "PULUMI_BACKEND_URL": f"file://{state}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        made = Project(folder, environment)
        created = made.pulumi("stack", "init")
        assert created.returncode == 0, created.stdout
        return made

    return make


def test_the_pack_refuses_a_preview_and_names_every_violation(
    project: Callable[[str], Project],
) -> None:
    done = project(HEAD + BAD).pulumi("preview", "--policy-pack", str(PACK))
    assert done.returncode != 0
    for message in (LLAMA, QWEN, IMAGE):
        assert message in done.stdout
    assert "[mandatory] [severity: critical]  exposure" in done.stdout
    assert SECRET not in done.stdout


def test_the_guard_refuses_a_preview_without_a_pack_and_names_every_violation(
    project: Callable[[str], Project],
) -> None:
    done = project(GUARD + HEAD + BAD).pulumi("preview")
    assert done.returncode != 0
    for message in (LLAMA, QWEN, IMAGE, "The rules named above refuse this program"):
        assert f"error: {message}" in done.stdout
    assert "Traceback" not in done.stdout
    assert SECRET not in done.stdout


def test_the_guard_stops_an_update_that_had_no_preview_before_anything_is_created(
    project: Callable[[str], Project],
) -> None:
    made = project(GUARD + HEAD + 'service("llama", "LoadBalancer")\n')
    done = made.pulumi("up", "--skip-preview", "--yes")
    assert done.returncode != 0
    assert f"error: {LLAMA}\n    Not created; " in done.stdout
    assert "Traceback" not in done.stdout
    assert made.rendered() == []


def test_pack_and_guard_let_a_good_program_through(project: Callable[[str], Project]) -> None:
    made = project(GUARD + HEAD + GOOD)
    done = made.pulumi("up", "--yes", "--policy-pack", str(PACK))
    assert done.returncode == 0, done.stdout
    assert len(made.rendered()) == 3
    assert "error" not in done.stdout


@pytest.mark.parametrize("guard", [GUARD, ""], ids=["guard", "pack"])
def test_a_pin_that_is_not_known_passes_the_preview_and_is_judged_at_the_update(
    guard: str, project: Callable[[str], Project]
) -> None:
    made = project(guard + HEAD + NOT_KNOWN_YET)
    pack = () if guard else ("--policy-pack", str(PACK))
    preview = made.pulumi("preview", *pack)
    assert preview.returncode == 0, preview.stdout
    assert "spec.containers[0].image: is not known, and may lack a digest" in preview.stdout
    update = made.pulumi("up", "--skip-preview", "--yes", *pack)
    assert update.returncode != 0
    assert "has neither tag nor digest" in update.stdout
    assert not [name for name in made.rendered() if "pod" in name]


def test_the_pack_judges_cloud_resources_by_known_secret_and_unknown_values(
    project: Callable[[str], Project],
) -> None:
    program = """\
group("known", ["0.0.0.0/0"])
group("secret", [pulumi.Output.secret("198.51.100.0/24")])
group("unknown", ["10.0.0.0/8", settings.id])
group("private", ["10.0.0.0/8"])
cloud("aws:lb/loadBalancer:LoadBalancer", "open", {"loadBalancerType": "network"})
cloud("aws:eks/cluster:Cluster", "cluster", {"version": settings.id, "vpcConfig": {}})
"""
    done = project(HEAD + CLOUD + program).pulumi("preview", "--policy-pack", str(PACK))
    assert done.returncode != 0
    assert f"{ADMITS.format('known')}ingress[0].cidrBlocks[0]: 0.0.0.0/0 is public" in done.stdout
    assert ADMITS.format("secret") in done.stdout
    unknown = f"{ADMITS.format('unknown')}ingress[0].cidrBlocks[1]: is not known; if public"
    assert unknown in done.stdout
    assert ADMITS.format("private") not in done.stdout
    assert "only-the-gateways-ways-in-are-public: internal: is open" in done.stdout
    assert "vpcConfig.endpointPublicAccess: is missing, which means public" in done.stdout
    advice = "clusters-name-their-kubernetes-version: version: is not known, and may be loose"
    assert advice in done.stdout


@pytest.mark.parametrize("guard", [GUARD, ""], ids=["guard", "pack"])
def test_exposure_that_is_not_known_is_refused_at_the_preview(
    guard: str, project: Callable[[str], Project]
) -> None:
    made = project(guard + HEAD + CLOUD + 'service("llama", settings.id)\n')
    done = made.pulumi("preview", *(() if guard else ("--policy-pack", str(PACK))))
    assert done.returncode != 0
    assert f"Service llama: {BALANCER}: spec.type: is not known, and may be one" in done.stdout


@pytest.mark.parametrize("guard", [GUARD, ""], ids=["guard", "pack"])
def test_a_guarded_change_that_is_ignored_is_refused(
    guard: str, project: Callable[[str], Project]
) -> None:
    made = project(
        guard + HEAD + CLOUD + 'group("g", ["10.0.0.0/8"], ignore_changes=["ingress"])\n'
    )
    done = made.pulumi("preview", *(() if guard else ("--policy-pack", str(PACK))))
    assert done.returncode != 0
    assert "guarded-changes-are-never-ignored: ignoreChanges: ingress hides" in done.stdout


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            'kubernetes.helm.v3.Release("keda", chart="keda", version="^2", opts=here)\n',
            "charts-have-one-exact-version: version: ^2 is a range",
        ),
        (
            'kubernetes.helm.v4.Chart("keda", chart="keda", version=">=2", opts=here)\n',
            "charts-have-one-exact-version: version: >=2 is a range",
        ),
        (
            'pulumi.runtime.invoke("aws:ec2/getAmi:getAmi", {"mostRecent": True})\n',
            "node-images-are-one-release: mostRecent: True takes whichever matching image",
        ),
    ],
    ids=["release", "chart", "call"],
)
def test_what_no_pack_is_shown_is_stopped_by_the_guard_before_it_happens(
    program: str, message: str, project: Callable[[str], Project]
) -> None:
    made = project(GUARD + HEAD + program)
    done = made.pulumi("up", "--skip-preview", "--yes")
    assert done.returncode != 0
    assert message in done.stdout
    assert made.rendered() == []
