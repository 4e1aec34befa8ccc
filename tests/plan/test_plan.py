"""Plans: decided alike every time, with a reason for everything."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planning import planner
from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.plan.nodes import gpu_nodes, system_nodes
from tokenworks.plan.resolve import resolve
from tokenworks.plan.types import Decided, Plan
from tokenworks.show import to_data

ROOT = Path(__file__).resolve().parents[2]
LOCAL = (ROOT / "stacks" / "local.yaml").read_text("utf-8")


def plan_of(folder: Path, text: str = LOCAL) -> Plan:
    (folder / "weights").symlink_to(ROOT / "stacks" / "weights")
    (folder / "local.yaml").write_text(text)
    return resolve(load_environment("local", folder), read_lock(ROOT / "stacks"))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(tmp_path)


def decisions(part: Any) -> Iterator[Decided[Any]]:
    if isinstance(part, Decided):
        yield part
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from decisions(getattr(part, field.name))
    elif isinstance(part, tuple):
        for child in part:
            yield from decisions(child)


def test_two_plans_of_one_environment_are_the_same_bytes(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        texts.append(json.dumps(to_data(plan_of(folder))))
    assert texts[0] == texts[1]


def test_every_decision_has_a_reason(plan: Plan) -> None:
    found = list(decisions(plan))
    assert len(found) > 20
    assert all(len(decided.because) > 10 for decided in found)


def test_no_parameter_is_given_both_in_the_command_and_in_the_engine_file(plan: Plan) -> None:
    for model in plan.models:
        flags = {word.lstrip("-") for word in model.command if word.startswith("--")}
        assert flags == {"host", "port", "config"}
        assert not flags & set(model.config_file.value)


def test_the_tensor_parallel_model_is_split_and_the_small_one_is_not(plan: Plan) -> None:
    sizes = {model.name: model.tensor_parallel.value for model in plan.models}
    assert sizes == {"llama-3-1-8b-instruct": 1, "qwen3-32b": 2}


def test_tenants_do_not_share_a_prefix_cache(plan: Plan, tmp_path: Path) -> None:
    assert len(plan.gateway.tenants) == 2
    caches = [m.config_file.value["kv_cache_config"] for m in plan.models]
    assert [cache["enable_block_reuse"] for cache in caches] == [False, False]
    alone = LOCAL[: LOCAL.index("    - name: assistant")]
    folder = tmp_path / "alone"
    folder.mkdir()
    caches = [m.config_file.value["kv_cache_config"] for m in plan_of(folder, alone).models]
    assert [cache["enable_block_reuse"] for cache in caches] == [True, True]


def test_the_plan_says_why_salts_do_not_open_the_prefix_cache(plan: Plan) -> None:
    for model in plan.models:
        assert "salt" in model.config_file.because
        assert f"{model.engine} {model.engine_version}" in model.config_file.because


def test_a_budget_that_callers_can_exceed_by_more_than_itself_is_advised_against(
    plan: Plan, tmp_path: Path
) -> None:
    def found(plan: Plan) -> list[str]:
        return [str(one) for one in plan.advice if "tokens_per_minute" in one.key]

    (assistant,) = found(plan)
    assert assistant.startswith("gateway.tenants[1].tokens_per_minute: up to 2,")
    assert "the 500,000 of a minute" in assistant
    folder = tmp_path / "enough"
    folder.mkdir()
    enough = LOCAL.replace("500000", "3000000").replace("      default_max_tokens: 512\n", "")
    (search,) = found(plan_of(folder, enough))
    assert search.startswith("gateway.tenants[0].tokens_per_minute: up to 2,189,824 tokens beyond")
    assert "the 200,000 of a minute" in search


def test_a_tenant_whose_answers_have_a_default_cannot_exceed_its_budget(plan: Plan) -> None:
    search, assistant = plan.gateway.tenants
    assert search.tokens
    assert assistant.tokens
    assert search.default_max_tokens == 512
    assert search.tokens.overshoot.value == 0
    assert "512" in search.tokens.overshoot.because
    assert assistant.default_max_tokens is None
    assert (assistant.tokens.overshoot.value or 0) > 0


def test_left_out_replicas_follow_from_the_peak(tmp_path: Path) -> None:
    text = LOCAL.replace(
        "    peak_concurrency: 12\n    replicas: 2\n", "    peak_concurrency: 40\n"
    )
    qwen = plan_of(tmp_path, text).models[1]
    assert qwen.memory.sequences == 9
    assert qwen.replicas.value == 6  # 40 / 9 x 1.3 = 5.8, and one more than 5
    assert "40 / 9" in qwen.replicas.because


def test_left_out_tensor_parallelism_is_the_smallest_that_fits(tmp_path: Path) -> None:
    text = LOCAL.replace("    replicas: 2\n    tensor_parallel: 2\n", "").replace("32768", "8192")
    assert plan_of(tmp_path, text).models[1].tensor_parallel.value == 1


def test_replicas_that_cannot_lose_one_are_allowed_and_noted(tmp_path: Path) -> None:
    text = LOCAL.replace("peak_concurrency: 12", "peak_concurrency: 18")
    assert plan_of(tmp_path, text).notes[-1] == (
        "models[1].replicas: 2 carry the peak of 18 only while all are up; 3 would survive a "
        "failure."
    )


def test_replicas_that_survive_a_failure_are_not_noted(tmp_path: Path) -> None:
    text = LOCAL.replace("peak_concurrency: 12", "peak_concurrency: 9")
    assert not [note for note in plan_of(tmp_path, text).notes if "models[1].replicas" in note]


def test_a_release_changes_with_image_weights_and_engine_settings_only(tmp_path: Path) -> None:
    def release(name: str, text: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        return plan_of(folder, text).models[1].release

    same = release("same", LOCAL)
    assert release("replica", LOCAL.replace("    replicas: 2\n", "    replicas: 3\n")) == same
    assert release("nodes", LOCAL.replace("nodes: 2", "nodes: 4")) == same
    assert release("context", LOCAL.replace("32768", "16384")) != same


def test_probes_leave_an_engine_the_time_it_needs(plan: Plan) -> None:
    for model in plan.models:
        probe = model.startup_probe.value
        needed = model.cold_start.value.engine_seconds
        assert probe.period_seconds * probe.failure_threshold >= needed
        for other in (model.startup_probe, model.readiness_probe, model.liveness_probe):
            assert other.value.timeout_seconds >= 5
        assert model.readiness_probe.value.path == "/health_generate"
        assert (
            model.progress_deadline_seconds.value > probe.period_seconds * probe.failure_threshold
        )


def test_an_engine_that_hangs_is_killed_long_before_one_that_drains_would_be(plan: Plan) -> None:
    for model in plan.models:
        for probe in (model.startup_probe.value, model.liveness_probe.value):
            assert probe.kill_seconds is not None
            # The drain is counted in: without time beyond it, no engine could end by itself.
            assert probe.kill_seconds > model.drain_seconds.value
            assert probe.kill_seconds <= 60 < model.termination_grace_seconds.value
        # The API server refuses one for readiness, which ends nothing.
        assert model.readiness_probe.value.kill_seconds is None


def test_shared_memory_fits_into_the_memory_of_the_pod(plan: Plan) -> None:
    for model in plan.models:
        assert model.shared_memory_mib.value < model.host_memory_mib.value


def test_a_stopping_engine_finishes_the_longest_request(plan: Plan) -> None:
    longest = plan.gateway.max_request_seconds.value
    for model in plan.models:
        assert model.termination_grace_seconds.value >= model.drain_seconds.value + longest


def test_the_gateway_forwards_what_is_in_flight_at_the_peak(plan: Plan) -> None:
    for engines, model in zip(plan.gateway.models, plan.models, strict=True):
        assert engines.model == model.name
        assert engines.max_concurrent_requests >= model.capacity.peak_sequences.value


def test_without_traffic_the_gateway_forwards_twice_the_peak(tmp_path: Path) -> None:
    text = re.sub(r"    traffic:\n(      .*\n)+", "", LOCAL)
    models = plan_of(tmp_path, text).gateway.models
    assert [model.max_concurrent_requests for model in models] == [12, 24]


def calls_of(models: int) -> int:
    """Calls of Python functions that planning so many models takes."""
    plan, calls = planner(models), 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    plan()
    sys.setprofile(count)
    try:
        plan()
    finally:
        sys.setprofile(None)
    return calls


def test_the_work_of_a_plan_grows_with_its_models_and_no_faster() -> None:
    assert 3 < calls_of(40) / calls_of(10) < 4.4


def test_nodes_carry_the_labels_and_the_taint_of_real_gpu_nodes(plan: Plan) -> None:
    node = gpu_nodes(plan, plan.pools[0])[0]
    assert node.labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert node.labels["nvidia.com/cuda.driver-version.major"] == "580"
    assert node.capacity["nvidia.com/gpu"] == "8"
    assert [taint.key for taint in node.taints] == ["nvidia.com/gpu"]


def test_system_nodes_have_no_gpus_and_no_taint(plan: Plan) -> None:
    for node in system_nodes(plan):
        assert "nvidia.com/gpu" not in node.capacity
        assert node.taints == ()


def test_replicas_of_one_node_fit_into_its_host_memory(plan: Plan) -> None:
    for model in plan.models:
        pool = next(pool for pool in plan.pools if pool.name == model.node_pool)
        per_node = pool.instance.gpu_count // model.tensor_parallel.value
        allocatable = int(gpu_nodes(plan, pool)[0].allocatable["memory"].removesuffix("Mi"))
        assert per_node * model.host_memory_mib.value <= allocatable
