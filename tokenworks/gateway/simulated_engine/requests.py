"""What a request may contain: the engine's fields, checked as its pydantic models check them.

The models forbid unknown fields, and FastAPI's error goes into the body as its text; both are in
``openai_server.py`` and ``openai_protocol.py`` (see the package).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"

_COMMON: Final = {
    "model": "str",
    "best_of": "int",
    "frequency_penalty": "float",
    "logit_bias": "dict",
    "n": "int",
    "presence_penalty": "float",
    "seed": "int",
    "stop": "str or list",
    "stream": "bool",
    "stream_options": "dict",
    "temperature": "float",
    "top_p": "float",
    "user": "str",
    "lora_request": "dict",
    "prompt_ignore_length": "int",
    "use_beam_search": "bool",
    "top_k": "int",
    "top_p_min": "float",
    "min_p": "float",
    "repetition_penalty": "float",
    "length_penalty": "float",
    "early_stopping": "any",
    "stop_token_ids": "list",
    "include_stop_str_in_output": "bool",
    "ignore_eos": "bool",
    "min_tokens": "int",
    "skip_special_tokens": "bool",
    "spaces_between_special_tokens": "bool",
    "truncate_prompt_tokens": "int",
    "thinking_token_budget": "int",
    "add_special_tokens": "bool",
    "response_format": "dict",
    "disaggregated_params": "dict",
    "priority": "float",
    "conversation_params": "dict",
    "max_tokens": "int",
}
FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    CHAT: {
        **_COMMON,
        "messages": "list",
        "prompt_token_ids": "list",
        "prompt_token_ids_b64": "str",
        "logprobs": "bool",
        "top_logprobs": "int",
        "max_completion_tokens": "int",
        "tools": "list",
        "tool_choice": "any",
        "parallel_tool_calls": "bool",
        "reasoning_effort": "str",
        "thinking": "dict",
        "echo": "bool",
        "add_generation_prompt": "bool",
        "documents": "list",
        "chat_template": "str",
        "chat_template_kwargs": "dict",
        "injected_chat_template_kwargs": "list",
        "media_io_kwargs": "dict",
        "cache_salt": "str",
        "agent_hierarchy": "any",
        "mm_processor_kwargs": "dict",
    },
    # There is no cache_salt here: tenants cannot be kept apart on this path.
    COMPLETIONS: {
        **_COMMON,
        "prompt": "str or list",
        "echo": "bool",
        "logprobs": "int",
        "suffix": "str",
        "return_context_logits": "bool",
        "detokenize": "bool",
    },
}
_REQUIRED: Final = {CHAT: ("messages", "model"), COMPLETIONS: ("model", "prompt")}
_STREAM_OPTIONS: Final = {"include_usage": "bool", "continuous_usage_stats": "bool"}
_KINDS: Final[Mapping[str, tuple[tuple[type, ...], str, str]]] = {
    "str": ((str,), "string_type", "Input should be a valid string"),
    "int": ((int,), "int_type", "Input should be a valid integer"),
    "float": ((int, float), "float_type", "Input should be a valid number"),
    "bool": ((bool,), "bool_type", "Input should be a valid boolean"),
    "list": ((list,), "list_type", "Input should be a valid list"),
    "dict": ((dict,), "dict_type", "Input should be a valid dictionary"),
    "str or list": ((str, list), "string_type", "Input should be a valid string"),
}
_WITHOUT_NULL: Final = frozenset({"model", "messages", "prompt", "n", "top_k", "min_tokens"})
_STREAM_ONLY: Final = {
    CHAT: "Value error, stream_options can only be set if stream is true",
    COMPLETIONS: "Value error, Stream options can only be defined when stream is true.",
}

CHARACTERS_PER_TOKEN: Final = 4
"""English text in common tokenisers; here it is the law."""


class InvalidRequestError(Exception):
    """The engine would refuse this request; the text is what it puts into its answer."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a valid request asks for."""

    path: str
    model: str
    prompts: tuple[str, ...]
    answers: int
    """How many answers each prompt gets; of ``best_of`` only those that are shown."""
    salt: str
    stream: bool
    usage: bool
    """A last event with the usage; ``continuous`` puts it into every one."""
    continuous: bool
    max_tokens: int | None
    ignore_eos: bool

    @property
    def prompt(self) -> str:
        """All that is read before the first token."""
        return "".join(self.prompts)

    @property
    def tokens_by_prompt(self) -> tuple[int, ...]:
        """Tokens of each prompt, at least one."""
        return tuple(max(1, math.ceil(len(one) / CHARACTERS_PER_TOKEN)) for one in self.prompts)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(self.tokens_by_prompt)


def read_job(path: str, content_type: str, body: bytes) -> Job:
    """The job of a request to one of the two generating paths.

    Raises:
        InvalidRequestError: it is not what the engine's models allow.
    """
    data = _read_json(content_type, body)
    errors = [*_field_errors(data, FIELDS[path], _REQUIRED[path], ("body",)), *_rules(path, data)]
    if errors:
        raise InvalidRequestError(str(errors))
    options = data.get("stream_options") or {}
    usage = bool(data.get("stream_options")) and options.get("include_usage") is not False
    given = data.get("max_completion_tokens") or data.get("max_tokens")
    return Job(
        path=path,
        model=data["model"],
        prompts=(_text(data["messages"]),) if path == CHAT else _prompts(data["prompt"]),
        answers=data.get("n") or 1,
        salt=data.get("cache_salt") or "",
        stream=bool(data.get("stream")),
        usage=usage,
        continuous=usage and bool(options.get("continuous_usage_stats")),
        max_tokens=given,
        ignore_eos=bool(data.get("ignore_eos")),
    )


def _read_json(content_type: str, body: bytes) -> dict[str, Any]:
    main, _, sub = content_type.partition(";")[0].strip().lower().partition("/")
    if main != "application" or not (sub == "json" or sub.endswith("+json")):
        text = body.decode("utf-8", "replace")
        raise InvalidRequestError(str([_not_a_mapping(text)]))
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        place = getattr(error, "pos", 0)
        context = {"error": getattr(error, "msg", "not JSON")}
        problem = _error("json_invalid", ("body", place), "JSON decode error", {})
        raise InvalidRequestError(str([{**problem, "ctx": context}])) from error
    if not isinstance(data, dict):
        raise InvalidRequestError(str([_not_a_mapping(data)]))
    return data


def _not_a_mapping(value: Any) -> dict[str, Any]:
    text = "Input should be a valid dictionary or object to extract fields from"
    return _error("model_attributes_type", ("body",), text, value)


def _field_errors(
    data: Mapping[str, Any],
    fields: Mapping[str, str],
    required: tuple[str, ...],
    place: tuple[str, ...],
) -> list[dict[str, Any]]:
    errors = [
        _error("missing", (*place, name), "Field required", data)
        for name in required
        if name not in data
    ]
    for name, value in data.items():
        kind = fields.get(name)
        if kind is None:
            text = "Extra inputs are not permitted"
            errors.append(_error("extra_forbidden", (*place, name), text, value))
        elif kind != "any" and not _fits(name, kind, value):
            _, code, text = _KINDS[kind]
            errors.append(_error(code, (*place, name), text, value))
    return errors


def _fits(name: str, kind: str, value: Any) -> bool:
    if value is None:
        return name not in _WITHOUT_NULL
    types = _KINDS[kind][0]
    if isinstance(value, bool):
        return bool in types
    if kind == "int" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, types)


def _rules(path: str, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What depends on more than one field, or on a field's inside."""
    options = data.get("stream_options")
    errors: list[dict[str, Any]] = []
    if isinstance(options, dict):
        place = ("body", "stream_options")
        errors += _field_errors(options, _STREAM_OPTIONS, (), place)
        if not data.get("stream"):
            errors.append(_error("value_error", ("body",), _STREAM_ONLY[path], dict(data)))
    messages = data.get("messages") if path == CHAT else None
    for index, message in enumerate(messages if isinstance(messages, list) else []):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            text = "Field required" if isinstance(message, dict) else _KINDS["dict"][2]
            errors.append(_error("missing", ("body", "messages", index, "role"), text, message))
    return errors


def _error(code: str, place: tuple[str | int, ...], text: str, given: Any) -> dict[str, Any]:
    return {"type": code, "loc": place, "msg": text, "input": given}


def _prompts(value: Any) -> tuple[str, ...]:
    """One prompt for each text or list of token numbers; the numbers of a list are one together."""
    if isinstance(value, list) and value and isinstance(value[0], str | list):
        return tuple(map(_text, value))
    return (_text(value),)


def _text(value: Any) -> str:
    """The text that the prefix cache and the token count go by; roles are part of it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
