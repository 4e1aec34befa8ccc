"""Changes under constant load: nobody loses a request, and no answer is cut."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from subprocess import CompletedProcess

from tests.node.departures import Departure, watched
from tests.node.harness import ENGINES, ENVIRONMENT, GATEWAY, MODEL, Onenode
from tests.node.load import Slowly, under_load
from tests.node.release import REVISION, ask_for_another_revision
from tokenworks.plan.model import ENDPOINT_REMOVAL_SECONDS

REVISION_FOLDER = re.compile("[0-9a-f]{12}-[0-9a-f]{12}")
LATER_SECONDS = 3
"""So much longer than its drain a pod must have stayed for its streams; times are whole seconds."""


def test_a_release_and_other_gateways_lose_no_request_and_cut_no_stream(onenode: Onenode) -> None:
    """Everything at once: files, then engines with them, then the old files go; and gateways."""
    onenode.settle()
    leaving = {"engine": onenode.engines(), "gateway": onenode.gateways()}
    names = {name for pods in leaving.values() for name in pods}
    (old,) = revisions(onenode)
    ask_for_another_revision(onenode)
    # Also how long a gateway may take to leave, so all of them are replaced.
    gateway = "gateway:\n"
    onenode.checkout.edit("stacks/onenode.yaml", gateway, f"{gateway}  max_request_seconds: 500\n")
    with (
        watched(onenode, (ENGINES, GATEWAY)) as left,
        under_load(onenode, long=True) as load,
        ThreadPoolExecutor(1) as pool,
    ):
        up = pool.submit(onenode.checkout.tokenworks, "up", ENVIRONMENT, "--yes")
        seen = looked_at(onenode, up)
        load.enough.set()
        said = up.result().stderr
        answered = load.answered
        onenode.until(lambda: load.answered > answered + 20, "the new ones answer")
        onenode.until(lambda: names <= left.all().keys(), "the old ones have left")
        departures = left.all()
    assert f"{ENVIRONMENT}-cluster: nothing changed" in said
    assert "starting the node" not in said
    (new,) = revisions(onenode)
    assert new.startswith(REVISION[:12])
    assert {old, new} in seen
    assert (load.lost, load.cut) == ([], [])
    assert load.long > 20
    for role, pods in leaving.items():
        assert_they_stayed_for_their_streams([departures[name] for name in pods], role)
    assert names.isdisjoint({*onenode.engines(), *onenode.gateways()})


def revisions(onenode: Onenode) -> set[str]:
    """The revisions on the volume."""
    folders = (each for each in onenode.volume.iterdir() if (each / MODEL).is_dir())
    return {each.name for each in folders if REVISION_FOLDER.fullmatch(each.name)}


def looked_at(onenode: Onenode, up: Future[CompletedProcess[str]]) -> list[set[str]]:
    """Slow engines down while an update runs; returns what was on the volume meanwhile."""
    slowly, seen = Slowly(onenode), []
    while not up.done():
        slowly.look()
        seen.append(revisions(onenode))
        time.sleep(1)
    return seen


def assert_they_stayed_for_their_streams(departures: Collection[Departure], role: str) -> None:
    """One did that still had some; a pod that a busy machine found not ready had none left."""
    assert [each for each in departures if each.exit_code] == []
    longest = max(each.seconds for each in departures)
    assert longest >= ENDPOINT_REMOVAL_SECONDS + LATER_SECONDS, (role, departures)


def test_a_node_that_is_drained_keeps_one_pod_of_each_until_others_can_run(
    onenode: Onenode,
) -> None:
    """Whatever has no other place to go: engines and gateways, names, and the store of budgets."""
    names = {"engine": onenode.engines(), "gateway": onenode.gateways()}
    arguments = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=10s")
    try:
        with under_load(onenode) as load:
            done = onenode.try_kubectl("drain", "this-machine-0", *arguments)
            stayed = {"engine": onenode.engines(), "gateway": onenode.gateways()}
        assert done.returncode != 0
        for role, before in names.items():
            (kept,) = set(before) & set(stayed[role])
            assert re.search(rf'"{kept}".*disruption budget', done.stderr), done.stderr
        assert (load.lost, load.cut) == ([], [])
        assert load.answered > 20
    finally:
        onenode.kubectl("uncordon", "this-machine-0")
