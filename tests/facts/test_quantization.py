"""Formats of weights by the words that people and checkpoints use for them."""

from __future__ import annotations

import pytest

from tokenworks.facts.quantization import is_unquantised, scheme


@pytest.mark.parametrize(
    ("words", "bits"),
    [
        ("fp8 blockscale", 8),
        ("int4 weight-only", 4.125),
        ("awq (compressed-tensors)", 4.156),
        ("modelopt (nvfp4)", 4.5),
        ("exl2 4.0bpw", 4),
        ("GLM-5.3-Flash (tr3-3.5bpw)", 3.5),
        ("Q8_0", 8.5),
        ("model-IQ2_XXS.gguf", 2.7),
        ("8-bit", 8),
    ],
)
def test_words_state_the_bits_of_a_weight(words: str, bits: float) -> None:
    found = scheme(words)
    assert found is not None
    assert found.bytes_per_parameter * 8 == pytest.approx(bits, abs=0.01)
    assert found.ends == (found,)


@pytest.mark.parametrize("words", ["gguf", "4-bit"])
def test_words_that_leave_bits_open_have_a_wider_end(words: str) -> None:
    found = scheme(words)
    assert found is not None
    likely, widest = found.ends
    assert likely.bytes_per_parameter < widest.bytes_per_parameter


@pytest.mark.parametrize("words", ["bf16", "none", "FP16", "unquantized", "16-bit"])
def test_sixteen_bits_are_no_quantisation(words: str) -> None:
    assert is_unquantised(words)


@pytest.mark.parametrize("words", ["magic", "", None, "compressed-tensors", "Qwen3-4B", "phi-4"])
def test_other_words_state_no_format(words: str | None) -> None:
    assert scheme(words) is None
