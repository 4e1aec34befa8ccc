"""The engine itself: who runs, who waits, what is held, and what goes wrong on purpose."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from .cache import PrefixCache
from .metrics import Metrics
from .requests import Job
from .settings import TOKENS_PER_BLOCK, Fault, Settings
from .wire import Request


@dataclass
class Slots:
    """Places in the batch, given in the order in which they were asked for."""

    limit: int
    running: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a place; whoever goes away while waiting leaves the queue."""
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        self.fill()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self.running -= 1
            elif turn in self.waiting:
                self.waiting.remove(turn)
            self.fill()

    def fill(self) -> None:
        """Let in whoever fits."""
        while self.waiting and self.running < self.limit:
            turn = self.waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)


@dataclass
class Engine:
    """One replica of one model."""

    name: str
    """Begins every answer, so that people see which engine gave it."""
    model: str
    settings: Settings
    slots: Slots
    metrics: Metrics = field(default_factory=Metrics)
    cache: PrefixCache = field(default_factory=PrefixCache)
    requests: deque[Request] = field(default_factory=deque)
    admin_calls: list[str] = field(default_factory=list)
    memory_released: bool = False
    numbered: int = 0
    aborted: int = 0
    """Answers that their client did not wait for."""
    used_blocks: int = 0
    iterations: int = 0
    _met: int = 0

    @classmethod
    def of(cls, name: str, model: str, settings: Settings) -> Engine:
        """An engine that has seen nothing yet."""
        return cls(name, model, settings, Slots(settings.max_batch_size))

    def change(self, changes: Mapping[str, Any]) -> None:
        """Change settings while it runs.

        Raises:
            ValueError: a name or value is wrong; nothing was changed.
        """
        self.settings = self.settings.changed(changes)
        self.slots.limit = self.settings.max_batch_size
        self.slots.fill()
        self._met = 0

    def record(self, request: Request) -> None:
        """Keep a request for the control port."""
        most = self.settings.recorded_requests
        while self.requests and len(self.requests) >= most:
            self.requests.popleft()
        if most:
            self.requests.append(request)

    def next_fault(self) -> Fault:
        """What goes wrong with the next request; the share is spread evenly, never by chance."""
        settings = self.settings
        if settings.fault is Fault.NONE or settings.fault_requests == 0:
            return Fault.NONE
        self._met += 1
        share = settings.fault_share
        if math.floor(self._met * share) == math.floor((self._met - 1) * share):
            return Fault.NONE
        if settings.fault_requests is not None:
            left = settings.fault_requests - 1
            self.settings = dataclasses.replace(settings, fault_requests=left)
        return settings.fault

    def fault_of_probes(self) -> Fault:
        """What goes wrong with probes: a fault that meets everybody, and uses none of its turns."""
        settings = self.settings
        lasting = settings.fault_share == 1 and settings.fault_requests is None
        return settings.fault if lasting else Fault.NONE

    def tokens_of(self, job: Job) -> int:
        """How many tokens its answer has."""
        if job.max_tokens is None:
            return self.settings.output_tokens
        if job.ignore_eos:
            return max(1, job.max_tokens)
        return max(1, min(job.max_tokens, self.settings.output_tokens))

    def blocks_of(self, job: Job) -> int:
        """Cache blocks that it takes while it runs."""
        return math.ceil((job.prompt_tokens + self.tokens_of(job)) / TOKENS_PER_BLOCK)

    def first_token_after(self, job: Job, cached_tokens: int) -> float:
        """Seconds from being scheduled to the first token."""
        thousands = (job.prompt_tokens - cached_tokens) / 1000
        settings = self.settings
        return settings.first_token_seconds + thousands * settings.prefill_seconds_per_1000_tokens

    def gauges(self) -> dict[str, float]:
        """What is so now, under the engine's names."""
        most = self.settings.kv_cache_blocks
        return {
            "num_requests_running": self.slots.running,
            "num_requests_waiting": len(self.slots.waiting),
            "max_num_active_requests": self.settings.max_batch_size,
            "max_batch_size_static": self.settings.max_batch_size,
            "num_paused_requests": 0,
            "kv_cache_max_blocks": most,
            "kv_cache_used_blocks": self.used_blocks,
            "kv_cache_free_blocks": max(0, most - self.used_blocks),
            "kv_cache_tokens_per_block": TOKENS_PER_BLOCK,
            "kv_cache_utilization": min(1.0, self.used_blocks / most),
            "kv_cache_hit_rate": self.cache.hit_rate,
        }

    def exposition(self) -> bytes:
        """The body of ``/prometheus/metrics``."""
        counters: dict[str, float] = {
            "kv_cache_reused_blocks_total": self.cache.reused,
            "kv_cache_missed_blocks_total": self.cache.missed,
        }
        return self.metrics.text(self.model, self.gauges(), counters)

    def state(self) -> dict[str, Any]:
        """What the control port shows."""
        return {
            "engine": self.name,
            "model": self.model,
            "running": self.slots.running,
            "waiting": len(self.slots.waiting),
            "answered": sum(self.metrics.succeeded.values()),
            "failed": self.metrics.failed,
            "aborted": self.aborted,
            "admin_calls": self.admin_calls,
            "settings": self.settings.record(),
        }
