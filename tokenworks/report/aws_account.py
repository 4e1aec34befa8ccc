"""Tables of what an AWS account holds, and of what is to be done about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from tokenworks.aws.bootstrap import Action
from tokenworks.aws.images import Verdict
from tokenworks.aws.import_plan import ImportPlan, Unmatched
from tokenworks.aws.leftovers import Left
from tokenworks.aws.quotas import QuotaVerdict
from tokenworks.aws.state_versions import Version
from tokenworks.aws.sweep import Kept, SweepPlan
from tokenworks.report.tables import filled


def actions_table(actions: Iterable[Action]) -> Table:
    """What bootstrap will do, in order."""
    return filled("", ["to do", "because"], ([each.what, each.because] for each in actions))


def sweep_tables(plan: SweepPlan) -> RenderableType:
    """What goes, in order, and what stays, each with its reason."""
    steps = ([each.kind, each.id, each.name, each.because] for each in plan.steps)
    parts: list[RenderableType] = [
        filled("to delete, in this order", ["kind", "id", "name", "ours by"], steps)
        if plan.steps
        else "nothing to delete"
    ]
    if data := [step.id for step in plan.steps if step.may_hold_data]:
        parts.append(f"may hold data of claims: {', '.join(data)}")
    for title, kept in (
        ("ours, and stays while the cluster exists", plan.waiting),
        ("ours, and something keeps it", plan.blocked),
        ("in our network, and not ours by any tag: never touched", plan.strangers),
    ):
        parts += [_kept(title, kept)] if kept else []
    return Group(*parts)


def _kept(title: str, kept: Sequence[Kept]) -> Table:
    rows = ([each.kind, each.id, each.name, each.because] for each in kept)
    return filled(title, ["kind", "id", "name", "because"], rows)


def adoption_tables(plans: Iterable[ImportPlan], strangers: Sequence[Unmatched]) -> RenderableType:
    """What each stack can adopt, and what is left to people."""
    parts: list[RenderableType] = []
    for plan in plans:
        adopted = ([m.expected.type, m.expected.name, m.id] for m in plan.matches)
        if plan.matches:
            parts.append(filled(f"{plan.stack}: to adopt", ["type", "name", "id"], adopted))
        if plan.unclear:
            parts.append(_unmatched(f"{plan.stack}: to look at", plan.unclear))
        if plan.missing:
            parts.append(f"{plan.stack}: {len(plan.missing)} do not exist; an update makes them")
    if strangers:
        parts.append(_unmatched("ours, and in no program", strangers))
    return Group(*parts) if parts else "nothing of this environment exists"


def _unmatched(title: str, unmatched: Iterable[Unmatched]) -> Table:
    rows = ([each.type, each.name, each.because] for each in unmatched)
    return filled(title, ["type", "name", "because"], rows)


def images_table(verdicts: Iterable[Verdict]) -> Table:
    """Each image of ours, newest first, whether it goes, and why."""
    words = {True: "goes", False: "stays"}
    rows = (
        [words[each.goes], each.image.id, each.image.name, each.image.created, each.because]
        for each in verdicts
    )
    return filled("", ["", "image", "name", "made", "because"], rows)


def quotas_table(verdicts: Iterable[QuotaVerdict]) -> Table:
    """Each quota: needed, had, used, and whether that is enough."""
    words = {True: "enough", False: "short", None: "unknown"}
    rows = (
        [
            words[each.enough],
            f"{each.need.name} ({each.need.code})",
            f"{each.need.needed} {each.need.unit}",
            _number(each.quota.limit),
            _number(each.quota.used),
            each.because,
            each.need.because,
        ]
        for each in verdicts
    )
    headings = ["", "quota", "needed", "quota is", "used", "because", "needed for"]
    return filled("", headings, rows)


def versions_table(versions: Iterable[Version]) -> Table:
    """Versions of a state, newest first."""
    rows = ([each.id, each.when, _content(each)] for each in versions)
    return filled("", ["version", "written", "holds"], rows)


def kept_table(left: Left) -> Table:
    """What stays of an environment on purpose."""
    return filled("kept on purpose", ["resource"], ([each.arn] for each in left.kept))


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def _content(version: Version) -> str:
    if version.deleted:
        return "a deletion"
    if version.resources is None:
        return "nothing that Pulumi can read"
    latest = ", the latest" if version.is_latest else ""
    pending = f", {version.pending} operations under way" if version.pending else ""
    return f"{version.resources} resources{pending}{latest}"
