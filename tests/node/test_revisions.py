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

from tests.node.harness import ENGINES, MODEL, Onenode
from tokenworks.local_node.layout import HUB_ADDRESS

LARGE_BYTES = 2**30
"""Takes seconds to fetch, so that there is a middle; it is a hole in the hub's folder."""
FETCH_SECONDS = 60.0


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
    return onenode.volume


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
            said = (onenode.layout.logs / "hub.log").read_text()
            answers = [line for line in said.splitlines() if f"/{name}/" in line]
            assert [line.split('" ')[1].split()[0] for line in answers] == ["200", "206"]
        finally:
            forget(onenode, name)
            shutil.rmtree(volume / name, ignore_errors=True)


@pytest.mark.usefixtures("condemned")
def test_a_revision_for_a_way_back_stays_and_settings_of_another_volume_remove_nothing(
    onenode: Onenode, volume: Path
) -> None:
    """How one goes that nobody keeps is shown where a release replaces it."""
    (served,) = (file.parents[1].name for file in volume.glob(f"*/{MODEL}/config.json"))
    other, kept, unknown = "0123456789ab-0123456789ab", "kept", "unknown"
    try:
        with published(onenode, other, 2**20) as manifest:
            populate(onenode, other, manifest)
            wait_for_job(onenode, other, "Complete")
        missing = {"in_use": ["ffffffffffff-ffffffffffff"], "previous": 0}
        run_job(onenode, "collect", unknown, missing)
        run_job(onenode, "collect", kept, {"in_use": [served], "previous": 1})
        wait_for_job(onenode, unknown, "Failed")
        wait_for_job(onenode, kept, "Complete")
        assert (volume / other / MODEL / "model.safetensors").stat().st_size == 2**20
        assert (volume / served / MODEL / "config.json").exists()
    finally:
        forget(onenode, other, kept, unknown)
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
    onenode.until(onenode.answers, "a chat is answered")


def test_files_that_are_not_those_of_the_manifest_are_never_served(
    onenode: Onenode, volume: Path
) -> None:
    """Wrong shapes first: one file is missing, one shorter, one more; then another content."""
    onenode.settle()
    # Both gateways have to know of the one that stays, so it has to be available, not only ready.
    onenode.kubectl("rollout", "status", "-n", ENGINES, f"deploy/{MODEL}", "--timeout=240s")
    going, staying = onenode.engines()
    (folder,) = (file.parent for file in volume.glob(f"*/{MODEL}/config.json"))
    whole = {file: file.read_bytes() for file in folder.iterdir()}
    config, model, extra = (
        folder / name for name in ("config.json", "model.safetensors", "added.safetensors")
    )
    away = folder.parent / config.name
    try:
        config.rename(away)
        model.write_bytes(whole[model][:-1])
        extra.touch()
        coming = instead_of(onenode, going, staying)
        wait_for_refusal(
            onenode,
            coming,
            f"{config.name}: is missing",
            f"{extra.name}: is not in the manifest",
            f"{model.name}: has {len(whole[model]) - 1} bytes, listed are {len(whole[model])}",
        )
        extra.unlink()
        model.write_bytes(whole[model])
        away.rename(config)
        config.write_bytes(whole[config].replace(b"2", b"3", 1))
        coming = instead_of(onenode, coming, staying, "--force")
        wait_for_refusal(onenode, coming, f"{config.name}: has sum ")
        assert not onenode.ready(coming)
        # It serves while it drains.
        onenode.kubectl("wait", f"pod/{going}", "-n", ENGINES, "--for=delete", "--timeout=60s")
        onenode.control(staying, "DELETE", "/requests")
        assert [onenode.ask().status for _ in range(4)] == [200] * 4
        paths = [each["path"] for each in onenode.control(staying, "GET", "/requests")]
        assert paths.count("/v1/chat/completions") == 4
    finally:
        extra.unlink(missing_ok=True)
        if away.exists():
            away.rename(config)
        for file, content in whole.items():
            file.write_bytes(content)
    instead_of(onenode, coming, staying, "--force")
    onenode.settle()


def instead_of(onenode: Onenode, going: str, staying: str, *how: str) -> str:
    """Delete an engine's pod; returns the name of the next, which starts sooner than it would."""
    onenode.kubectl("delete", "pod", going, "-n", ENGINES, "--wait=false", *how)
    onenode.until(lambda: len(set(onenode.engines()) - {going}) == 2, "there is another pod")
    (coming,) = set(onenode.engines()) - {going, staying}
    return coming


def wait_for_refusal(onenode: Onenode, pod: str, *reasons: str) -> None:
    """Wait until the gate of a pod says why it lets nothing start; its log is of its last run."""
    asked = ("logs", pod, "-n", ENGINES, "-c", "weights-gate")

    def refuses() -> bool:
        said = onenode.try_kubectl(*asked).stdout
        return all(f"refused: {reason}" in said for reason in reasons)

    onenode.until(refuses, f"the gate refuses: {'; '.join(reasons)}")
