"""What one replica could serve by the speed of its memory and its arithmetic: an estimate.

It knows nothing of scheduling, sampling, communication and networks, so it is always given as a
range, and a load test replaces it. All bytes and rates are of one GPU of the replica.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tokenworks.facts.gpu_rates import GpuRates
from tokenworks.facts.models import ModelConfig
from tokenworks.sizing.memory.weights import counted

P95_OF_MEAN_WAIT = math.log(20)
"""A waiting time whose tail is exponential exceeds ln 20 times its mean once in twenty."""


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One replica as a roofline sees it: what each GPU holds, what it is asked, how well it does.

    ``computed_bytes`` are the weights that one token passes through: all of them, or in a mixture
    those of the experts it is routed to. ``attained`` is the share of the peak rates that is
    reached.
    """

    weight_bytes: int
    computed_bytes: int
    kv_bytes_per_token: int
    prompt_tokens: int
    output_tokens: int
    rates: GpuRates
    attained: float

    @property
    def prefill_seconds(self) -> float:
        """Reading one prompt: two operations for each parameter and token.

        A byte of weights takes one operation at 16 bit (two for each parameter of two bytes), and
        as long at 8 bit, where there are twice the parameters and twice the rate.
        """
        work = self.computed_bytes * self.prompt_tokens
        return work / (self.rates.operations_per_second * self.attained)

    def step_seconds(self, sequences: int) -> float:
        """One token for each of ``sequences``: weights and KV cache are read once, or computed."""
        live = self.prompt_tokens + self.output_tokens
        read = self.weight_bytes + sequences * self.kv_bytes_per_token * live
        reading = read / self.rates.bytes_per_second
        computing = sequences * self.computed_bytes / self.rates.operations_per_second
        return max(reading, computing) / self.attained

    def request_seconds(self, sequences: int) -> float:
        """One request from end to end while ``sequences`` are in flight.

        Every sequence waits for the prefill of the others, since one pass does either.
        """
        return sequences * self.prefill_seconds + self.output_tokens * self.step_seconds(sequences)

    def requests_per_second(self, sequences: int) -> float:
        """Requests that are finished with ``sequences`` in flight, by Little's law."""
        return sequences / self.request_seconds(sequences)

    def first_token_seconds(self, sequences: int) -> float:
        """Time to first token that 19 of 20 requests meet: prefill, one step, and the queue.

        The queue for prefill is M/D/1: mean wait = load x prefill / 2 / (1 - load).
        """
        load = self.requests_per_second(sequences) * self.prefill_seconds
        wait = load * self.prefill_seconds / 2 / (1 - load)
        return self.prefill_seconds + self.step_seconds(sequences) + P95_OF_MEAN_WAIT * wait

    def sequences_within(self, target_seconds: float, most: int) -> int:
        """The most sequences, up to ``most``, whose first tokens are in time; 0 if not even one.

        More sequences never bring the first token earlier, so halving finds it.
        """
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self.first_token_seconds(middle) <= target_seconds:
                low = middle
            else:
                high = middle - 1
        return low


def active_share(config: ModelConfig) -> float:
    """Share of a model's parameters that one token passes through; all where it is not known."""
    count, experts = counted(config), config.experts
    if count is None or experts is None or not count.experts:
        return 1.0
    idle = count.experts * (1 - min(1.0, experts.per_token / experts.count))
    return 1 - idle / count.total
