"""The bodies that an engine sends: whole answers, events of a stream, errors.

Every text is decided by the engine's name, the number of the request and the prompt.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from .requests import CHAT, Job

_WORDS: Final = (
    *("the", "gateway", "carried", "this", "answer", "from", "an", "engine", "without", "weights"),
    *("so", "read", "it", "for", "its", "shape", "and", "its", "timing", "only"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer while it is given."""

    job: Job
    engine: str
    number: int
    cached_tokens: int
    tokens: int
    """How many it has in all."""

    @property
    def finish_reason(self) -> str:
        """``length`` where the request's own limit ended it."""
        limited = self.job.max_tokens is not None and self.job.max_tokens <= self.tokens
        return "length" if limited else "stop"

    @property
    def identity(self) -> str:
        """The answer's id, the same in every one of its events."""
        text = f"{self.engine} {self.number}".encode()
        prefix = "chatcmpl" if self.job.path == CHAT else "cmpl"
        return f"{prefix}-{hashlib.sha256(text).hexdigest()[:32]}"

    def token(self, index: int) -> str:
        """The text of one token; the first one says which engine speaks."""
        return f"{self.engine}:" if index == 0 else f" {_WORDS[(index - 1) % len(_WORDS)]}"

    def usage(self, so_far: int) -> dict[str, Any]:
        """What has been used after that many tokens."""
        prompt = self.job.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + so_far,
            "completion_tokens": so_far,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    def whole(self) -> bytes:
        """The body of an answer that is not streamed."""
        text = "".join(self.token(index) for index in range(self.tokens))
        choice: dict[str, Any] = {"index": 0}
        if self.job.path == CHAT:
            choice["message"] = {"role": "assistant", "content": text, "tool_calls": []}
        else:
            choice["text"] = text
        choice |= {"logprobs": None, "finish_reason": self.finish_reason, "stop_reason": None}
        kind = "chat.completion" if self.job.path == CHAT else "text_completion"
        return _json({**self._head(kind), "choices": [choice], "usage": self.usage(self.tokens)})

    def opening(self) -> bytes:
        """The event with which a streamed chat begins: a role and no text.

        Real engines end its line with a space before the empty line.
        """
        if self.job.path != CHAT:
            return b""
        chunk = self._chunk({"index": 0, "delta": {"role": "assistant"}}, 0)
        return b"data: " + _json(chunk) + b" \n\n"

    def event(self, index: int) -> bytes:
        """The event of one token."""
        choice: dict[str, Any] = {"index": 0}
        text = self.token(index)
        choice |= {"delta": {"content": text}} if self.job.path == CHAT else {"text": text}
        if index == self.tokens - 1:
            choice["finish_reason"] = self.finish_reason
        return b"data: " + _json(self._chunk(choice, index + 1)) + b"\n\n"

    def closing(self) -> bytes:
        """The last events: usage where it was asked for, and the mark of the end."""
        if not self.job.usage:
            return b"data: [DONE]\n\n"
        last = {**self._head(self._stream_kind), "choices": [], "usage": self.usage(self.tokens)}
        return b"data: " + _json(last) + b"\n\ndata: [DONE]\n\n"

    def _chunk(self, choice: dict[str, Any], so_far: int) -> dict[str, Any]:
        chunk = {**self._head(self._stream_kind), "choices": [choice]}
        return {**chunk, "usage": self.usage(so_far)} if self.job.continuous else chunk

    @property
    def _stream_kind(self) -> str:
        return "chat.completion.chunk" if self.job.path == CHAT else "text_completion"

    def _head(self, kind: str) -> dict[str, Any]:
        # A real time would make equal runs differ.
        return {"id": self.identity, "object": kind, "created": 0, "model": self.job.model}


def invalid(text: str) -> bytes:
    """The body with which FastAPI's handler refuses a request (status 400)."""
    return _json({"error": text})


def error(message: str, kind: str, status: int) -> bytes:
    """The engine's own error body."""
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
    return _json(body)


def models(model: str) -> bytes:
    """The answer of ``/v1/models``."""
    card = {"id": model, "object": "model", "created": 0, "owned_by": "tensorrt_llm"}
    return _json({"object": "list", "data": [card]})


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
