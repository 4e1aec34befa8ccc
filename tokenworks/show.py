"""Plans, statuses and counts as tables for people and as JSON for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Group, RenderableType
from rich.table import Table

from tokenworks.operations.doctor import Finding
from tokenworks.operations.stacks import Changes
from tokenworks.plan.types import Decided, ModelPlan, Plan, ServerPlan, WeightsPlan
from tokenworks.report.aws import aws_tables
from tokenworks.report.fleet import (
    advice_table,
    capacity_table,
    cold_start_table,
    memory_bars,
    surge_table,
)
from tokenworks.report.gateway import gateway_tables
from tokenworks.report.money import cost_tables
from tokenworks.sizing.memory import GIB
from tokenworks.toolchain import ToolStatus


def to_data(value: Any) -> Any:
    """A plan or status as plain JSON data, with every decision beside its reason.

    Exact sums become decimal text of twelve places, so that no cent is lost in a float.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): to_data(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_data(child) for child in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Fraction):
        return f"{Decimal(value.numerator) / Decimal(value.denominator):.12f}"
    return str(value) if isinstance(value, (Path, Decimal, date)) else value


def plan_tables(plan: Plan) -> RenderableType:
    """A plan as tables: pools, memory, capacity, starts, decisions, cost, notes, advice."""
    parts: list[RenderableType] = [
        _pools(plan),
        memory_bars(plan),
        _decisions(f"{plan.environment}: decisions", _decided_rows(plan)),
    ]
    for model in plan.models:
        parts += [
            _memory(model),
            capacity_table(model),
            surge_table(model),
            cold_start_table(model, plan.weights_read_mib_per_second),
            _decisions(f"{model.name}: decisions", _model_rows(model)),
        ]
    parts.append(_decisions("gateway: decisions", _decided_rows(plan.gateway)))
    parts += gateway_tables(plan.gateway, plan.gateway_pods)
    parts += cost_tables(plan.cost)
    parts += aws_tables(plan.aws, datetime.now(UTC).date()) if plan.aws else []
    parts += [f"note: {note}" for note in plan.notes]
    parts += [advice_table(plan)] if plan.advice else []
    return Group(*parts)


def changes_table(changes: Mapping[str, Changes]) -> Table:
    """Counts of each stack, side by side."""
    kinds = [field.name for field in fields(Changes)]
    table = _table("", "stack", *kinds)
    for stack, counts in changes.items():
        table.add_row(stack, *(str(count) for count in asdict(counts).values()))
    return table


def tools_table(tools: Iterable[ToolStatus]) -> Table:
    """Each tool: where it comes from, and why from there."""
    table = _table("", "tool", "state", "version", "because", "path")
    for tool in tools:
        place = str(tool.path) if tool.path else ""
        table.add_row(tool.name, tool.state.value, tool.version or "", tool.because, place)
    return table


def findings_table(findings: Iterable[Finding]) -> Table:
    """Each thing that was looked at, whether it is well, and what to do if not."""
    words = {True: "good", False: "bad", None: "unknown"}
    table = _table("", "", "what", "seen", "to do")
    for finding in findings:
        table.add_row(words[finding.well], finding.subject, finding.seen, finding.remedy)
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _pools(plan: Plan) -> Table:
    table = _table(
        f"{plan.environment} on {plan.platform}",
        "node pool", "nodes", "instance", "GPUs", "used", "usable GiB each", "driver",
    )  # fmt: skip
    for pool in plan.pools:
        table.add_row(
            pool.name,
            str(pool.nodes),
            pool.instance.name,
            f"{pool.gpus} x {pool.gpu.name}",
            str(pool.gpus_used),
            f"{pool.gpu.usable_gib:.2f}",
            pool.driver_version,
        )
    return table


def _memory(model: ModelPlan) -> Table:
    memory = model.memory
    table = _table(f"{model.name}: memory of each GPU", "part", "GiB", "share", "because")
    spare = memory.usable_bytes - sum(size for _, size, _ in memory.rows())
    sampling = f"sampling takes {memory.after_bytes / GIB:.2f} GiB of it and of the activations'"
    kept = ("kept free", spare, f"for what no law foresees; {sampling}")
    usable = ("usable", memory.usable_bytes, "what engines report, not the catalogue")
    for name, size, because in (*memory.rows(), kept, usable):
        table.add_row(name, f"{size / GIB:.2f}", f"{size / memory.usable_bytes:.0%}", because)
    held = f"{memory.kv_cache_tokens} tokens, {memory.kv_bytes_per_token} bytes each on each GPU"
    full = f"{memory.sequences} sequences of {memory.max_model_len_tokens} tokens"
    table.add_row("KV cache holds", "", "", f"{held}: {full}")
    for bound in memory.bounds:
        table.add_row("safe end", "", "", bound)
    return table


def _model_rows(model: ModelPlan) -> Iterable[tuple[str, str, str]]:
    yield "engine", f"{model.engine} {model.engine_version}", f"image {model.image.reference}"
    yield "release", model.release, "image, weights and engine configuration, as one"
    yield (
        "weights",
        f"{model.weights.total_bytes / 10**9:.1f} GB",
        f"{model.weights.repository} at {model.weights.revision}",
    )
    yield from _weights_rows(model.weights)
    yield from _decided_rows(model)


def _weights_rows(weights: WeightsPlan) -> Iterable[tuple[str, str, str]]:
    """Where weights come from, and how the volume is filled."""
    source = weights.populate.source
    if isinstance(source, ServerPlan):
        token = ", with a token" if source.token_secret else ""
        yield "weights source", source.url, f"a server{token}; each path of the manifest below it"
    else:
        yield "weights source", f"{source.claim}: {source.folder}", "a volume of the cluster"
    if weights.populate.reach is not None:
        reach = weights.populate.reach
        yield "weights reach", str(reach.value), reach.because
    for part in (weights, weights.populate):
        for name, value, because in _decided_rows(part):
            if name != "reach":
                yield f"weights {name}", value, because


def _decided_rows(part: Any) -> Iterable[tuple[str, str, str]]:
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, Decided):
            yield field.name, _short(value.value), value.because


def _short(value: Any) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        return _short(asdict(value))
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {child}" for key, child in _flat(value))
    return str(value)


def _flat(value: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Nested keys as dotted ones."""
    for key, child in value.items():
        if isinstance(child, Mapping):
            yield from ((f"{key}.{inner}", leaf) for inner, leaf in _flat(child))
        else:
            yield key, child


def _decisions(title: str, rows: Iterable[tuple[str, str, str]]) -> Table:
    table = _table(title, "decision", "value", "because")
    for row in rows:
        table.add_row(*row)
    return table
