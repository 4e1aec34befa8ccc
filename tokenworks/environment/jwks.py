"""Public keys of an identity provider, as its JWKS document gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tokenworks.errors import ConfigError, Problem

SIGNING_TYPES: Final = ("RSA", "EC", "OKP")
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
"""Members that hold private or symmetric keys; RFC 7518, section 6."""


def read_jwks(file: Path) -> str:
    """A JWKS document on one line, with public keys alone.

    Raises:
        ConfigError: there is no such file, it is no JWKS, or it holds a key that must be secret.
    """
    try:
        document = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise _refuse("does not exist", "save the issuer's jwks_uri there") from None
    except (OSError, ValueError) as error:
        raise _refuse(f"is no JSON ({error})", "save the issuer's jwks_uri there") from error
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or not keys or not all(_is_key(key) for key in keys):
        reason = "is no JWKS with keys of type " + ", ".join(SIGNING_TYPES)
        raise _refuse(reason, "save the issuer's jwks_uri there")
    if any(_PRIVATE & key.keys() for key in keys):
        raise _refuse("holds a private key", "save the public document alone, and replace that key")
    return json.dumps(document, sort_keys=True)


def _is_key(key: Any) -> bool:
    return isinstance(key, dict) and key.get("kty") in (*SIGNING_TYPES, "oct")


def _refuse(reason: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(key="", reason=reason, remedy=remedy)])
