"""An environment with a real node: what is planned for it, and which images it runs."""

from __future__ import annotations

from pathlib import Path

from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import StandIn, StandIns, read_lock, read_stand_ins
from tokenworks.operations.node import INSTEAD_OF
from tokenworks.plan.nodes import system_nodes
from tokenworks.plan.resolve import resolve
from tokenworks.plan.types import Plan

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


def test_images_made_here_change_references_and_releases_and_nothing_else() -> None:
    made = [
        StandIn(instead_of=there, repository=here, digest=DIGEST)
        for here, there in INSTEAD_OF.items()
    ]
    published, local = planned(), planned(*made)
    assert all(
        reference.startswith("tokenworks.local/") and reference.endswith(f"@{DIGEST}")
        for reference in references(local)
    )
    for one, other in zip(published.models, local.models, strict=True):
        assert (one.command, one.readiness_probe) == (other.command, other.readiness_probe)
        assert one.image.tag == other.image.tag
        assert one.release != other.release


def test_what_was_made_here_is_read_back_and_nothing_is_made_where_no_file_is(
    tmp_path: Path,
) -> None:
    made = StandIn(instead_of="docker.io/a/b", repository="tokenworks.local/b", digest=DIGEST)
    file = tmp_path / "images.json"
    assert read_stand_ins(file) == ()
    file.write_text(StandIns(images=(made,)).model_dump_json())
    assert read_stand_ins(file) == (made,)
