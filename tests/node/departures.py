"""How pods left: when they were asked to, when their containers ended, and with what status."""

from __future__ import annotations

import datetime
import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.node.harness import Onenode


@dataclass(frozen=True, kw_only=True)
class Departure:
    """One pod that left; ``seconds`` from being asked to until its container had ended."""

    pod: str
    seconds: float
    exit_code: int


@dataclass(frozen=True)
class Departures:
    """What was seen so far."""

    folder: Path

    def all(self) -> dict[str, Departure]:
        """Every pod that left, by its name."""
        texts = (file.read_text("utf-8") for file in self.folder.iterdir())
        asked: dict[str, datetime.datetime] = {}
        found: dict[str, Departure] = {}
        for pod in (pod for text in texts for pod in _objects(text)):
            metadata, ended = pod["metadata"], _ended(pod)
            if "deletionTimestamp" not in metadata:
                continue
            # Later ones are of the kubelet, which deletes what has ended.
            began = asked.setdefault(metadata["name"], _asked(metadata))
            if ended is not None:
                finished = datetime.datetime.fromisoformat(ended["finishedAt"])
                found[metadata["name"]] = Departure(
                    pod=metadata["name"],
                    seconds=(finished - began).total_seconds(),
                    exit_code=ended["exitCode"],
                )
        return found


@contextmanager
def watched(onenode: Onenode, namespaces: tuple[str, ...]) -> Iterator[Departures]:
    """Look at the pods of some namespaces all the time."""
    program = str(onenode.checkout.toolbox.path("kubectl"))
    config = f"--kubeconfig={onenode.checkout.kubeconfig('onenode')}"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for namespace in namespaces:
            seen = stack.enter_context((Path(folder) / namespace).open("w"))
            watch = ("get", "pods", "-n", namespace, "--watch", "--output=json")
            watching = subprocess.Popen([program, config, *watch], stdout=seen)
            stack.callback(watching.wait)
            stack.callback(watching.terminate)
        yield Departures(Path(folder))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Objects that stand one after the other; the last one may not be whole yet."""
    decoder, at = json.JSONDecoder(), 0
    while (start := text.find("{", at)) >= 0:
        try:
            found, at = decoder.raw_decode(text, start)
        except ValueError:
            return
        yield found


def _ended(pod: dict[str, Any]) -> dict[str, Any] | None:
    """How a pod's container ended; None while it runs."""
    status = pod["status"].get("containerStatuses", [])
    ended: dict[str, Any] | None = status[0]["state"].get("terminated") if status else None
    return ended


def _asked(metadata: dict[str, Any]) -> datetime.datetime:
    """When a pod was asked to leave: written down is when it has to be gone."""
    grace = datetime.timedelta(seconds=metadata["deletionGracePeriodSeconds"])
    return datetime.datetime.fromisoformat(metadata["deletionTimestamp"]) - grace
