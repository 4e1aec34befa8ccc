"""Fits the constants of the memory law to public start-up logs.

Run ``python -m benchmarks.fit_memory``. Reads ``tests/cases/memory/public_logs.json`` and writes
``tokenworks/facts/memory_constants.json``: each constant with its value, the spread of what it was
fitted to, the number of logs and their names, and the range in which it holds. Medians, and least
squares where a line is fitted, so that no single log decides.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenworks.engines.law import parse_version
from tokenworks.errors import ConfigError
from tokenworks.facts.memory_constants import Constant
from tokenworks.facts.model_reading import read_document
from tokenworks.facts.models import ModelConfig
from tokenworks.facts.shipped_models import model_shapes

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "tests" / "cases" / "memory" / "public_logs.json"
CONSTANTS = ROOT / "tokenworks" / "facts" / "memory_constants.json"
GIB = 2**30
SOURCE = "public start-up logs, tests/cases/memory/public_logs.json"
LEAN = (0, 17, 0)
NVIDIA_OTHER_GIB = 3.5
NVIDIA_NCCL_GIB = 392 / 1024
PASS_HIDDEN = 1.1
"""Rows of the hidden size that stay alive while logits are sampled: the pass's own output and its
norm; from logs that differ only in hidden size (Llama-3.1-8B and 70B)."""


@dataclass(frozen=True)
class Log:
    """One log with its model's shape; figures are those it reports."""

    id: str
    case: Mapping[str, Any]
    config: ModelConfig

    def figure(self, name: str) -> float | None:
        """One figure that the log reports, in GiB."""
        value = (self.case.get("reported") or {}).get(name)
        return None if value is None else float(value)

    @property
    def tensor(self) -> int:
        """Tensor parallelism."""
        return self.case.get("tensor_parallel") or 1

    @property
    def pipeline(self) -> int:
        """Pipeline parallelism."""
        return self.case.get("pipeline_parallel") or 1

    @property
    def lean(self) -> bool:
        """Whether the engine samples with few copies of the logits."""
        version = parse_version(self.case.get("engine_version"))
        return version is not None and version >= LEAN

    @property
    def sequences(self) -> int:
        """Sequences that may run at once; on H100 1024 unless asked otherwise."""
        return self.case.get("max_num_seqs") or 1024

    @property
    def tokens(self) -> int:
        """Tokens of one pass; on H100 8192 unless asked otherwise."""
        return self.case.get("max_num_batched_tokens") or 8192


def read_logs(cases: Iterable[Mapping[str, Any]]) -> list[Log]:
    """Logs whose model is known and whose GPU was not shared."""
    found = []
    for case in cases:
        record = model_shapes().get(str(case.get("model")))
        if record is None or case.get("contended"):
            continue
        try:
            found.append(Log(str(case["id"]), case, read_document(str(case["model"]), record)))
        except ConfigError:
            continue
    return found


Figure = Callable[[Log], float | None]


def _constant(
    logs: Sequence[Log], figure: Figure, default: float, unit: str, holds: str
) -> Constant:
    """The median of a figure over the logs that show it, or the default where none does."""
    pairs = [(log.id, value) for log in logs if (value := figure(log)) is not None]
    values = [value for _, value in pairs] or [default]
    source = SOURCE if pairs else f"no log shows it; {default:g} is assumed"
    return Constant(
        value=round(statistics.median(values), 4),
        lowest=round(min(values), 4),
        highest=round(max(values), 4),
        n=len(pairs),
        unit=unit,
        range=holds,
        source=source,
        cases=tuple(name for name, _ in pairs),
    )


def _sampled(log: Log) -> float | None:
    """Copies of the logits in an activation peak that the sampler decides."""
    peak = log.figure("activation_peak_gib")
    large = log.config.vocabulary > 100_000 and log.pipeline == 1
    if peak is None or not large or log.config.experts or log.config.multimodal:
        return None
    logits = log.sequences * log.config.vocabulary * 4 / GIB
    hidden = log.tokens * log.config.hidden_size * 2 / GIB
    return (peak - PASS_HIDDEN * hidden) / logits


def _layered(log: Log) -> float | None:
    """Rows of the hidden size in an activation peak that the layers decide."""
    peak = log.figure("activation_peak_gib")
    small = log.config.vocabulary < 50_000 and log.pipeline == 1
    if peak is None or not small or log.config.experts or log.config.hidden_size < 4096:
        return None
    inner = log.tokens * 3 * log.config.intermediate_size / log.tensor * 2 / GIB
    return (peak - inner) / (log.tokens * log.config.hidden_size * 2 / GIB)


def _workspace(log: Log, copies: float) -> float | None:
    """Rows of routed tokens in the activation peak of a mixture."""
    peak, experts = log.figure("activation_peak_gib"), log.config.experts
    if peak is None or experts is None or log.case.get("quantization") or not log.lean:
        return None
    logits = log.sequences * log.config.vocabulary * 4 / GIB
    hidden = log.tokens * log.config.hidden_size * 2 / GIB
    width = 2 * experts.intermediate_size / log.tensor + log.config.hidden_size
    rows = log.tokens * experts.per_token * width * 2 / GIB
    return (peak - copies * logits - PASS_HIDDEN * hidden) / rows


def _vllm(logs: Sequence[Log]) -> dict[str, Constant]:
    vllm = [log for log in logs if log.case.get("engine") == "vllm"]
    h100 = [log for log in vllm if "H100" in str((log.case.get("gpu") or {}).get("name"))]
    lean, full = [g for g in h100 if g.lean], [g for g in h100 if not g.lean]
    holds = "V1 engine; 8192 batched tokens, 1024 sequences on H100"
    copies = _constant(lean, _sampled, 3.7, "copies of logits", f"vLLM from 0.17; {holds}")
    return {
        "vllm.sampler.lean": copies,
        "vllm.sampler.full": _constant(
            full, _sampled, 9.58, "copies of logits", f"vLLM before 0.17; {holds}"
        ),
        "vllm.pass.hidden": _constant([], _sampled, PASS_HIDDEN, "rows of hidden size", holds),
        "vllm.layers.hidden": _constant(lean, _layered, 4.2, "rows of hidden size", holds),
        "vllm.moe.workspace": _constant(
            lean,
            lambda log: _workspace(log, copies.value),
            1.2,
            "rows of routed tokens",
            "16-bit experts",
        ),
        **_libraries(lean, full),
        **_graphs(lean),
        "vllm.graphs.old": _constant(
            full,
            lambda log: log.figure("cuda_graph_gib"),
            0.1,
            "GiB",
            "vLLM before 0.17; the change of free memory during capture, negative where it freed",
        ),
    }


def _libraries(lean: Sequence[Log], full: Sequence[Log]) -> dict[str, Constant]:
    def grouped(logs: Sequence[Log], *, tensor: bool, pipeline: bool = False) -> list[Log]:
        return [g for g in logs if (g.tensor > 1, g.pipeline > 1) == (tensor, pipeline)]

    def libraries(log: Log) -> float | None:
        return log.figure("non_torch_gib")

    found = {}
    for age, logs, single, group in (("new", lean, 0.25, 2.07), ("old", full, 0.13, 0.54)):
        when = "vLLM from 0.17" if age == "new" else "vLLM 0.8 to 0.16"
        found[f"vllm.non_torch.single.{age}"] = _constant(
            grouped(logs, tensor=False), libraries, single, "GiB", f"{when}, one H100"
        )
        found[f"vllm.non_torch.group.{age}"] = _constant(
            grouped(logs, tensor=True), libraries, group, "GiB", f"{when}, 2 to 4 H100, NVLink"
        )
    found["vllm.non_torch.pipeline"] = _constant(
        grouped(lean, tensor=False, pipeline=True), libraries, 0.07, "GiB", "no tensor parallelism"
    )
    return found


def _graphs(lean: Sequence[Log]) -> dict[str, Constant]:
    dense = [g for g in lean if g.config.experts is None and g.pipeline == 1]
    shown = [(g, size) for g in dense if (size := g.figure("cuda_graph_gib")) is not None]
    line = (
        statistics.linear_regression([g.config.layers for g, _ in shown], [s for _, s in shown])
        if len({g.config.layers for g, _ in shown}) > 1
        else statistics.LinearRegression(0.0157, 0.35)
    )

    def beyond(log: Log) -> float | None:
        size = log.figure("cuda_graph_gib")
        if size is None or log.config.experts is None:
            return None
        return size - line.intercept - line.slope * log.config.layers

    def fitted(value: float, unit: str) -> Constant:
        off = [s - line.intercept - line.slope * g.config.layers for g, s in shown] or [0.0]
        return Constant(
            value=round(value, 4),
            lowest=round(value + min(off), 4),
            highest=round(value + max(off), 4),
            n=len(shown),
            unit=unit,
            range="vLLM from 0.17, default capture sizes on H100",
            source=SOURCE,
            cases=tuple(g.id for g, _ in shown),
        )

    return {
        "vllm.graphs.base": fitted(line.intercept, "GiB"),
        "vllm.graphs.layer": fitted(line.slope, "GiB per layer"),
        "vllm.graphs.experts": _constant(lean, beyond, 0.8, "GiB", "mixtures"),
    }


def _stated(value: float, n: int, unit: str, holds: str, source: str) -> Constant:
    """A figure that logs print in lines which the shared cases do not carry as fields."""
    return Constant(
        value=value, lowest=value, highest=value, n=n, unit=unit, range=holds, source=source
    )


def _beside_vllm() -> dict[str, Constant]:
    debug = "'memory already used at init' of llm-d-planner's vLLM 0.19.0 debug logs"
    return {
        "vllm.context.single": _stated(0.51, 25, "GiB", "one H100", debug),
        "vllm.context.group": _stated(1.53, 9, "GiB", "2 to 4 H100; up to 2.07 on four", debug),
        "vllm.context.pcie": Constant(
            value=0.77,
            lowest=0.4,
            highest=1.13,
            n=2,
            unit="GiB",
            range="2 to 8 cards without NVLink",
            source="free at start: 21.63 of 22.03 GiB on four L4, 30.27 of 31.40 on two RTX 5090",
        ),
        "vllm.non_torch.pcie": Constant(
            value=0.24,
            lowest=0.11,
            highest=0.37,
            n=2,
            unit="GiB",
            range="2 to 8 cards without NVLink",
            source="consumed less weights: 15.03 - 14.66 GiB on two RTX 5090; budget less weights, "
            "activations and KV cache: 0.11 on eight RTX PRO 4500 (vllm-project/vllm issue 51590)",
        ),
        "vllm.after.mxfp4": Constant(
            value=3.69,
            lowest=2.44,
            highest=3.69,
            n=2,
            unit="GiB",
            range="gpt-oss, vLLM 0.19; the larger of both is taken, since both failed",
            source="in use and asked for when gpt-oss-20b failed in warm-up, less budget and "
            "context: 78.64 + 0.77 - 75.23 - 0.51 and 78.89 + 0.77 - 75.23 - 2.01 GiB, "
            "llm-d-planner debug logs of vLLM 0.19.0",
        ),
    }


def _beside_sglang() -> dict[str, Constant]:
    return {
        "sglang.context.single": _stated(
            0.38, 2, "GiB", "one GPU", "free before loading of SGLang logs: 78.81 of 79.19 GiB"
        ),
        "sglang.context.group": _stated(
            0.4, 2, "GiB", "2 to 8 GPUs without NVLink, or before 0.5", "same lines: 21.63 of 22.03"
        ),
        "sglang.context.nvlink": Constant(
            value=1.75,
            lowest=1.75,
            highest=2.51,
            n=2,
            unit="GiB",
            range="4 and 8 GPUs with NVLink, from 0.5",
            source="KV cache and weights over the share on four B200: 176.6 of 178.35 GiB; free "
            "before loading on eight H200: 137.29 of 139.8",
        ),
    }


def _tensorrt(logs: Sequence[Log]) -> dict[str, Constant]:
    trt = [g for g in logs if g.case.get("engine") == "tensorrt_llm"]
    torch = [g for g in trt if (parse_version(g.case.get("engine_version")) or (0,)) >= (1,)]
    built = [g for g in trt if g not in torch]

    def scale(log: Log) -> float | None:
        peak = log.figure("activation_peak_gib")
        width = log.config.attention_heads * log.config.head_dim
        coefficient = {1: 22, 2: 13}.get(log.tensor, 10)
        return None if peak is None else peak * GIB / (2 * log.tokens * width * coefficient)

    def per_token(log: Log) -> float | None:
        peak = log.figure("activation_peak_gib")
        return None if peak is None else peak / log.tokens

    def libraries(log: Log) -> float | None:
        return log.figure("non_torch_gib")

    one = [g for g in torch if g.tensor == 1]
    many = [g for g in torch if g.tensor > 1 and g.config.experts]
    return {
        "trt.activation.scale": _constant(
            torch, scale, 1.0, "of NVIDIA's coefficients", "PyTorch backend, 1.2 and 1.3"
        ),
        "trt.built.activation_per_token": _constant(
            built, per_token, 0.0001, "GiB per token", "built engines, to 32768 tokens"
        ),
        "trt.non_torch.single": _constant(one, libraries, 2.29, "GiB", "one B300"),
        "trt.non_torch.group": _stated(
            round(NVIDIA_OTHER_GIB + NVIDIA_NCCL_GIB, 2),
            0,
            "GiB",
            "dense models on 2 to 8 GPUs",
            "no log shows it; NVIDIA's estimator allows 3.5 GiB, and 392 MiB of NCCL "
            "(ai-dynamo/aiconfigurator 0.12.0 sdk/memory.py at 095f58a)",
        ),
        "trt.non_torch.experts": _constant(many, libraries, 12.5, "GiB", "4 and 8 B200"),
    }


def fit(cases: Iterable[Mapping[str, Any]]) -> dict[str, Constant]:
    """Every constant of the law, from these cases alone."""
    logs = read_logs(cases)
    return {**_vllm(logs), **_beside_vllm(), **_beside_sglang(), **_tensorrt(logs)}


def main() -> None:
    """Fit to all shared cases and write the constants."""
    fitted = fit(json.loads(CASES.read_text("utf-8")))
    text = json.dumps({name: asdict(found) for name, found in fitted.items()}, indent=2)
    CONSTANTS.write_text(text + "\n", "utf-8")
    for name, found in fitted.items():
        sys.stdout.write(
            f"{name:32} {found.value:8.4f} {found.unit:26} n={found.n:2} "
            f"{found.lowest:.3f} to {found.highest:.3f}; {found.range}\n"
        )


if __name__ == "__main__":
    main()
