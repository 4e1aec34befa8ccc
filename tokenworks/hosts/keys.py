"""The fingerprint of an armoured OpenPGP public key, computed before anything trusts the key."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping

from tokenworks.errors import ConfigError, Problem
from tokenworks.hosts.lock import HostLock

_PUBLIC_KEY = 6
_OLD_LENGTH_BYTES = {0: 1, 1: 2, 2: 4}


def fingerprints(armoured: str) -> tuple[str, ...]:
    """Return the fingerprint of each primary key, 40 hexadecimal digits (RFC 9580, 5.5.4.2).

    Raises ``ValueError`` for what is no armoured public key, and for keys that are not version 4:
    apt of the systems known here reads no others.
    """
    packets = tuple(_packets(dearmoured(armoured)))
    found = tuple(_fingerprint(body) for tag, body in packets if tag == _PUBLIC_KEY)
    if not found:
        raise ValueError("holds no public key")
    return found


def check_keys(lock: HostLock, keys: Mapping[str, str]) -> None:
    """Refuse keys that are missing, broken, or others than the lock names.

    ``keys`` is armoured text by file name. A file with a second key is refused as well: apt would
    trust that one, too. Raises ``ConfigError`` with every problem.
    """
    problems = [*_problems(lock, keys)]
    if problems:
        raise ConfigError(problems)


def _problems(lock: HostLock, keys: Mapping[str, str]) -> Iterator[Problem]:
    for index, repository in enumerate(lock.repositories):
        key = f"repositories[{index}].key_file"
        remedy = "put the key with the locked fingerprint beside the lock, in keys/"
        if repository.key_file not in keys:
            reason = "is not there"
            yield Problem(key=key, given=repository.key_file, reason=reason, remedy=remedy)
            continue
        try:
            found = fingerprints(keys[repository.key_file])
        except ValueError as error:
            yield Problem(key=key, given=repository.key_file, reason=str(error), remedy=remedy)
            continue
        if found != (repository.key_fingerprint,):
            reason = f"holds {', '.join(found)}, locked is {repository.key_fingerprint}"
            yield Problem(key=key, given=repository.key_file, reason=reason, remedy=remedy)


def dearmoured(armoured: str) -> bytes:
    """Return the packets of an armoured public key; raises ``ValueError`` for what is none."""
    lines = armoured.strip().splitlines()
    begin, end = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
    if not lines or lines[0].strip() != begin or lines[-1].strip() != end or "" not in lines:
        raise ValueError("is no armoured public key")
    body = [line.strip() for line in lines[lines.index("") + 1 : -1]]
    encoded = "".join(line for line in body if not line.startswith("="))
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError("is no armoured public key") from error


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and body of each packet (RFC 9580, 4.2); partial lengths belong to no key."""
    at = 0
    while at < len(data):
        header = data[at]
        if not header & 0x80:
            raise ValueError("is damaged")
        if header & 0x40:
            tag, (size, used) = header & 0x3F, _new_length(data, at + 1)
        else:
            tag, (size, used) = (header >> 2) & 0x0F, _old_length(data, at + 1, header & 3)
        start = at + 1 + used
        if start + size > len(data):
            raise ValueError("is cut off")
        yield tag, data[start : start + size]
        at = start + size


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    first = data[at] if at < len(data) else 0
    if first < 192:
        return first, 1
    if first < 224 and at + 1 < len(data):
        return ((first - 192) << 8) + data[at + 1] + 192, 2
    if first == 255:
        return int.from_bytes(data[at + 1 : at + 5], "big"), 5
    raise ValueError("is damaged")


def _old_length(data: bytes, at: int, kind: int) -> tuple[int, int]:
    size = _OLD_LENGTH_BYTES.get(kind)
    if size is None:
        raise ValueError("is damaged")
    return int.from_bytes(data[at : at + size], "big"), size


def _fingerprint(body: bytes) -> str:
    if body[:1] != b"\x04":
        raise ValueError("holds a key that is not version 4, which apt cannot use")
    prefix = b"\x99" + len(body).to_bytes(2, "big")
    # The format's own choice, and only as strong as comparing it with what the vendor announces.
    return hashlib.sha1(prefix + body, usedforsecurity=False).hexdigest().upper()
