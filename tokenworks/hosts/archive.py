"""Reading apt repositories as apt does: the signature first, then what it vouches for.

``gpgv`` judges signatures, as it does for apt on the hosts that the lock is for (Ubuntu 22.04 and
24.04, Debian 12): a key that they would refuse is refused here.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.hosts.apt_index import Offer, listed_hashes, offers
from tokenworks.hosts.keys import dearmoured
from tokenworks.hosts.lock import RepositoryLock
from tokenworks.hosts.request import LockRequest

TIMEOUT_SECONDS: Final = 60
_PACKINGS: Final[dict[str, Callable[[bytes], bytes]]] = {
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    "": bytes,
}


def read_repository(
    repository: RepositoryLock, request: LockRequest, keys: Path
) -> Iterator[Offer]:
    """Return the packages of concern of one repository; ``keys`` holds its armoured key.

    Raises:
        OperationError: not there, signed by another key, or an index that is not the signed one.
    """
    place = _place(repository)
    release = _signed_release(place, repository, keys / repository.key_file)
    listed = listed_hashes(release)
    flat = repository.suite.endswith("/")
    folders = (
        [""] if flat else [f"{c}/binary-{request.architecture}/" for c in repository.components]
    )
    for folder in folders:
        index = _index(place, f"{folder}Packages", listed, repository)
        yield from offers(index, repository.name, request.part_of)


def _place(repository: RepositoryLock) -> str:
    """Address of the folder that holds ``InRelease``, with a slash at its end."""
    base = repository.uri.rstrip("/")
    if repository.suite.endswith("/"):
        return f"{base}/{repository.suite.removeprefix('./')}"
    return f"{base}/dists/{repository.suite}/"


def _signed_release(place: str, repository: RepositoryLock, key: Path) -> str:
    """Text that the locked key has signed."""
    inline = _fetch(f"{place}InRelease")
    if inline is not None:
        return _verified(repository, key, inline, None)
    release, signature = _fetch(f"{place}Release"), _fetch(f"{place}Release.gpg")
    if release is None or signature is None:
        raise OperationError(
            f"repository {repository.name}",
            reason=f"{place} has neither InRelease nor Release with Release.gpg",
            remedy="correct uri and suite; a repository without a signature is never used",
        )
    return _verified(repository, key, release, signature)


def _verified(repository: RepositoryLock, key: Path, signed: bytes, signature: bytes | None) -> str:
    gpgv = shutil.which("gpgv")
    what = f"signature of repository {repository.name}"
    if gpgv is None:
        raise OperationError(
            what, reason="there is no gpgv here", remedy="install the package gpgv and try again"
        )
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder, name) for name in ("keys", "signed", "signature", "text")}
        paths["keys"].write_bytes(_binary(key))
        paths["signed"].write_bytes(signed)
        files = [str(paths["signed"])]
        output = ["--output", str(paths["text"])]
        if signature is not None:
            paths["signature"].write_bytes(signature)
            files, output = [str(paths["signature"]), *files], []
        ring = ["--homedir", folder, "--keyring", str(paths["keys"])]
        done = subprocess.run(
            [gpgv, *ring, "--status-fd", "1", *output, *files],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        signers = _signers(done.stdout)
        if done.returncode != 0 or repository.key_fingerprint not in signers:
            by = f"it is signed by {', '.join(sorted(signers))}" if signers else done.stderr.strip()
            raise OperationError(
                what,
                reason=f"it is not good under {repository.key_fingerprint} from {key.name}: {by}",
                remedy="if the vendor announced a new key, check its fingerprint and put both into "
                "the request; if not, do not use the repository",
            )
        return (paths["text"] if signature is None else paths["signed"]).read_text("utf-8")


def _signers(status: str) -> set[str]:
    """Fingerprints of the primary keys whose signatures are good (GnuPG ``doc/DETAILS``)."""
    lines = (line.split() for line in status.splitlines())
    return {words[-1] for words in lines if words[1:2] == ["VALIDSIG"]}


def _binary(key: Path) -> bytes:
    """An armoured key in the form in which gpgv reads it."""
    try:
        return dearmoured(key.read_text("utf-8"))
    except OSError as error:
        raise _no_key(key, f"it cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise _no_key(key, f"it {error}") from error


def _no_key(key: Path, reason: str) -> OperationError:
    remedy = f"put the vendor's armoured public key at {key}"
    return OperationError(f"key {key.name}", reason=reason, remedy=remedy)


def _index(
    place: str, path: str, listed: dict[str, tuple[str, int]], repository: RepositoryLock
) -> str:
    """The index in whichever packing is there, held against the signed hash."""
    what = f"index {path} of repository {repository.name}"
    for suffix, unpack in _PACKINGS.items():
        expected = listed.get(f"{path}{suffix}")
        content = _fetch(f"{place}{path}{suffix}") if expected else None
        if content is None or expected is None:
            continue
        if (hashlib.sha256(content).hexdigest(), len(content)) != expected:
            raise OperationError(
                what,
                reason=f"{path}{suffix} is not the file that was signed",
                remedy="try again, a mirror may be in the middle of an update; if it stays, the "
                "mirror is broken",
            )
        return unpack(content).decode("utf-8")
    raise OperationError(
        what, reason=f"{place} has none that is signed", remedy="correct suite and components"
    )


def _fetch(address: str) -> bytes | None:
    """What lies at an address; None where nothing does."""
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        if error.code in (403, 404):  # object stores say 403 of what they do not have
            return None
        raise _unreachable(address, f"the server answers {error.code}") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, FileNotFoundError):
            return None
        raise _unreachable(address, str(error.reason)) from error
    except TimeoutError as error:
        raise _unreachable(address, f"no answer within {TIMEOUT_SECONDS} s") from error


def _unreachable(address: str, reason: str) -> OperationError:
    host = urllib.parse.urlsplit(address).netloc or "the file"
    return OperationError(
        f"reading {address}",
        reason=reason,
        remedy=f"check that {host} can be reached from here, through your proxy if there is one",
    )
