"""An environment with a real node: what is planned for it, and which images it runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

from tokenworks.engines import tensorrt_llm
from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import StandIn, StandIns, read_lock, read_stand_ins
from tokenworks.environment.sections import Engine
from tokenworks.operations.node import INSTEAD_OF
from tokenworks.operations.record import record_environment
from tokenworks.plan.nodes import system_nodes
from tokenworks.plan.resolve import resolve
from tokenworks.plan.types import Plan
from tokenworks.workspace import Workspace

STACKS = Path(__file__).resolve().parents[2] / "stacks"
DIGEST = f"sha256:{'ab' * 32}"


def planned(*stand_ins: StandIn) -> Plan:
    lock = read_lock(STACKS).model_copy(update={"stand_ins": stand_ins})
    return resolve(load_environment("onenode", STACKS), lock)


def references(plan: Plan) -> list[str]:
    service = plan.gateway.rate_limit
    assert service is not None
    images = [plan.gateway.image, service.image, service.store_image]
    return [image.reference for image in (*images, *(model.image for model in plan.models))]


def test_the_real_node_is_the_only_one_that_can_have_a_gateway() -> None:
    plan = planned()
    assert plan.real_pool is not None
    assert plan.real_pool.name == "this-machine"
    assert system_nodes(plan) == ()


def test_without_images_made_here_the_published_ones_are_planned() -> None:
    assert all(".local/" not in reference for reference in references(planned()))


def made_here() -> list[StandIn]:
    return [
        StandIn(instead_of=there, repository=here, digest=DIGEST)
        for here, there in INSTEAD_OF.items()
    ]


JOB = re.compile(r"-(populate|collect)-[0-9a-f]{10}\b")
"""Jobs cannot change, so they are named after what they are."""


def registered(plan: Plan) -> dict[str, Any]:
    """Everything that the programs register, without images, releases and names of Jobs."""
    resources = [
        {
            "type": one.type,
            "name": f"{program}/{one.name}",
            "inputs": one.inputs,
            "parent": one.parent,
            "options": {**vars(one.options), "depends_on": sorted(one.options.depends_on)},
            "ignored": one.ignore_changes,
        }
        for program, recording in record_environment(Workspace(STACKS.parent), plan).items()
        for one in recording.resources
    ]
    text = json.dumps(resources, default=repr)
    for reference in set(references(plan)):
        assert f'"{reference}"' in text
        here = reference.partition("@")[0].rpartition(":")[0]
        text = text.replace(f'"{reference}"', f'"image of {INSTEAD_OF.get(here, here)}"')
    for model in plan.models:
        assert f'"{model.release}"' in text
        text = text.replace(f'"{model.release}"', f'"release of {model.name}"')
    found: list[dict[str, Any]] = json.loads(JOB.sub(r"-\1", text))
    for one in found:
        one["options"]["depends_on"].sort()
    return {f"{one['type']} {one['name']}": one for one in found}


def test_images_made_here_change_references_and_releases() -> None:
    published, local = planned(), planned(*made_here())
    assert all(
        reference.startswith("tokenworks.local/") and reference.endswith(f"@{DIGEST}")
        for reference in references(local)
    )
    for one, other in zip(published.models, local.models, strict=True):
        assert one.image.tag == other.image.tag
        assert one.release != other.release


def test_images_made_here_change_nothing_else_that_is_registered() -> None:
    published, local = registered(planned()), registered(planned(*made_here()))
    assert len(published) > 50
    assert any("Deployment" in name and "gateway" in name for name in published)
    assert published.keys() == local.keys()
    for name, one in published.items():
        assert one == local[name], name


def test_every_engine_that_an_environment_can_name_has_an_image_that_runs_on_the_real_node() -> (
    None
):
    engines = get_args(Engine.model_fields["name"].annotation)
    assert set(engines) == {"tensorrt-llm"}
    assert tensorrt_llm.IMAGE_REPOSITORY in INSTEAD_OF.values()


def test_what_was_made_here_is_read_back_and_nothing_is_made_where_no_file_is(
    tmp_path: Path,
) -> None:
    made = StandIn(instead_of="docker.io/a/b", repository="tokenworks.local/b", digest=DIGEST)
    file = tmp_path / "images.json"
    assert read_stand_ins(file) == ()
    file.write_text(StandIns(images=(made,)).model_dump_json())
    assert read_stand_ins(file) == (made,)
