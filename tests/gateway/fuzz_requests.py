"""Requests that no client should send, as bytes; each kind from its own seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from .fuzz_bodies import any_body, is_right, right
from .harness import KEY
from .simulated import CHAT

KEYS = {"none": None, "wrong": "key-of-nobody-0123456789abcdef", "right": KEY}
HIDDEN = "hidden"
"""Stands in every request that is hidden in another one; no engine may ever see it."""


@dataclass(frozen=True)
class Case:
    """One request. ``may_reach`` says whether an engine may see it at all."""

    kind: str
    number: int
    data: bytes
    key: str
    may_reach: bool
    head: bool = False
    """It asks for no body."""
    complete: bool = True
    """An answer must come; otherwise the gateway may wait for the rest."""

    def __str__(self) -> str:
        return f"{self.kind} {self.number} (key: {self.key}): {self.data[:3000]!r}"


def request(
    key: str | None,
    body: bytes,
    *,
    line: bytes = b"POST " + CHAT.encode() + b" HTTP/1.1",
    extra: tuple[bytes, ...] = (),
    lines: tuple[bytes, ...] = (b"host: gateway", b"content-type: application/json"),
) -> bytes:
    """A request with a right length, and lines that may be anything."""
    authorization = [f"authorization: Bearer {key}".encode()] if key else []
    length = b"content-length: %d" % len(body)
    return b"\r\n".join([line, *lines, *authorization, *extra, length, b"", b""]) + body


def _key(random: Random, share: float) -> str:
    if random.random() < share:
        return "right"
    return random.choice(["none", "wrong"])


def body_case(number: int, random: Random) -> Case:
    key, body = _key(random, 0.8), any_body(random)
    may = key == "right" and is_right(body)
    return Case("body", number, request(KEYS[key], body), key, may)


_SPOOFED = (
    *(b"x-tenant-id: support", b"X-Tenant-Id: support", b"x_tenant_id: support"),
    *(b"x-tenant-id : support", b"x-tenant-id:support", b"x-tenant-name: support"),
    *(b"x-llm-model: hidden", b"x-llm-admitted: 1", b"x-llm-stream: true", b"x-llm-bytes: 1"),
    *(b"x-llm-restricted: 1", b"x-llm-max-tokens: -1", b"x-llm-refusal: none", b"x-release: next"),
    *(b"x-llm-passed-over: 1", b"x-data-class: restricted", b"x-envoy-retry-on: 5xx"),
    *(b"x-envoy-max-retries: 99", b"x-envoy-upstream-rq-timeout-ms: 1", b"x-envoy-force-trace: 1"),
    *(b"x-envoy-original-path: /release_memory", b"x-envoy-decorator-operation: x"),
    *(b"x-original-url: /release_memory", b"x-rewrite-url: /release_memory"),
    *(b"x-http-method-override: DELETE", b"x-forwarded-for: 127.0.0.1", b"x-forwarded-proto: http"),
    *(b"x-forwarded-client-cert: By=x", b"forwarded: for=127.0.0.1", b"via: 1.1 x"),
    *(
        b"connection: x-tenant-id",
        b"connection: authorization, x-llm-admitted",
        b"connection: close",
    ),
    *(b"connection: keep-alive, upgrade", b"upgrade: h2c", b"upgrade: websocket"),
    *(b"http2-settings: AAMAAABkAARAAAAAAAIAAAAA", b"te: trailers", b"te: gzip", b"trailer: x"),
    *(b"expect: 100-continue", b"proxy-authorization: Basic eDp5", b"cookie: x-tenant-id=support"),
    *(b"content-encoding: gzip", b"accept-encoding: gzip, br", b"accept: text/plain"),
    *(b"content-type: text/plain", b"content-type: application/json", b"content-language: de"),
    *(
        b"host: elsewhere",
        b"host: a, b",
        b"host:",
        b"authorization: Bearer other",
        b"x-api-key: other",
    ),
    *(b"authorization: Basic eDp5", b"authorization:", b"x-api-key:", b"x-request-id: hidden"),
    *(b"range: bytes=0-1", b"if-match: *", b"max-forwards: 0", b"keep-alive: timeout=1"),
)
_BAD_LINES = (
    *(b"x-a\0b: 1", b"x-a: b\0c", b": nameless"),
    *(b"nocolon", b" folded: 1", b"x-a: 1\r\n folded", b"x-a: 1\r\n\tfolded", b"x a: 1"),
    *(b"x-a: \x7f", b"x-\xe9: 1", b"x-a: \xff\xfe", b"x-a : 1", b"(x): 1", b"x-a:\x0b1"),
    b"\x00",
)


def header_case(number: int, random: Random) -> Case:
    """A right body under headers that claim, repeat, overflow or break."""
    key = _key(random, 0.6)
    extra: list[bytes] = []
    for _ in range(random.randint(1, 4)):
        match random.randrange(8):
            case 0:
                extra.append(random.choice(_BAD_LINES))
            case 1:
                size = random.choice([100, 8_000, 59_000, 61_000, 70_000])
                extra.append(b"x-large: " + b"a" * size)
            case 2:
                extra += [b"x-many-%d: 1" % index for index in range(random.choice([20, 99, 120]))]
            case _:
                extra.append(random.choice(_SPOOFED))
    random.shuffle(extra)
    data = request(KEYS[key], right(random), extra=tuple(extra))
    return Case("header", number, data, key, key == "right")


_PATHS = (
    *(CHAT, "/v1/completions", "/v1/models", "/release_memory", "/update_weights", "/health"),
    *("/metrics", "/v1/responses", "/invocations", "/server_info", "/config_dump", "/"),
)
_INSERTS = (
    *("/", "//", "/./", "/../", "/..;/", ";x=1", "%2f", "%2F", "%5c", "\\", "%2e%2e/", ".%2e/"),
    *("%00", "%0a", "%0d%0a", "%20", "%252f", "%c0%af", "%ef%bc%8f", "?", "?x=/../", "#", "&", "%"),
    *("%zz", "/release_memory/..", "%3f", "%23", ":80", "@", "é", "\t", "\x7f"),
)


def path_case(number: int, random: Random) -> Case:
    """One of the paths of gateway or engine in one of the spellings that somebody takes for it."""
    key, path = _key(random, 0.8), random.choice(_PATHS)
    for _ in range(random.randint(0, 3)):
        at = random.randint(0, len(path))
        path = path[:at] + random.choice(_INSERTS) + path[at:]
    match random.randrange(8):
        case 0:
            path = "".join(c.upper() if random.random() < 0.3 else c for c in path)
        case 1:
            path = "".join(
                f"%{ord(c):02x}" if c != "/" and random.random() < 0.3 else c for c in path
            )
        case 2:
            path = (
                random.choice(["http://", "https://", "HTTP://", "//", "ftp://"]) + "engine" + path
            )
        case 3:
            path = random.choice(
                ["*", "", "engine:8000", "?", "#", "a" * 70_000, ".", "..", path[1:]]
            )
    method = random.choice(
        ["POST", "POST", "POST", "GET", "PUT", "HEAD", "OPTIONS", "DELETE", "CONNECT"]
    )
    line = f"{method} {path} HTTP/1.1".encode()
    data = request(KEYS[key], right(random), line=line)
    return Case("path", number, data, key, key == "right", head=method == "HEAD")


def mutated_case(number: int, random: Random) -> Case:
    """A whole head with bytes changed; it has no body, and its last empty line stays."""
    key = _key(random, 0.5)
    head = bytearray(request(KEYS[key], b"").replace(b"content-length: 0\r\n", b""))
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(head) - 4)
        head[at] = random.choice([random.randrange(256), *b"\r\n :\t\0/,;"])
    return Case("mutated", number, bytes(head), key, False, head=head[:5] == b"HEAD ")


def cases(
    kind: Callable[[int, Random], Case], count: int, seed: int, *, first: int = 0
) -> Iterator[Case]:
    """``count`` cases of a kind; number ``n`` is the same whatever ran before it."""
    for number in range(first, first + count):
        yield kind(number, Random(f"{seed} {kind.__name__} {number}"))
