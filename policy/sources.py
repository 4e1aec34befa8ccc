"""Sources by address: whether they are elsewhere, and whether they name one commit for ever."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy.resources import UNKNOWN, Value
from policy.rule import Fault, Verdict
from policy.versions import Exactness, is_commit

# Addresses as git, kustomize and hashicorp/go-getter take them.
_REMOTE: Final = re.compile(
    r"(?:git::|git\+|hg\+|svn\+|bzr\+)|[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:"
    r"|(?:www\.)?(?:github|gitlab|bitbucket)\.(?:com|org)[/:]",
    re.IGNORECASE,
)
_COMMIT_IN_ADDRESS: Final = re.compile(r"(?:^|[/@=])[0-9a-f]{40}(?:$|[/#&?])")
_OF_GIT: Final = re.compile(r"(?:^|@\s*|\s|-e\s*)git\+")
_CREDENTIALS: Final = re.compile(r"//[^/@\s]+@")
_QUERY: Final = re.compile(r"\?.*")

COMMIT: Final = Exactness(
    is_exact=is_commit,
    missing="is missing, which means whatever the default branch holds",
    loose="is no full commit, and may stand for other files tomorrow",
    remedy="give the commit's 40 hex digits",
)


def is_remote(address: str) -> bool:
    """Return whether an address leads elsewhere, and not to a file of the program's own."""
    return _REMOTE.match(address) is not None and not address.startswith("file:")


def names_a_commit(address: str) -> bool:
    """Return whether an address holds the 40 hex digits of a commit as a part of its own."""
    return _COMMIT_IN_ADDRESS.search(address) is not None


def is_of_git(requirement: str) -> bool:
    """Return whether a requirement of pip comes from a git repository."""
    return _OF_GIT.search(requirement) is not None


def address_faults(key: str, address: Value) -> Iterator[Fault]:
    """Yield a fault for an address elsewhere that names no commit."""
    if address is UNKNOWN:
        yield Fault(
            key=key,
            reason="is not known, and may lead to files that change",
            remedy=COMMIT.remedy,
            verdict=Verdict.UNDETERMINABLE,
        )
    elif isinstance(address, str) and is_remote(address) and not names_a_commit(address):
        yield Fault(
            key=key,
            given=without_credentials(address),
            reason="names no commit, and may hold other files tomorrow",
            remedy=f"{COMMIT.remedy} in the address, or keep the files beside the program",
        )


def without_credentials(address: str) -> str:
    """Return an address that may be shown: without user, password and query."""
    plain = _CREDENTIALS.sub("//", address)
    return plain if re.search(r"\?ref=[\w./-]*$", plain) else _QUERY.sub("", plain)
