"""Secrets of the gateway as files: hashes of API keys, and what managed APIs ask for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from tokenworks.errors import ConfigError, Problem
from tokenworks.templating import render

MAX_KEY_BYTES: Final = 512
"""Longest API key that is hashed; a header may hold 60 kB, and hashing that is work."""

_HASH: Final = re.compile(r"[0-9a-f]{64}")

_HEADER_WORD: Final = re.compile(r"[!-~]+")


def key_hash(key: str) -> str:
    """The SHA-256 of an API key, in hexadecimal: all that is ever stored of it.

    There is no salt and no stretching, so keys must be random: 128 bits or more, not words.
    """
    return hashlib.sha256(key.encode()).hexdigest()


def gateway_credentials_files(credentials: Mapping[str, str]) -> dict[str, str]:
    """A file for each managed API in the gateway's Secret, from its key. Secret as a whole."""
    return {
        f"{api}.yaml": render("gateway/credential.yaml.j2", api=api, credential=credential)
        for api, credential in sorted(credentials.items())
    }


def gateway_keys_file(hashes: Mapping[str, Sequence[str]]) -> str:
    """``keys.yaml`` for the gateway's Secret: tenant → ``key_hash`` of each of its keys.

    Raises ``ConfigError`` for what is no hash, for a hash of two tenants, and for a tenant whose
    name no header can carry; never repeats what was given, which could be a key.
    """
    problems = [*_tenant_problems(hashes), *_hash_problems(hashes)]
    if problems:
        raise ConfigError(problems)
    tenant_of_hash = sorted((hash_, tenant) for tenant in hashes for hash_ in hashes[tenant])
    source = render(
        "gateway/api_keys.lua.j2", max_key_bytes=MAX_KEY_BYTES, tenant_of_hash=tenant_of_hash
    )
    return render("gateway/keys.yaml.j2", source=source)


def _tenant_problems(hashes: Mapping[str, Sequence[str]]) -> list[Problem]:
    return [
        Problem(
            key="tenants",
            given=json.dumps(tenant),
            reason="cannot be carried in a header",
            remedy="name tenants in printable ASCII without spaces",
        )
        for tenant in hashes
        if not _HEADER_WORD.fullmatch(tenant)
    ]


def _hash_problems(hashes: Mapping[str, Sequence[str]]) -> list[Problem]:
    problems: list[Problem] = []
    owner: dict[str, str] = {}
    for tenant, of_tenant in hashes.items():
        for index, hash_ in enumerate(of_tenant):
            key = f"tenants.{tenant}.keys[{index}]"
            if not _HASH.fullmatch(hash_):
                reason = "is no SHA-256 in lower-case hexadecimal"
                problems.append(Problem(key=key, reason=reason, remedy="give key_hash(key)"))
            elif owner.setdefault(hash_, tenant) != tenant:
                reason = f"is also a key of tenant {owner[hash_]}"
                problems.append(Problem(key=key, reason=reason, remedy="give each its own key"))
    return problems
