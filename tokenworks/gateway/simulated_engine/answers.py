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

    def usage(self, so_far: int, prompt: int) -> dict[str, Any]:
        """What has been used for that many tokens of prompts and of answers."""
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + so_far,
            "completion_tokens": so_far,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    def whole(self) -> bytes:
        """The body of an answer that is not streamed."""
        text = "".join(self.token(index) for index in range(self.tokens))
        choice: dict[str, Any] = {}
        if self.job.path == CHAT:
            choice["message"] = {"role": "assistant", "content": text, "tool_calls": []}
        else:
            choice["text"] = text
        choice |= {"logprobs": None, "finish_reason": self.finish_reason, "stop_reason": None}
        choices = [{"index": index, **choice} for index in range(self._choices)]
        kind = "chat.completion" if self.job.path == CHAT else "text_completion"
        usage = self.usage(self._choices * self.tokens, self.job.prompt_tokens)
        return _json({**self._head(kind), "choices": choices, "usage": usage})

    def opening(self) -> bytes:
        """The event with which a streamed chat begins: a role and no text.

        Real engines end its line with a space before the empty line.
        """
        if self.job.path != CHAT:
            return b""
        chunks = (
            self._chunk({"index": index, "delta": {"role": "assistant"}}, 0)
            for index in range(self._choices)
        )
        return b"".join(b"data: " + _json(chunk) + b" \n\n" for chunk in chunks)

    def event(self, index: int) -> bytes:
        """The events of one token of each answer; each tells of its own answer alone."""
        choice: dict[str, Any] = {}
        text = self.token(index)
        choice |= {"delta": {"content": text}} if self.job.path == CHAT else {"text": text}
        if index == self.tokens - 1:
            choice["finish_reason"] = self.finish_reason
        chunks = (
            self._chunk({"index": number, **choice}, index + 1) for number in range(self._choices)
        )
        return b"".join(b"data: " + _json(chunk) + b"\n\n" for chunk in chunks)

    def closing(self) -> bytes:
        """The last events: usage of each prompt where it was asked for, and the mark of the end."""
        head = {**self._head(self._stream_kind), "choices": []}
        used = self.job.answers * self.tokens
        lasts = [
            {**head, "usage": self.usage(used, prompt)} for prompt in self.job.tokens_by_prompt
        ]
        events = lasts if self.job.usage else []
        return b"".join(b"data: " + _json(last) + b"\n\n" for last in events) + b"data: [DONE]\n\n"

    def _chunk(self, choice: dict[str, Any], so_far: int) -> dict[str, Any]:
        chunk = {**self._head(self._stream_kind), "choices": [choice]}
        prompt = self.job.tokens_by_prompt[choice["index"] // self.job.answers]
        return {**chunk, "usage": self.usage(so_far, prompt)} if self.job.continuous else chunk

    @property
    def _choices(self) -> int:
        """Answers to all prompts, those to one beside each other."""
        return len(self.job.prompts) * self.job.answers

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
