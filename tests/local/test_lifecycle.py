"""Up, down, crashes and kills: nothing is lost, doubled or left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.checkout import Checkout, comparable

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("lifecycle")]

WAIT_SECONDS = 120
RESOURCES = 21 + 55 + 2
"""Both stacks, and in the second the reference to the first with its provider."""


def start_up(checkout: Checkout) -> subprocess.Popen[bytes]:
    """`up local` in a process group of its own."""
    log = (checkout.path / "up.log").open("wb")
    return subprocess.Popen(
        [*checkout.command, "up", "local", "--yes"],
        cwd=checkout.path,
        env=checkout.variables,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.1)


def has_objects(checkout: Checkout, kind: str, count: int) -> bool:
    with contextlib.suppress(AssertionError):
        return len(checkout.get(kind, "--namespace=tokenworks-engines")) >= count
    return False


def urns(checkout: Checkout) -> Counter[str]:
    found: Counter[str] = Counter()
    for file in checkout.path.glob(".tokenworks/state/.pulumi/stacks/tokenworks/*.json"):
        latest = json.loads(file.read_text("utf-8"))["checkpoint"]["latest"]
        found.update(resource["urn"] for resource in latest.get("resources", []))
        assert not latest.get("pending_operations")
    return found


def update_processes(checkout: Checkout) -> list[str]:
    """What belongs to an update, as against the cluster: tool, engine, policy pack, program."""
    cluster = str(checkout.path / ".tokenworks" / "local")
    return [line for line in checkout.processes() if cluster not in line]


def kill_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def kill_tool_only(process: subprocess.Popen[bytes]) -> None:
    process.kill()


@pytest.mark.parametrize("kill", [kill_group, kill_tool_only])
def test_up_after_a_kill_in_the_middle_loses_and_doubles_nothing(
    fresh: Checkout, kill: Callable[[subprocess.Popen[bytes]], None]
) -> None:
    process = start_up(fresh)
    wait_for(lambda: has_objects(fresh, "deployments", 1))
    kill(process)
    process.wait()
    wait_for(lambda: not update_processes(fresh))
    done = fresh.tokenworks("up", "local", "--yes")
    assert "local-serving" in done.stderr
    found = urns(fresh)
    assert set(found.values()) == {1}
    assert len(found) == RESOURCES
    preview = json.loads(fresh.tokenworks("preview", "local", "--json").stdout)
    for counts in preview.values():
        assert not any(count for kind, count in counts.items() if kind != "same")
    deployments = fresh.get("deployments", "--all-namespaces")
    assert sorted(one["metadata"]["name"] for one in deployments) == [
        "gateway",
        "llama-3-1-8b-instruct",
        "qwen3-32b",
        "rate-limit",
        "rate-limit-store",
    ]


def test_one_ctrl_c_lets_an_update_write_down_what_it_began(fresh: Checkout) -> None:
    """A terminal sends it to everybody; Pulumi must not lose whom it tells of its progress."""
    process = start_up(fresh)
    wait_for(lambda: has_objects(fresh, "deployments", 1))
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(WAIT_SECONDS) == 1
    said = (fresh.path / "up.log").read_text("utf-8")
    assert "waiting until Pulumi has finished what it began" in said
    assert "Traceback" not in said
    wait_for(lambda: not update_processes(fresh))
    assert urns(fresh)  # and no operation is pending
    done = fresh.tokenworks("up", "local", "--yes")
    assert "cut off" not in done.stderr
    assert len(urns(fresh)) == RESOURCES


def test_down_leaves_nothing_and_a_rebuilt_environment_is_the_same(fresh: Checkout) -> None:
    fresh.tokenworks("up", "local", "--yes")
    before = comparable(fresh.objects())
    assert len(before) > 30

    leave_something(fresh)
    done = fresh.tokenworks("down", "local", "--yes", check=False)
    assert done.returncode == 1
    assert "still there: ConfigMap/default/left" in done.stderr
    fresh.kubectl("delete", "configmap", "left", "--namespace=default")

    assert "no object is left" in fresh.tokenworks("down", "local", "--yes").stderr
    assert fresh.processes() == []
    assert not fresh.kubeconfig().exists()
    assert list(fresh.path.glob(".tokenworks/state/.pulumi/stacks/tokenworks/*.json")) == []

    fresh.tokenworks("up", "local", "--yes")
    assert comparable(fresh.objects()) == before


def leave_something(checkout: Checkout) -> None:
    label = "app.kubernetes.io/part-of=tokenworks"
    checkout.kubectl("create", "configmap", "left", "--namespace=default")
    checkout.kubectl("label", "configmap", "left", "--namespace=default", label)


def test_a_crashed_cluster_is_restarted_and_a_vanished_one_is_made_again(fresh: Checkout) -> None:
    fresh.tokenworks("up", "local", "--yes")
    before = comparable(fresh.objects())

    for process in cluster_processes(fresh):
        os.kill(process, signal.SIGKILL)
    assert fresh.tokenworks("doctor", "local", check=False).returncode == 1
    assert "starting the cluster" in fresh.tokenworks("up", "local", "--yes").stderr
    assert comparable(fresh.objects()) == before

    fresh.end()  # the state remembers what is no longer there
    assert "creating the cluster" in fresh.tokenworks("up", "local", "--yes").stderr
    assert comparable(fresh.objects()) == before


def cluster_processes(checkout: Checkout) -> list[int]:
    home = str(checkout.path / ".tokenworks" / "local")
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if home in file.read_bytes().decode(errors="replace"):
                found.append(int(file.parent.name))
    assert found
    return found


def test_two_environments_live_side_by_side(fresh: Checkout) -> None:
    text = (fresh.path / "stacks/local.yaml").read_text("utf-8")
    (fresh.path / "stacks/second.yaml").write_text(text.replace("    replicas: 2\n", ""))
    fresh.tokenworks("up", "local", "--yes")
    fresh.tokenworks("up", "second", "--yes")
    first, second = fresh.objects("local"), fresh.objects("second")
    assert {label_of(one) for one in first} - {None} == {"local"}
    assert {label_of(one) for one in second} - {None} == {"second"}
    fresh.tokenworks("down", "second", "--yes")
    assert comparable(fresh.objects("local")) == comparable(first)


def label_of(one: dict[str, dict[str, dict[str, str]]]) -> str | None:
    return one["metadata"].get("labels", {}).get("tokenworks.dev/environment")
