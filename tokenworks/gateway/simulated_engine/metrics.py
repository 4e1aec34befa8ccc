"""What ``/prometheus/metrics`` says: the engine's own names, buckets and labels."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

_LONG: Final = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0),
    *(40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_FIRST_TOKEN: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_PER_TOKEN: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_PREFILL: Final = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)


@dataclass
class Histogram:
    """Counts of observations by upper bound."""

    bounds: Sequence[float]
    total: float = 0.0
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """The series in Prometheus' text format."""
        seen = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            seen += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {seen}'
        yield f"{name}_sum{{{labels}}} {self.total}"
        yield f"{name}_count{{{labels}}} {seen}"


@dataclass(frozen=True, slots=True)
class Times:
    """When a request arrived, was scheduled, gave its first token and its last; loop seconds."""

    arrived: float
    scheduled: float
    first: float
    last: float


def _histograms() -> dict[str, Histogram]:
    return {
        "e2e_request_latency_seconds": Histogram(_LONG),
        "time_to_first_token_seconds": Histogram(_FIRST_TOKEN),
        "time_per_output_token_seconds": Histogram(_PER_TOKEN),
        "request_queue_time_seconds": Histogram(_LONG),
        "request_prefill_time_seconds": Histogram(_PREFILL),
        "request_decode_time_seconds": Histogram(_LONG),
        "request_inference_time_seconds": Histogram(_LONG),
    }


@dataclass
class Metrics:
    """Counters and histograms over all requests so far."""

    succeeded: dict[str, int] = field(default_factory=dict)
    """By the reason why the answer ended."""
    failed: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    cached_tokens: int = 0
    histograms: dict[str, Histogram] = field(default_factory=_histograms)

    def finished(
        self, times: Times, *, prompt: int, cached: int, generated: int, reason: str
    ) -> None:
        """Count one whole answer."""
        self.succeeded[reason] = self.succeeded.get(reason, 0) + 1
        self.prompt_tokens += prompt
        self.cached_tokens += cached
        self.generation_tokens += generated
        seen = {
            "e2e_request_latency_seconds": times.last - times.arrived,
            "time_to_first_token_seconds": times.first - times.arrived,
            "request_queue_time_seconds": times.scheduled - times.arrived,
            "request_prefill_time_seconds": times.first - times.scheduled,
            "request_decode_time_seconds": times.last - times.first,
            "request_inference_time_seconds": times.last - times.scheduled,
        }
        if generated > 1:
            seen["time_per_output_token_seconds"] = (times.last - times.first) / (generated - 1)
        for name, value in seen.items():
            self.histograms[name].observe(value)

    def text(self, model: str, gauges: dict[str, float], counters: dict[str, float]) -> bytes:
        """Everything in Prometheus' text format, with what only the engine knows now."""
        labels = f'model_name={json.dumps(model)},engine_type="trtllm"'
        all_counters = {
            **counters,
            "num_requests_completed_total": sum(self.succeeded.values()),
            "request_error_total": self.failed,
            "prompt_tokens_total": self.prompt_tokens,
            "prompt_cached_tokens_total": self.cached_tokens,
            "generation_tokens_total": self.generation_tokens,
        }
        return ("\n".join(self._lines(labels, gauges, all_counters)) + "\n").encode()

    def _lines(
        self, labels: str, gauges: dict[str, float], counters: dict[str, float]
    ) -> Iterator[str]:
        yield "# TYPE trtllm_request_success_total counter"
        for reason, count in sorted(self.succeeded.items()):
            yield f'trtllm_request_success_total{{{labels},finished_reason="{reason}"}} {count}'
        for kind, values in (("counter", counters), ("gauge", gauges)):
            for name, value in values.items():
                yield f"# TYPE trtllm_{name} {kind}"
                yield f"trtllm_{name}{{{labels}}} {value}"
        for name, histogram in self.histograms.items():
            yield f"# TYPE trtllm_{name} histogram"
            yield from histogram.lines(f"trtllm_{name}", labels)
