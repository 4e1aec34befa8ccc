"""How long the parts of a start take that bytes and rates do not tell; measured, then rounded up.

Source unless named otherwise: kaito-project/kaito issue 2325 (2026-09-07), one run of a 52 GiB
model on one A100 under vLLM 0.25.1, every phase timed from the cluster's own events.
"""

from __future__ import annotations

NODE_SECONDS = 410
"""From asking for a GPU node until its GPU can be scheduled: 284 s for the machine, 126 s for
driver, toolkit and device plugin. CPU nodes take 120 to 240 (karpenter-provider-aws issue 2906)."""

IMAGE_MB_PER_SECOND = 55
"""Rate at which an engine image is pulled and unpacked: 5.6 GB in 101 s."""

ENGINE_IMAGE_MB = 18_000
"""Compressed size of an engine image: TensorRT-LLM images have 17 to 18.5 GB
(triton-inference-server/server issue 7335, tensorrtllm_backend issue 754)."""

WARM_UP_SECONDS = 290
"""From the start of the process until it answers, weights apart: 74 s for the framework, 21 s for
the engine, 195 s for kernels, compilation, graphs and the profiling run. A mixture of experts on an
H100 took 283 s (vllm-project/vllm issue 47456, 292.5 s less 9.5 s of loading)."""

SHA256_MIB_PER_SECOND = 900
"""One core hashing with OpenSSL and the SHA instructions of an AMD EPYC: 943 MiB/s, measured with
Python 3.11 on 2026-11-29, rounded down."""
