"""Where a model may be split: by its heads, within a node, over fast links."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tokenworks.facts.model_reading import read_document
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.shipped_models import model_shapes
from tokenworks.sizing.parallelism import (
    Machines,
    Wanted,
    arrangements,
    choose,
    tensor_parallel_sizes,
)

P5 = Machines(nodes=2, gpus_per_node=8, interconnect="nvswitch")
G6 = Machines(nodes=2, gpus_per_node=4, interconnect="pcie")


def shape(name: str) -> ModelConfig:
    return read_document(name, model_shapes()[name])


LLAMA = shape("meta-llama/Llama-3.1-8B-Instruct")
PHI = "microsoft/phi-4"


def test_heads_that_do_not_divide_are_not_split() -> None:
    # Qwen2.5-7B has 28 attention heads, Phi-4 has 10 KV heads.
    assert tensor_parallel_sizes(shape("Qwen/Qwen2.5-7B-Instruct"), 8) == (1, 2, 4)
    assert tensor_parallel_sizes(shape(PHI), 8) == (1, 2)


def test_few_kv_heads_are_held_more_than_once() -> None:
    assert 8 in tensor_parallel_sizes(shape("Qwen/Qwen3-235B-A22B-FP8"), 8)


def test_tensor_parallelism_stays_within_a_node() -> None:
    assert max(way.tensor for way in arrangements(LLAMA, G6)) == 4


def test_stages_cross_nodes_and_say_so() -> None:
    ways = list(arrangements(LLAMA, P5))
    assert [way.pipeline for way in ways] == [1, 1, 1, 1, 2]
    assert "cross nodes" in ways[-1].notes[0]
    assert ways[-1].gpus_per_replica == 16


def test_stages_within_a_node_are_for_heads_that_no_more_gpus_divide() -> None:
    # Phi-4 has 10 KV heads, which 2 divides and 4 does not.
    ways = [(way.tensor, way.pipeline, way.nodes) for way in arrangements(shape(PHI), P5)]
    assert ways == [(1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 4, 1), (2, 8, 2)]


def test_what_is_asked_for_is_what_is_tried() -> None:
    wanted = Wanted(tensor=2, pipeline=4)
    assert [(w.tensor, w.pipeline) for w in arrangements(LLAMA, P5, wanted)] == [(2, 4)]
    assert {w.pipeline for w in arrangements(LLAMA, P5, Wanted(tensor=4))} == {1}
    assert [w.tensor for w in arrangements(LLAMA, P5, Wanted(pipeline=2))] == [1, 2, 4, 8]
    assert not list(arrangements(LLAMA, P5, Wanted(tensor=3)))
    assert not list(arrangements(LLAMA, P5, Wanted(tensor=8, pipeline=4)))


def test_attention_is_spread_over_several_gpus_or_not_at_all() -> None:
    mixture, wanted = shape("openai/gpt-oss-120b"), Wanted(attention_data=True)
    assert [way.caches for way in arrangements(mixture, P5, wanted)][:3] == [2, 4, 8]
    assert {way.caches for way in arrangements(mixture, P5)} == {1}


def test_experts_are_spread_as_asked_where_that_divides() -> None:
    ways = arrangements(shape("openai/gpt-oss-120b"), P5, Wanted(expert=4))
    assert [(way.tensor, way.expert) for way in ways][:2] == [(4, 4), (8, 4)]


def test_tensor_parallelism_over_pcie_is_flagged_and_over_nvlink_is_not() -> None:
    assert [bool(way.notes) for way in arrangements(LLAMA, G6)][:3] == [False, True, True]
    assert [bool(way.notes) for way in arrangements(LLAMA, P5)][:4] == [False] * 4


def test_experts_are_shared_where_their_number_allows() -> None:
    mixture = list(arrangements(shape("openai/gpt-oss-120b"), P5))
    assert [way.expert for way in mixture][:4] == [1, 2, 4, 8]
    assert {way.expert for way in arrangements(LLAMA, P5)} == {1}


def test_the_fewest_gpus_that_fit_are_chosen_and_the_rest_are_replicas() -> None:
    chosen = choose(LLAMA, P5, lambda way: way.gpus_per_replica >= 4)
    assert chosen is not None
    assert (chosen.tensor, chosen.data) == (4, 4)
    assert choose(LLAMA, P5, lambda _: False) is None


@given(
    st.sampled_from(sorted(name for name, r in model_shapes().items() if "intermediate_size" in r)),
    st.integers(1, 4),
    st.sampled_from([1, 2, 4, 8]),
)
def test_no_arrangement_takes_more_gpus_than_there_are(name: str, nodes: int, size: int) -> None:
    machines = Machines(nodes=nodes, gpus_per_node=size, interconnect="pcie")
    for way in arrangements(shape(name), machines):
        assert way.gpus_per_replica * way.data <= machines.gpus
        assert way.data >= 1
