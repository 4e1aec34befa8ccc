"""Bodies that are nearly JSON, nearly ours, or right; each from its own seed."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

MODEL = "alpha"
Maker = Callable[[Random], bytes]


def right(random: Random) -> bytes:
    """A request that the engine answers."""
    words = " ".join(random.choice(["so", "it", "é", "\U0001f600"]) for _ in range(4))
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": words}],
        "max_tokens": random.randint(1, 4),
        "stream": random.random() < 0.3,
    }
    members = list(body.items())
    random.shuffle(members)
    return json.dumps(dict(members), ensure_ascii=random.random() < 0.5).encode()


def _spliced(random: Random, member: str) -> bytes:
    """A right body with one more member, at either end."""
    text = right(random).decode()
    if random.random() < 0.5:
        return f"{{{member}, {text[1:]}".encode("utf-8", "surrogatepass")
    return f"{text[:-1]}, {member}}}".encode("utf-8", "surrogatepass")


def _cut(random: Random) -> bytes:
    body = right(random)
    return body[: random.randrange(len(body))]


def _noise(random: Random) -> bytes:
    """A few bytes changed, added or taken away."""
    body = bytearray(right(random))
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(body))
        match random.randrange(3):
            case 0:
                body[at] = random.randrange(256)
            case 1:
                body.insert(at, random.randrange(256))
            case _:
                del body[at]
    return bytes(body)


_ODD_VALUES = (
    *("NaN", "Infinity", "-Infinity", "-nan", "1e999", "-1e999", "1e-999", "0x10", "01", "+1"),
    *("1.", ".5", "-", "1e", "1_000", "9" * 400, "9007199254740993", "1.0", "-0", "1E400"),
    *("true", "null", "True", "None", "undefined", "''", '"', "[", "{", '"\\u12"', '"\\x41"'),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '"\x01"', '"\t"', "[,]"),
    *(
        "[1,]",
        '{"a":1,}',
        '{"a":1,"a":2}',
        '{"a":{"b":1,"b":2}}',
        "{}",
        "[[]]",
        "/* */ 1",
        "1 // x",
    ),
    *("-1", "0", "1e3", "3.7", "18446744073709551616", "true false"),
)
_ODD_NAMES = (
    *('"x"', '"max_tokens"', '"n"', '"stream"', '"stream_options"', '"max_completion_tokens"'),
    *('"temperature"', '"seed"', '"tools"', "x", "'x'", '"\\ud800"', '""', '"\\u0000"', "1"),
)


def _odd_value(random: Random) -> bytes:
    return _spliced(random, f"{random.choice(_ODD_NAMES)}: {random.choice(_ODD_VALUES)}")


def _nested(random: Random) -> bytes:
    depth = random.choice([2, 50, 99, 100, 101, 250, 1000, 5000, 20_000])
    begin, end = random.choice([("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
    middle = "1" if begin != "[" else ""
    return _spliced(
        random, f'"x": {begin * depth}{middle}{end * random.choice([depth, depth - 1])}'
    )


def _two_models(random: Random) -> bytes:
    """One name twice: a gateway that reads the first and an engine that reads the last differ."""
    name = random.choice(['"model"', '"\\u006dodel"', '"m\\u006fdel"', '"Model"', '"model "'])
    value = random.choice(['"alpha"', '"beta"', '"other"', "null", "[]", '{"model": "alpha"}'])
    return _spliced(random, f"{name}: {value}")


def _salted(random: Random) -> bytes:
    name = random.choice(
        ['"cache_salt"', '"cache\\u005fsalt"', '"\\u0063ache_salt"', '"cache_\\u0073alt"']
    )
    value = random.choice(['"support"', '"search"', "null", "5", '"\\u0073upport"', '{"a": "}"}'])
    return _spliced(random, f"{name}: {value}")


def _wrapped(random: Random) -> bytes:
    """What a reader that is generous would strip or decode."""
    body = right(random)
    return random.choice(
        [
            b"\xef\xbb\xbf" + body,
            body.decode().encode("utf-16"),
            body.decode().encode("utf-16-le"),
            body.decode().encode("utf-32"),
            b"\0" + body,
            body + b"\0",
            body + body,
            body + b"]",
            body + b"// end",
            b"\xa0" + body,
            b"\x0b" + body,
            b" \r\n\t" + body + b"\n ",
            b"[" + body + b"]",
            b"(" + body + b")",
            b")]}'\n" + body,
            body.replace(b'"', b"'"),
            body.replace(b"alpha", b"alph\xc3"),
            body.replace(b"alpha", b"\xc0\xe1lpha"),
            body.replace(b"alpha", b"al\\u0070ha"),
            body.replace(b"alpha", b"alpha\\u0000"),
            b"data=" + body,
            b"",
        ]
    )


def _garbage(random: Random) -> bytes:
    return random.randbytes(random.randint(0, 300))


MAKERS: tuple[Maker, ...] = (
    *(right, _cut, _noise, _noise, _odd_value, _odd_value),
    *(_nested, _two_models, _salted, _wrapped, _garbage),
)


def any_body(random: Random) -> bytes:
    return random.choice(MAKERS)(random)


def is_right(body: bytes) -> bool:
    """Whether a strict reader finds one JSON object that names the model, each member once.

    Text that two readers could read differently is not right: lone surrogates, repeated names.
    """
    try:
        text = body.decode()
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refused)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("model") == MODEL


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)


def _refused(constant: str) -> Any:
    raise ValueError(constant)
