"""TensorRT-LLM behind ``trtllm-serve``, PyTorch backend.

Sources: NVIDIA/TensorRT-LLM ``docs/source/commands/trtllm-serve/trtllm-serve.rst`` at 0434755,
``tensorrt_llm/commands/serve.py`` at 00209af, ``tensorrt_llm/serve/openai_server.py`` at 0005772,
and the release notes at 001eaec; read 2026-11-29.
"""

from __future__ import annotations

from typing import Any

from tokenworks.sizing.parallelism import Arrangement

IMAGE_REPOSITORY = "nvcr.io/nvidia/tensorrt-llm/release"
PORT = 8000
STARTED_PATH = "/health"
INFERENCE_PATH = "/health_generate"
ALIVE_PATH = "/health"
METRICS_PATH = "/prometheus/metrics"
SERVED_PATHS = ("/v1/chat/completions", "/v1/completions")

CUDA_RELEASE = {"1.1": "13.0", "1.2": "13.1"}
"""CUDA release in the image of each release series."""

MINIMUM_COMPUTE_CAPABILITY = (8, 0)
"""Ampere and later; nvidia.github.io/TensorRT-LLM/supported-hardware.html."""

NVFP4_CAPABILITY = (10, 0)
"""Blackwell and later; support matrix of NVIDIA's Model Optimizer
(nvidia.github.io/Model-Optimizer/guides/0_support_matrix.html, read 2026-11-29)."""

ARCHITECTURES = (
    "DeepseekV3ForCausalLM",
    "Exaone4ForCausalLM",
    "Gemma3ForCausalLM",
    "Glm4MoeForCausalLM",
    "GptOssForCausalLM",
    "Llama4ForConditionalGeneration",
    "LlamaForCausalLM",
    "MiniMaxM2ForCausalLM",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "NemotronForCausalLM",
    "NemotronHForCausalLM",
    "Phi3ForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM",
)
"""What the PyTorch backend loads and the memory law understands: the table of
nvidia.github.io/TensorRT-LLM/models/supported-models.html (read 2026-11-29) without models that
write no text and without those whose layers differ in ways the law does not know."""

ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "TRTLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

ACTIVATION_COEFFICIENTS = {1: 11.0, 2: 6.5, 4: 5.0, 8: 5.0}
"""Peak activation bytes are 2 x tokens x attention width x this, by tensor parallelism, at least
70 MiB; NVIDIA's estimator, ai-dynamo/aiconfigurator 0.12.0 ``sdk/memory.py`` at 095f58a."""
MINIMUM_ACTIVATION_BYTES = 70 * 2**20


def cuda_release(version: str) -> str | None:
    """The CUDA release in the image of an engine version, or None for an unknown series."""
    return CUDA_RELEASE.get(".".join(version.split(".")[:2]))


def command(model_path: str, config_path: str) -> tuple[str, ...]:
    """The container's command; what the config file can say is said only there.

    Until NVIDIA/TensorRT-LLM pull request 14812 the file silently won over the command line, since
    then the command line wins, so no parameter stands in both. The served model name is the last
    part of ``model_path``.
    """
    return (
        "trtllm-serve",
        model_path,
        "--host",
        "0.0.0.0",  # noqa: S104  (inside the pod; a NetworkPolicy lets only the gateway in)
        "--port",
        str(PORT),
        "--config",
        config_path,
    )


def config_file(
    *,
    way: Arrangement,
    kv_cache_fraction: float,
    max_batch_size: int,
    max_num_tokens: int,
    max_model_len_tokens: int,
    chunked_prefill: bool,
    block_reuse: bool,
) -> dict[str, Any]:
    """The engine's YAML file as data; an unknown key would be an error in the engine."""
    return {
        "tensor_parallel_size": way.tensor,
        "pipeline_parallel_size": way.pipeline,
        "moe_expert_parallel_size": way.expert,
        "enable_attention_dp": way.attention_data,
        "max_batch_size": max_batch_size,
        "max_num_tokens": max_num_tokens,
        "max_seq_len": max_model_len_tokens,
        "enable_chunked_prefill": chunked_prefill,
        "kv_cache_config": {
            "free_gpu_memory_fraction": kv_cache_fraction,
            "enable_block_reuse": block_reuse,
        },
        "return_perf_metrics": True,
        "enable_iter_perf_stats": True,
    }
