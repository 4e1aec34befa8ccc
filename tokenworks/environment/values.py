"""Named kinds of value; each says what it accepts and what to write instead."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError


def matching(regex: str, reason: str, remedy: str) -> Callable[[str], str]:
    """A check of text against an expression, which refuses with a reason and a remedy."""
    compiled = re.compile(regex)

    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise PydanticCustomError(
                "tokenworks", "{reason}", {"reason": reason, "remedy": remedy}
            )
        return value

    return check


# Kubernetes objects carry these names plus a suffix, and label values end at 63 characters.
Name = Annotated[
    str,
    Strict(),
    Field(json_schema_extra={"pattern": "^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"}),
    AfterValidator(
        matching(
            r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?",
            "is not a usable name",
            "use up to 40 lower-case letters, digits and hyphens, starting with a letter",
        )
    ),
]

Repository = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*",
            "is not a model repository",
            "write organisation/name, such as meta-llama/Llama-3.1-8B-Instruct",
        )
    ),
]

Revision = Annotated[
    str,
    Strict(),
    Field(json_schema_extra={"pattern": "^[0-9a-f]{40}$"}),
    AfterValidator(
        matching(
            r"[0-9a-f]{40}",
            "is not a pinned revision",
            "write the 40 hexadecimal digits of the commit; branches and tags move",
        )
    ),
]

ExactVersion = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"[0-9]+\.[0-9]+(\.[0-9]+)?[0-9A-Za-z.+-]*",
            "is not an exact version",
            "write one version such as 1.2.1, without range, wildcard or leading v",
        )
    ),
]

Hostname = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+",
            "is not a host name",
            "write a full lower-case DNS name such as inference.example.com",
        )
    ),
]

RelativePath = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"(?!/)(?!.*(^|/)\.\.(/|$))[\w./-]+",
            "is not a path below the environment file",
            "write it relative to the folder of the environment file, not above it",
        )
    ),
]

SecretKey = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"[a-z][a-z0-9-]{0,62}",
            "is not the name of a Pulumi secret",
            "write the configuration key that holds the secret, never the secret itself",
        )
    ),
]

NodeName = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            "is not the name of a Kubernetes node",
            "write it as `kubectl get nodes` prints it",
        )
    ),
]

# What follows ends up in arguments of ssh: nothing in it may look like an option.
Address = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,7}",
            "is not an address",
            "write a host name or an IP address, without user and port",
        )
    ),
]

JumpHost = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"([a-z_][a-z0-9_-]{0,31}@)?[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?(:[0-9]{1,5})?",
            "is not a jump host",
            "write user@host:port; user and port may be left out",
        )
    ),
]

UserName = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"[a-z_][a-z0-9_-]{0,31}",
            "is not a user name",
            "write the account that may use sudo without a password",
        )
    ),
]

# A path is a reference; the key or certificate itself would have line breaks and blanks.
OwnFile = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"(~/|/)[\w./@+-]+",
            "is not the path of a file on this machine",
            "write an absolute path or one that starts with ~/, never the content",
        )
    ),
]

LockName = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"[a-z0-9][a-z0-9.-]{0,62}",
            "is not the name of a host lock",
            "write the name of a file in hosts/ beside this file, without .yaml",
        )
    ),
]

ClassName = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"[a-z0-9]([-a-z0-9./]{0,251}[a-z0-9])?",
            "is not the name of a class",
            "write it as the cluster knows it",
        )
    ),
]

ObjectName = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            "is not the name of a Kubernetes object",
            "write it as `kubectl get` prints it",
        )
    ),
]

AnnotationKey = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?",
            "is not the key of an annotation",
            "write it as the documentation of the load balancer's controller does",
        )
    ),
]

HttpsUrl = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"https://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:\d+)?(/[\w./~-]*)?",
            "is not an https address",
            "write it as https://login.example.com, exactly as the issuer does",
        )
    ),
]

UrlPath = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(r"(/[\w.~-]+)+", "is not a path", "write it as /v1, without a slash at the end")
    ),
]

Claim = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*",
            "is not the name of a claim",
            "write its name, such as tenant, with dots between nested names",
        )
    ),
]

Percentage = Annotated[int, Strict(), Field(ge=0, le=100)]

Count = Annotated[int, Strict(), Field(gt=0)]
Switch = Annotated[bool, Strict()]

LARGEST = 10**12
"""Numbers beyond it are slips of the keyboard: nothing that is served has that many of anything."""


def _refused(reason: str, remedy: str) -> PydanticCustomError:
    return PydanticCustomError("tokenworks", "{reason}", {"reason": reason, "remedy": remedy})


def _number(least: str, *, strictly: bool = False, most: str = str(LARGEST)) -> Any:
    """A check that gives an exact decimal within bounds; text and truth values are no numbers."""
    low, high = Decimal(least), Decimal(most)
    bounds = f"a number {'above' if strictly else 'of at least'} {least}"
    bounds += f" and at most {most}" if high < LARGEST else ""

    def check(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise _refused("is not a number", f"write {bounds}")
        number = Decimal(str(value))
        if not number.is_finite() or not low <= number <= high or (strictly and number == low):
            raise _refused("is out of range", f"use {bounds}")
        return number

    return check


def _day(value: Any) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    try:
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise _refused("is not a day", "write it as 2026-11-29") from None


def _schema(**bounds: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "number", **bounds})


Positive = Annotated[
    Decimal, BeforeValidator(_number("0", strictly=True)), _schema(exclusiveMinimum=0)
]
Money = Annotated[Decimal, BeforeValidator(_number("0")), _schema(minimum=0)]
Ratio = Annotated[Decimal, BeforeValidator(_number("1")), _schema(minimum=1)]
Hours = Annotated[
    Decimal,
    BeforeValidator(_number("0", strictly=True, most="24")),
    _schema(exclusiveMinimum=0, maximum=24),
]
Percent = Annotated[
    Decimal,
    BeforeValidator(_number("0", strictly=True, most="100")),
    _schema(exclusiveMinimum=0, maximum=100),
]

Day = Annotated[
    datetime.date,
    BeforeValidator(_day),
    WithJsonSchema({"type": "string", "format": "date"}),
]

Currency = Annotated[
    str,
    Strict(),
    Field(json_schema_extra={"pattern": "^[A-Z]{3}$"}),
    AfterValidator(
        matching(
            r"[A-Z]{3}",
            "is not a currency",
            "write its three capital letters, such as USD or EUR",
        )
    ),
]
