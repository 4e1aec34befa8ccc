"""A checkout of its own for tests that bring environments up: copied, committed, thrown away."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tokenworks.local_cluster import LocalCluster
from tokenworks.operations.objects import objects
from tokenworks.toolchain import Toolbox

ROOT = Path(__file__).resolve().parents[2]
GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@example.invalid")
TIMEOUT_SECONDS = 300

SERVER_FIELDS = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)

ALLOCATED_FIELDS = (
    "clusterIP",
    "clusterIPs",
    "healthCheckNodePort",
    "podCIDR",
    "podCIDRs",
    "volumeName",
)
BY_IDENTITY = ("controller-uid", "job-name", "batch.kubernetes.io/")
"""Labels by which a Job finds its pods; the server makes them of the Job's own id."""


class Checkout:
    """The project's files in a folder of their own, run in a clean environment."""

    def __init__(self, path: Path, toolbox: Toolbox) -> None:
        self.path, self.toolbox = path, toolbox
        copy_project(path)

    @property
    def variables(self) -> dict[str, str]:
        """A clean environment: where programs are, where the user's files are, and the cache."""
        kept = {name: os.environ[name] for name in ("TOKENWORKS_CACHE",) if name in os.environ}
        return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **kept}

    @property
    def command(self) -> list[str]:
        """The command line tool of this checkout."""
        return [sys.executable, "-m", "tokenworks.cli"]

    def tokenworks(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the command line tool here."""
        return self.run([*self.command, *arguments], check=check)

    def pulumi(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run plain Pulumi here, as somebody does who sourced the file that `up` wrote."""
        script = 'source .tokenworks/env && exec pulumi "$@"'
        return self.run(["bash", "-c", script, "bash", *arguments], check=check)

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl against the environment `local` of this checkout."""
        kubectl = str(self.toolbox.path("kubectl"))
        return self.run(
            [kubectl, f"--kubeconfig={self.kubeconfig()}", *arguments], stdin=stdin, check=check
        )

    def kubeconfig(self, environment: str = "local") -> Path:
        """Where the credentials for an environment's cluster lie."""
        return self.path / ".tokenworks" / environment / "kubeconfig"

    def get(self, *arguments: str) -> list[dict[str, Any]]:
        """Objects as `kubectl get` finds them."""
        found = json.loads(self.kubectl("get", *arguments, "--output=json").stdout)
        items = found.get("items", [found])
        assert isinstance(items, list)
        return items

    def objects(self, environment: str = "local") -> list[dict[str, Any]]:
        """Every object in an environment's cluster, whosever it is."""
        return objects(self.toolbox.path("kubectl"), self.kubeconfig(environment))

    def processes(self) -> list[str]:
        """Command lines of running programs that mention this checkout."""
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(self.path) in line:
                    found.append(line)
        return found

    def end(self) -> None:
        """End the clusters of this checkout, however the test ended."""
        for home in self.path.glob(".tokenworks/*/cluster"):
            LocalCluster(home.parent.name, self.path).delete()

    def git_status(self) -> str:
        """What git sees that was not committed."""
        return git("status", "--porcelain", cwd=self.path)

    def restore(self) -> None:
        """Make every committed file what it was when it was copied."""
        git("checkout", "--quiet", ".", cwd=self.path)

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a file, where it says what is expected."""
        file = self.path / name
        text = file.read_text("utf-8")
        assert old in text, f"{name} does not say {old!r}"
        file.write_text(text.replace(old, new))

    def run(
        self, command: list[str], *, stdin: str | None = None, check: bool
    ) -> subprocess.CompletedProcess[str]:
        """Run any command here, in the clean environment."""
        done = subprocess.run(
            command,
            cwd=self.path,
            env=self.variables,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
            )
        return done


def copy_project(path: Path) -> None:
    """Copy every file of the project that is not ignored into a folder, and commit them there."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in listed.splitlines():
        source, target = ROOT / name, path / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    git("init", "--quiet", "--initial-branch=main", cwd=path)
    git("add", "--all", cwd=path)
    git("commit", "--quiet", "--message", "as copied", cwd=path)


def git(*arguments: str, cwd: Path) -> str:
    """Run git in a folder; return what it printed."""
    return subprocess.run(
        [*GIT, *arguments], cwd=cwd, capture_output=True, text=True, check=True
    ).stdout


def comparable(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Objects of ours as people wrote them: without what the server adds, by kind and name."""
    ours = [one for one in found if _labels(one).get("app.kubernetes.io/part-of") == "tokenworks"]
    written = [
        one
        for one in ours
        if "ownerReferences" not in one["metadata"] and one["kind"] != "Endpoints"
    ]
    return {_key(one): _without_server_fields(one) for one in written}


def _labels(one: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = one["metadata"].get("labels", {})
    return labels


def _key(one: dict[str, Any]) -> str:
    metadata = one["metadata"]
    return f"{one['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"


def _without_server_fields(one: dict[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in one["metadata"].items() if k not in SERVER_FIELDS}
    annotations = {
        k: v
        for k, v in metadata.get("annotations", {}).items()
        if not k.startswith(("deployment.kubernetes.io/", "pv.kubernetes.io/", "volume."))
    }
    spec = {k: v for k, v in one.get("spec", {}).items() if k not in ALLOCATED_FIELDS}
    if one["kind"] == "Job":
        spec = _without_identity(spec)
        metadata["labels"] = _written(metadata.get("labels", {}))
    kept = {k: v for k, v in one.items() if k not in ("status", "metadata", "spec")}
    return {**kept, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _without_identity(spec: dict[str, Any]) -> dict[str, Any]:
    """A Job's specification as it was written, whose selector is the server's."""
    template = spec["template"]
    metadata = template["metadata"] | {"labels": _written(template["metadata"]["labels"])}
    kept = {key: value for key, value in spec.items() if key != "selector"}
    return {**kept, "template": {**template, "metadata": metadata}}


def _written(labels: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if not key.startswith(BY_IDENTITY)}
