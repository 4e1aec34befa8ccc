"""Where no way leads to a source, files come by the bucket, or the environment is refused."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.plan.aws.conftest import ROOT, planned
from tokenworks.errors import ConfigError
from tokenworks.plan.types import Plan

STACKS = ROOT / "stacks"
MANIFEST = "      manifest: weights/qwen3-32b.json\n"
LUSTRE = "    file_system: fsx-lustre\n    zone: use1-az6\n"


def notes(plan: Plan) -> list[str]:
    return [note for note in plan.notes if "that nothing leaves" in note]


def example(folder: Path, *pairs: tuple[str, str]) -> Plan:
    text = (STACKS / "example-aws.yaml").read_text("utf-8")
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    for name in ("weights", "example-hosts"):
        (folder / name).symlink_to(STACKS / name)
    (folder / "example-aws.yaml").write_text(text)
    return planned("example-aws", folder)


def sourced(source: str) -> tuple[str, str]:
    return MANIFEST, f"{MANIFEST}      source: {source}\n"


def test_each_model_has_commands_that_put_its_files_where_its_volume_shows_them() -> None:
    plan = planned("example-aws", STACKS)
    assert plan.aws is not None
    for model, note in zip(plan.models, notes(plan), strict=True):
        *folders, sync = note.partition(": aws ")[2].split(" && aws ")
        weights = model.weights
        target = f"s3://{plan.aws.storage.bucket}/weights/{weights.claim}/{weights.folder}/"
        said = shlex.split(sync)
        assert said[:2] == ["s3", "sync"]
        assert said[said.index("FOLDER") + 1] == target
        assert "file-owner=1000,file-group=1000,file-permissions=0100444" in said
        keys = [re.findall(r"--key (\S+)", folder) for folder in folders]
        revision = weights.folder.partition("/")[0]
        made = [weights.claim, f"{weights.claim}/{revision}", f"{weights.claim}/{weights.folder}"]
        assert keys == [[f"weights/{one}/"] for one in made]
        assert all("file-owner=1000" in f and "0040755" in f for f in folders)


@pytest.mark.parametrize(
    "source",
    [
        "{claim: {name: ours}}",
        "{http: {url: https://10.64.3.7/models}}",
        "{hub: {endpoint: https://models.example.org, addresses: [10.128.7.0/24]}}",
        "{hub: {endpoint: https://models.example.org, addresses: [203.0.113.0/24, 10.0.0.9/32]}}",
    ],
)
def test_a_source_inside_is_asked_itself(tmp_path: Path, source: str) -> None:
    (left,) = notes(example(tmp_path, sourced(source)))
    assert left.startswith("models[0].weights.source: https://huggingface.co")


@pytest.mark.parametrize(
    "source",
    [
        "{hub: {endpoint: https://models.example.org}}",
        "{http: {url: https://203.0.113.7/models}}",
        "{hub: {endpoint: https://models.example.org, addresses: [10.192.0.0/16]}}",
        "{hub: {endpoint: https://models.example.org, addresses: ['2001:db8::/32']}}",
    ],
)
def test_a_source_to_which_no_way_leads_needs_the_bucket(tmp_path: Path, source: str) -> None:
    assert len(notes(example(tmp_path, sourced(source)))) == 2


def test_with_a_way_out_every_source_is_asked_itself(tmp_path: Path) -> None:
    assert notes(example(tmp_path, ("egress: none", "egress: transit-gateway"))) == []


def test_public_addresses_behind_the_transit_gateway_may_have_the_source(tmp_path: Path) -> None:
    routes = "routes: [10.0.0.0/10, 10.128.0.0/16"
    assert notes(example(tmp_path, (routes, f"{routes}, 203.0.113.0/24"))) == []


def test_efs_follows_no_bucket_so_every_source_must_be_reached(tmp_path: Path) -> None:
    efs = (LUSTRE, "    file_system: efs\n")
    with pytest.raises(ConfigError) as refused:
        example(tmp_path, efs)
    found = [problem.key for problem in refused.value.problems]
    assert found == ["models[0].weights.source", "models[1].weights.source"]
