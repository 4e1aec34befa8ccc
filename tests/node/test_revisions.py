"""Files of models on the node's volume: they come whole or not at all; no other is served.

Most of it needs no engine, so meanwhile the kubelet finds out which of them hang.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.node.harness import ENGINES, ENVIRONMENT, GATEWAY, MODEL, Onenode
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_node.layout import HUB_ADDRESS, NodeLayout

LARGE_BYTES = 2**30
"""Takes seconds to fetch, so that there is a middle; it is a hole in the hub's folder."""
FETCH_SECONDS = 60.0


def layout_of(onenode: Onenode) -> NodeLayout:
    return NodeLayout(Layout.of(ENVIRONMENT, onenode.checkout.path))


def volume_of(onenode: Onenode) -> Path:
    """The volume with the files that the engines read."""
    pod = onenode.pod(ENGINES, onenode.engines()[0])
    (claim,) = [
        one["persistentVolumeClaim"]["claimName"]
        for one in pod["spec"]["volumes"]
        if one["name"] == "weights"
    ]
    volumes: Path = layout_of(onenode).volumes
    return volumes / ENGINES / str(claim)


@contextmanager
def published(onenode: Onenode, name: str, size: int) -> Iterator[dict[str, Any]]:
    """A model of one file of zeros in the hub, and its manifest."""
    folder = onenode.checkout.path / "stacks" / "weights" / name
    folder.mkdir()
    try:
        with (folder / "model.safetensors").open("wb") as file:
            file.truncate(size)
        with (folder / "model.safetensors").open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        entry = {"path": "model.safetensors", "bytes": size, "sha256": found}
        yield {"repository": f"tests/{name}", "revision": name, "files": [entry]}
    finally:
        shutil.rmtree(folder)


def run_job(onenode: Onenode, step: str, name: str, changes: dict[str, Any]) -> None:
    """Start one of the model's Jobs again under another name, with other settings.

    ``changes`` are those of its settings, and ``manifest`` the files where it has some.
    """
    jobs = onenode.get("jobs", "-n", ENGINES)
    (job,) = [one for one in jobs if one["metadata"]["name"].startswith(f"{MODEL}-{step}-")]
    spec = {key: value for key, value in job["spec"].items() if key != "selector"}
    labels = spec["template"]["metadata"]["labels"]
    spec["template"]["metadata"] = {
        "labels": {k: v for k, v in labels.items() if k.startswith("tokenworks.dev/")}
    }
    (tools,) = [one for one in spec["template"]["spec"]["volumes"] if one["name"] == "tools"]
    named = f"--field-selector=metadata.name={tools['configMap']['name']}"
    (files,) = onenode.get("configmaps", "-n", ENGINES, named)
    tools["configMap"]["name"] = name
    data = dict(files["data"])
    if "manifest" in changes:
        data["manifest.json"] = json.dumps(changes.pop("manifest"))
    data["settings.json"] = json.dumps({**json.loads(data["settings.json"]), **changes})
    metadata = {"name": name, "namespace": ENGINES}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    for one in (config, made):
        onenode.kubectl("apply", "-f", "-", given=json.dumps(one))


def wait_for_job(onenode: Onenode, name: str, condition: str) -> None:
    wait = (f"--for=condition={condition}", "--timeout=120s")
    onenode.kubectl("wait", f"job/{name}", "-n", ENGINES, *wait)


def populate(onenode: Onenode, name: str, manifest: dict[str, Any]) -> None:
    source = {"url": f"http://{HUB_ADDRESS}/{name}"}
    changes = {"manifest": manifest, "revision": name, "source": source}
    run_job(onenode, "populate", name, changes)


def forget(onenode: Onenode, *names: str) -> None:
    """Remove Jobs with their files, as whoever deletes them in the foreground does."""
    for name in names:
        objects = ("job,configmap", name, "-n", ENGINES, "--ignore-not-found")
        onenode.kubectl("delete", *objects, "--cascade=foreground")


def kill_in_the_middle(volume: Path, file: Path) -> int:
    """End whoever writes to a file of the volume as a crash does; returns how far it was."""
    deadline = time.monotonic() + FETCH_SECONDS
    while time.monotonic() < deadline:
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                arguments = (entry / "cmdline").read_bytes()
                if b"populate.py" in arguments and (entry / "root/weights").samefile(volume):
                    size = file.stat().st_size
                    if size:
                        os.kill(int(entry.name), signal.SIGKILL)
                        return size
        time.sleep(0.01)
    raise AssertionError(f"nobody wrote to {file} within {FETCH_SECONDS:.0f} s")


@pytest.fixture
def volume(onenode: Onenode) -> Path:
    return volume_of(onenode)


def test_a_file_that_changed_on_the_volume_is_never_served(onenode: Onenode, volume: Path) -> None:
    onenode.settle()
    going, staying = onenode.engines()
    (file,) = volume.glob(f"*/{MODEL}/config.json")
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"2", b"3", 1))
    try:
        onenode.kubectl("delete", "pod", going, "-n", ENGINES, "--wait=false")
        onenode.until(lambda: len(set(onenode.engines()) - {going}) == 2, "there is another pod")
        (coming,) = set(onenode.engines()) - {going, staying}
        onenode.until(lambda: refusals(onenode, coming) > 1, "the gate refused it twice")
        gate = ("-c", "weights-gate")
        # The log is that of the last attempt, which may only have begun.
        onenode.until(
            lambda: "config.json" in onenode.kubectl("logs", coming, "-n", ENGINES, *gate),
            "the gate named the file",
        )
        assert not onenode.ready(coming)
        onenode.control(staying, "DELETE", "/requests")
        assert [onenode.ask().status for _ in range(4)] == [200] * 4
        paths = [each["path"] for each in onenode.control(staying, "GET", "/requests")]
        assert paths.count("/v1/chat/completions") == 4
    finally:
        file.write_bytes(whole)
    onenode.until(lambda: onenode.ready(coming), "with the file as listed it is served")


def refusals(onenode: Onenode, pod: str) -> int:
    """How often the gate of a pod ran and found something."""
    status = onenode.pod(ENGINES, pod)["status"].get("initContainerStatuses", [])
    return sum(one["restartCount"] for one in status if one["name"] == "weights-gate")


@pytest.fixture(scope="module")
def condemned(onenode: Onenode) -> dict[tuple[str, str], int]:
    """An engine that is ill, one that hangs and a gateway that does, with their restarts before.

    The kubelet takes a minute to be sure of each, and half of one to end it: time for tests that
    need none of them.
    """
    onenode.settle()
    (ill, hung), gateway = onenode.engines(), onenode.gateways()[0]
    pods = ((ENGINES, ill), (ENGINES, hung), (GATEWAY, gateway))
    before = {pod: onenode.restarts(*pod) for pod in pods}
    onenode.control(ill, "PATCH", "/settings", {"healthy": False})
    onenode.freeze(ENGINES, hung, "engine")
    onenode.freeze(GATEWAY, gateway, "envoy")
    return before


@pytest.mark.usefixtures("condemned")
def test_a_download_whose_pod_is_killed_goes_on_where_it_was(
    onenode: Onenode, volume: Path
) -> None:
    name = "large"
    file = volume / ".incoming" / name / "files" / MODEL / "model.safetensors"
    with published(onenode, name, LARGE_BYTES) as manifest:
        try:
            populate(onenode, name, manifest)
            assert 0 < kill_in_the_middle(volume, file) < LARGE_BYTES
            assert not (volume / name).exists()
            wait_for_job(onenode, name, "Complete")
            assert (volume / name / MODEL / file.name).stat().st_size == LARGE_BYTES
            assert not (volume / ".incoming" / name).exists()
            said = (layout_of(onenode).logs / "hub.log").read_text()
            answers = [line for line in said.splitlines() if f"/{name}/" in line]
            assert [line.split('" ')[1].split()[0] for line in answers] == ["200", "206"]
        finally:
            forget(onenode, name)
            shutil.rmtree(volume / name, ignore_errors=True)


@pytest.mark.usefixtures("condemned")
def test_a_second_revision_lies_beside_the_first_until_no_release_uses_it(
    onenode: Onenode, volume: Path
) -> None:
    (served,) = (file.parents[1].name for file in volume.glob(f"*/{MODEL}/config.json"))
    other, used, unknown = "0123456789ab-0123456789ab", "used", "unknown"
    try:
        with published(onenode, other, 2**20) as manifest:
            populate(onenode, other, manifest)
            wait_for_job(onenode, other, "Complete")
        # Where a revision in use is not there, the settings are of another volume.
        missing = {"in_use": ["ffffffffffff-ffffffffffff"], "previous": 0}
        run_job(onenode, "collect", unknown, missing)
        wait_for_job(onenode, unknown, "Failed")
        assert (volume / other / MODEL / "model.safetensors").stat().st_size == 2**20
        run_job(onenode, "collect", used, {"in_use": [served], "previous": 0})
        wait_for_job(onenode, used, "Complete")
        assert not (volume / other).exists()
        assert (volume / served / MODEL / "config.json").exists()
    finally:
        forget(onenode, other, used, unknown)
        shutil.rmtree(volume / other, ignore_errors=True)


def test_what_is_ill_or_hangs_is_started_again(
    onenode: Onenode, condemned: dict[tuple[str, str], int]
) -> None:
    """What hangs is killed: it would take longer than anybody waits to drain."""
    onenode.until(
        lambda: all(onenode.restarts(*pod) > was for pod, was in condemned.items()),
        "all are started again",
    )
    onenode.settle()
    assert {name for _, name in condemned} < {*onenode.engines(), *onenode.gateways()}
    ill = onenode.engines()[0]
    assert onenode.control(ill, "GET", "/state")["settings"]["healthy"] is True
    assert onenode.ask().status == 200
