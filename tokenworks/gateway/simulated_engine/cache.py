"""Which blocks of prompts an engine still holds: prefixes, shared only under equal salts."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

from .requests import CHARACTERS_PER_TOKEN, Job
from .settings import TOKENS_PER_BLOCK

_BLOCK_CHARACTERS = TOKENS_PER_BLOCK * CHARACTERS_PER_TOKEN


@dataclass
class PrefixCache:
    """Blocks by the chain of everything before them, salt first; the least used go first."""

    reused: int = 0
    missed: int = 0
    _blocks: OrderedDict[bytes, None] = field(default_factory=OrderedDict)

    def take(self, job: Job, *, capacity: int, salted: bool) -> int:
        """Tokens of the prompt that were held already; from now on all its whole blocks are.

        At least one token is always computed, as there would be nothing to go on from.
        """
        found, hit, chain = 0, True, job.salt.encode() if salted else b""
        for start in range(0, len(job.prompt) - _BLOCK_CHARACTERS + 1, _BLOCK_CHARACTERS):
            block = job.prompt[start : start + _BLOCK_CHARACTERS]
            chain = hashlib.sha256(chain + b"\0" + block.encode("utf-8", "surrogatepass")).digest()
            hit = hit and chain in self._blocks
            found += hit
            self._blocks[chain] = None
            self._blocks.move_to_end(chain)
            self.reused, self.missed = self.reused + hit, self.missed + (not hit)
        while len(self._blocks) > capacity:
            self._blocks.popitem(last=False)
        return min(found * TOKENS_PER_BLOCK, job.prompt_tokens - 1)

    def forget(self) -> None:
        """Hold nothing."""
        self._blocks.clear()

    @property
    def hit_rate(self) -> float:
        """The share of blocks that were held when they were needed."""
        return self.reused / max(1, self.reused + self.missed)
