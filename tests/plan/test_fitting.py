"""How replicas are spread: as asked, else over the fewest GPUs of one node that hold them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tokenworks.environment.load import load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.errors import ConfigError
from tokenworks.plan import sizes
from tokenworks.plan.resolve import resolve
from tokenworks.plan.types import Plan
from tokenworks.render import engine_files
from tokenworks.report.explain import explain

ROOT = Path(__file__).resolve().parents[2]
GOOD = ROOT / "tests" / "cases" / "environments" / "good"
MIXTURES = (GOOD / "mixtures.yaml").read_text("utf-8")
OWN = (GOOD / "own-files.yaml").read_text("utf-8")
SPREAD = "    tensor_parallel: 4\n    expert_parallel: 2\n    attention_data_parallel: true\n"

Planned = Callable[..., Plan]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    for part in ("weights", "models"):
        (tmp_path / part).symlink_to(GOOD / part)

    def plan(text: str) -> Plan:
        (tmp_path / "asked.yaml").write_text(text)
        return resolve(load_environment("asked", tmp_path), read_lock(ROOT / "stacks"))

    return plan


def own_config(folder: Path, **changes: Any) -> str:
    """An environment whose first model has its own file, with some fields changed."""
    plain = json.loads((GOOD / "models" / "qwen3-0.6b" / "config.json").read_text("utf-8"))
    (folder / "own.json").write_text(json.dumps({**plain, **changes}))
    return OWN.replace("config: models/qwen3-0.6b\n", "config: own.json\n", 1)


def engine_config(plan: Plan) -> dict[str, Any]:
    text = engine_files(plan.models[0])["config.yaml"]
    loaded: dict[str, Any] = YAML(typ="safe").load(text)
    return loaded


def test_parallelism_as_asked_reaches_the_engine(planned: Planned) -> None:
    config = engine_config(planned(MIXTURES))
    assert config["tensor_parallel_size"] == 4
    assert config["pipeline_parallel_size"] == 1
    assert config["moe_expert_parallel_size"] == 2
    assert config["enable_attention_dp"] is True
    assert config["kv_cache_config"]["free_gpu_memory_fraction"] == 0.8


def test_left_out_parallelism_is_chosen_with_its_reasons(planned: Planned) -> None:
    model = planned(MIXTURES.replace("    replicas: 1\n" + SPREAD, "")).models[0]
    assert (model.tensor_parallel.value, model.pipeline_parallel.value) == (1, 1)
    assert model.attention_data_parallel.value is False
    assert "one GPU holds all 128 experts" in model.expert_parallel.because


def test_experts_are_kept_whole_where_their_number_allows_it(planned: Planned) -> None:
    model = planned(MIXTURES.replace(SPREAD, "    tensor_parallel: 4\n")).models[0]
    assert model.expert_parallel.value == 4
    assert "each GPU holds 32 of 128 experts whole" in model.expert_parallel.because


def test_attention_on_each_gpu_is_asked_for_without_saying_on_how_many(planned: Planned) -> None:
    model = planned(
        MIXTURES.replace("    tensor_parallel: 4\n    expert_parallel: 2\n", "")
    ).models[0]
    assert model.tensor_parallel.value == 2
    assert model.memory.caches == 2


def test_layers_are_divided_where_heads_cannot_be(planned: Planned, tmp_path: Path) -> None:
    # 10 KV heads: two GPUs can share them and four cannot; 80 such layers fill three L4.
    heads = {"num_attention_heads": 40, "num_key_value_heads": 10, "num_hidden_layers": 80}
    text = own_config(tmp_path, hidden_size=5120, intermediate_size=17920, **heads)
    text = text.replace("g6.4xlarge", "g6.12xlarge").replace("nodes: 6", "nodes: 7")
    plan = planned(text)
    model = plan.models[0]
    assert (model.tensor_parallel.value, model.pipeline_parallel.value) == (2, 2)
    assert "40 attention and 10 KV heads cannot be divided over 4 GPUs" in (
        model.pipeline_parallel.because
    )
    assert engine_config(plan)["pipeline_parallel_size"] == 2
    assert plan.pools[0].gpus_used == 4 * model.replicas.value + plan.models[1].replicas.value
    assert "models[0].tensor_parallel: tensor parallelism 2 across pcie" in "\n".join(plan.notes)


def test_nvlink_is_not_flagged(planned: Planned) -> None:
    assert not [note for note in planned(MIXTURES).notes if "across" in note]


def test_stages_as_asked_take_their_gpus(planned: Planned) -> None:
    text = OWN.replace("g6.4xlarge", "g6.12xlarge").replace(
        "    peak_concurrency: 4\n", "    peak_concurrency: 4\n    pipeline_parallel: 2\n", 1
    )
    model = planned(text).models[0]
    assert model.gpus_per_replica == 2
    assert model.pipeline_parallel.because == "asked for in the environment"
    assert model.memory.weight_bytes < planned(OWN).models[0].memory.weight_bytes


def test_a_large_share_of_free_memory_is_taken_and_advised_against(planned: Planned) -> None:
    plan = planned(MIXTURES.replace("memory_percent: 80", "memory_percent: 97"))
    found = [one for one in plan.advice if one.key == "models[0].kv_cache_free_memory_percent"]
    assert [one.remedy for one in found] == ["use at most 95"]
    assert engine_config(plan)["kv_cache_config"]["free_gpu_memory_fraction"] == 0.97
    rows = {name: because for name, _, because in plan.models[0].memory.rows()}
    assert rows["KV cache"].startswith("0.97 of")
    assert plan.models[0].memory.kv_cache_bytes > planned(MIXTURES).models[0].memory.kv_cache_bytes


def test_the_default_share_is_the_engines_and_not_advised_against(planned: Planned) -> None:
    model = planned(MIXTURES).models[1]
    assert model.kv_cache_free_memory_percent.value == 90
    assert not [one for one in planned(MIXTURES).advice if "memory_percent" in one.key]


def test_a_models_own_files_win_over_the_shipped_shapes(planned: Planned, tmp_path: Path) -> None:
    shipped = planned(MIXTURES).models[0]
    assert "shipped for Qwen/Qwen3-30B-A3B" in shipped.model_shape.because
    own = planned(own_config(tmp_path, num_hidden_layers=56)).models
    assert own[0].model_shape.value.startswith("56 layers")
    assert own[0].model_shape.because == "from own.json, which the environment names"
    assert own[0].memory.kv_bytes_per_token == 2 * own[1].memory.kv_bytes_per_token


def test_a_folder_and_the_file_in_it_say_the_same(planned: Planned) -> None:
    folder, file = planned(OWN).models
    assert folder.memory == file.memory


def test_an_architecture_that_is_not_stated_is_refused(planned: Planned, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"own\.json is not understood: architectures qwen3 is"):
        planned(own_config(tmp_path, architectures=[]))


def test_a_file_that_is_no_json_is_refused(planned: Planned, tmp_path: Path) -> None:
    text = own_config(tmp_path)
    (tmp_path / "own.json").write_text("{")
    with pytest.raises(ConfigError, match=r"weights\.config: own\.json cannot be read as JSON"):
        planned(text)


def test_the_chain_of_the_engines_file_reaches_down_to_its_memory(planned: Planned) -> None:
    reached = [reason.key for reason in explain(planned(MIXTURES), "models.qwen-moe.config_file")]
    for key in ("expert_parallel", "pipeline_parallel", "kv_cache_free_memory_percent", "memory"):
        assert f"models.qwen-moe.{key}" in reached


def test_the_gate_holds_what_its_threads_read(planned: Planned) -> None:
    # 24 files on 192 processors: 128 MiB and 24 x 32 MiB.
    assert planned(MIXTURES).models[1].weights_gate_memory_mib.value == 128 + 24 * 32


def test_no_replica_schedules_more_than_the_engine_allows(tmp_path: Path) -> None:
    (tmp_path / "weights").symlink_to(GOOD / "weights")
    text = MIXTURES.replace("peak_concurrency: 2\n", "peak_concurrency: 9000\n")
    (tmp_path / "asked.yaml").write_text(text)
    few, many = load_environment("asked", tmp_path).environment.models
    assert sizes.max_batch_size(few).value == 16
    assert sizes.max_batch_size(many).value == 2048
    assert "the peak (9000) needs several replicas" in sizes.max_batch_size(many).because
