"""Bad input on the command line: one clear error, and nothing is touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.local.checkout import Checkout
from tokenworks.toolchain import Toolbox

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("refusals")]

BAD = Path(__file__).resolve().parents[1] / "cases" / "environments" / "bad"
KINDS = (
    "unknown-key",
    "duplicate-key",
    "wrong-type-text-for-number",
    "pool-without-enough-gpus",
    "model-does-not-fit",
    "unknown-model",
    "unpinned-revision",
    "two-models-of-one-name",
    "empty",
)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory, toolbox: Toolbox) -> Checkout:
    checkout = Checkout(tmp_path_factory.mktemp("refusals"), toolbox)
    shutil.copytree(BAD, checkout.path / "stacks", dirs_exist_ok=True)
    return checkout


def assert_nothing_was_touched(checkout: Checkout) -> None:
    assert not (checkout.path / ".tokenworks").exists()
    assert checkout.processes() == []


@pytest.mark.parametrize("command", ["plan", "preview", "up"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_file_is_one_error_and_touches_nothing(
    untouched: Checkout, kind: str, command: str
) -> None:
    arguments = ("--yes",) if command == "up" else ()
    done = untouched.tokenworks(command, kind, *arguments, check=False)
    (expected,) = [
        line.removeprefix("# refused: ")
        for line in (BAD / f"{kind}.yaml").read_text("utf-8").splitlines()
        if line.startswith("# refused: ")
    ]
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.rstrip().endswith(expected)
    assert len(done.stderr.splitlines()) == 1
    assert_nothing_was_touched(untouched)


def test_a_missing_environment_is_told_which_there_are(untouched: Checkout) -> None:
    done = untouched.tokenworks("up", "nowhere", "--yes", check=False)
    assert done.returncode == 1
    assert "environment: nowhere is unknown; use one of:" in done.stderr
    assert_nothing_was_touched(untouched)


def test_a_wrong_option_is_wrong_usage(untouched: Checkout) -> None:
    assert untouched.tokenworks("up", "--no-such-option", check=False).returncode == 2


def test_doctor_without_an_environment_lists_every_tool_with_its_reason(
    untouched: Checkout,
) -> None:
    done = untouched.tokenworks("doctor")
    for tool in ("pulumi", "pulumi-resource-kubernetes", "kube-apiserver", "etcd", "kwokctl"):
        assert tool in done.stdout
    assert_nothing_was_touched(untouched)


def test_a_no_leaves_no_cluster_no_stack_and_no_key(fresh: Checkout) -> None:
    done = fresh.run([*fresh.command, "up", "local"], stdin="n\n", check=False)
    assert done.returncode == 1
    assert "resources: cluster 21, serving 55" in done.stderr
    assert "you said no" in done.stderr
    assert not (fresh.path / ".tokenworks/local").exists()
    assert fresh.processes() == []
    assert json.loads(fresh.pulumi("stack", "ls", "--json").stdout) == []
    assert fresh.git_status() == ""
