"""Named kinds of value; each says what it accepts and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field, Strict
from pydantic_core import PydanticCustomError


def _pattern(regex: str, reason: str, remedy: str) -> Callable[[str], str]:
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
        _pattern(
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
        _pattern(
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
        _pattern(
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
        _pattern(
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
        _pattern(
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
        _pattern(
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
        _pattern(
            r"[a-z][a-z0-9-]{0,62}",
            "is not the name of a Pulumi secret",
            "write the configuration key that holds the secret, never the secret itself",
        )
    ),
]

Count = Annotated[int, Strict(), Field(gt=0)]
