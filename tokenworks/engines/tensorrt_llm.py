"""TensorRT-LLM behind ``trtllm-serve``, PyTorch backend.

Sources: NVIDIA/TensorRT-LLM ``docs/source/commands/trtllm-serve/trtllm-serve.rst`` at 0434755,
``tensorrt_llm/commands/serve.py`` at 00209af, ``tensorrt_llm/serve/openai_server.py`` at 0005772,
and the release notes at 001eaec; read 2026-11-29.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenworks.facts.models import ModelConfig
from tokenworks.sizing.memory import GIB, kv_bytes_per_token, weight_bytes_per_gpu

IMAGE_REPOSITORY = "nvcr.io/nvidia/tensorrt-llm/release"
PORT = 8000
STARTED_PATH = "/health"
INFERENCE_PATH = "/health_generate"
ALIVE_PATH = "/health"
METRICS_PATH = "/prometheus/metrics"
SERVED_PATHS = ("/v1/chat/completions", "/v1/completions")

MINIMUM_DRIVER_MAJOR = {"1.1": 580, "1.2": 580}
"""Driver floor by release series: 1.1 is CUDA 13.0, 1.2 is CUDA 13.1, and CUDA 13 needs 580."""

TOKENS_PER_BLOCK = 32
"""KV cache is handed out in blocks of this many tokens; ``tokens_per_block`` of the engine."""

MINIMUM_COMPUTE_CAPABILITY = (8, 0)
"""Ampere and later; nvidia.github.io/TensorRT-LLM/supported-hardware.html."""

DEFAULT_MAX_NUM_TOKENS = 8192
FREE_GPU_MEMORY_FRACTION = 0.9
"""Share of what is free after loading that the KV cache takes; the engine's own default."""

ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "TRTLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

ACTIVATION_COEFFICIENTS = {1: 11.0, 2: 6.5, 4: 5.0, 8: 5.0}
"""Peak activation bytes are 2 x tokens x attention width x this, by tensor parallelism, at least
70 MiB; NVIDIA's estimator, ai-dynamo/aiconfigurator 0.12.0 ``sdk/memory.py`` at 095f58a."""
MINIMUM_ACTIVATION_BYTES = 70 * 2**20

NCCL_BYTES = {1: 0, 2: 342 * 2**20, 4: 392 * 2**20, 8: 392 * 2**20}
"""Communication buffers by tensor parallelism; same source."""

OTHER_BYTES = int(3.5 * GIB)
"""CUDA context, graphs and libraries: the flat allowance of the same source, which calls it safer
rather than exact."""


@dataclass(frozen=True, kw_only=True)
class MemoryBudget:
    """Where the memory of one GPU goes; all sizes in bytes.

    ``kv_cache_bytes`` is negative when weights and allowances alone do not fit.
    """

    usable_bytes: int
    weight_bytes: int
    activation_bytes: int
    communication_bytes: int
    other_bytes: int
    kv_cache_bytes: int
    kv_bytes_per_token: int
    max_model_len_tokens: int

    @property
    def kv_cache_tokens(self) -> int:
        """Tokens that the KV cache of one replica holds, in whole blocks."""
        blocks = max(0, self.kv_cache_bytes) // (self.kv_bytes_per_token * TOKENS_PER_BLOCK)
        return blocks * TOKENS_PER_BLOCK

    def rows(self) -> tuple[tuple[str, int, str], ...]:
        """The budget as a table: part, bytes, and what the figure rests on; the KV cache last."""
        fraction = f"{FREE_GPU_MEMORY_FRACTION:.0%}"
        return (
            ("weights", self.weight_bytes, "exact, from the shapes of the model's tensors"),
            ("activations", self.activation_bytes, "allowance: 2 x tokens x width x coefficient"),
            ("communication", self.communication_bytes, "allowance: NCCL buffers"),
            ("context and graphs", self.other_bytes, "allowance: flat, safer rather than exact"),
            ("KV cache", self.kv_cache_bytes, f"{fraction} of what is left after all of these"),
        )

    @property
    def sequences(self) -> int:
        """Sequences of full length that one replica holds at once."""
        return self.kv_cache_tokens // self.max_model_len_tokens


def memory_budget(
    config: ModelConfig,
    *,
    usable_gib: float,
    tensor_parallel: int,
    max_num_tokens: int,
    max_model_len_tokens: int,
) -> MemoryBudget:
    """What is left for the KV cache on each GPU: (usable - peak) x fraction.

    Source of the law: ``_cal_max_memory`` in ``tensorrt_llm/_torch/pyexecutor/_util.py``.
    """
    usable = int(usable_gib * GIB)
    weights = weight_bytes_per_gpu(config, tensor_parallel)
    activation = max(
        MINIMUM_ACTIVATION_BYTES,
        int(
            2
            * max_num_tokens
            * config.attention_heads
            * config.head_dim
            * ACTIVATION_COEFFICIENTS[tensor_parallel]
        ),
    )
    communication = NCCL_BYTES[tensor_parallel]
    free = usable - weights - activation - communication - OTHER_BYTES
    return MemoryBudget(
        usable_bytes=usable,
        weight_bytes=weights,
        activation_bytes=activation,
        communication_bytes=communication,
        other_bytes=OTHER_BYTES,
        kv_cache_bytes=int(free * FREE_GPU_MEMORY_FRACTION) if free > 0 else free,
        kv_bytes_per_token=kv_bytes_per_token(config, tensor_parallel),
        max_model_len_tokens=max_model_len_tokens,
    )


def minimum_driver_major(version: str) -> int | None:
    """The oldest driver branch that carries a release, or None for an unknown series."""
    return MINIMUM_DRIVER_MAJOR.get(".".join(version.split(".")[:2]))


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
    tensor_parallel: int,
    max_batch_size: int,
    max_num_tokens: int,
    max_model_len_tokens: int,
    chunked_prefill: bool,
    block_reuse: bool,
) -> dict[str, Any]:
    """The engine's YAML file as data; an unknown key would be an error in the engine."""
    return {
        "tensor_parallel_size": tensor_parallel,
        "max_batch_size": max_batch_size,
        "max_num_tokens": max_num_tokens,
        "max_seq_len": max_model_len_tokens,
        "enable_chunked_prefill": chunked_prefill,
        "kv_cache_config": {
            "free_gpu_memory_fraction": FREE_GPU_MEMORY_FRACTION,
            "enable_block_reuse": block_reuse,
        },
        "return_perf_metrics": True,
        "enable_iter_perf_stats": True,
    }
