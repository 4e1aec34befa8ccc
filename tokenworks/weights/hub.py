"""What a model hub says about the files of a repository at one commit.

The hub tells the SHA-256 sum of what it keeps in LFS; smaller files are read and summed here, and
held against the sum that git has of them. API: huggingface.co/docs/hub/api (read 2026-11-30).
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from tokenworks.environment.weights import WeightFile
from tokenworks.errors import OperationError

TIMEOUT_SECONDS = 60
LARGEST_BYTES = 64 * 2**20
"""Files beyond it are kept in LFS, so that their sum is told; a listing is smaller as well."""


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """One file: its size, and its SHA-256 sum or else the sum that git has of it."""

    path: str
    bytes: int
    sha256: str | None
    git_sha1: str


@dataclass(frozen=True, kw_only=True)
class Hub:
    """A hub and who asks; the token is sent to it alone, and to nobody it redirects to."""

    endpoint: str
    token: str | None = None

    def commit(self, repository: str, revision: str) -> str:
        """The commit that a branch, a tag or a commit stands for.

        Raises:
            OperationError: the hub does not answer, or does not know it.
        """
        if re.fullmatch(r"[0-9a-f]{40}", revision):
            return revision
        quoted = urllib.parse.quote(revision, safe="")
        told = self._json(f"{self.endpoint}/api/models/{repository}/revision/{quoted}")[0]
        commit = told.get("sha") if isinstance(told, dict) else None
        if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{40}", commit):
            raise self._strange(f"it tells no commit for {revision} of {repository}")
        return commit

    def files(self, repository: str, commit: str) -> tuple[HubFile, ...]:
        """Every file of a repository at a commit.

        Raises:
            OperationError: the hub does not answer, or not as it should.
        """
        url: str | None = f"{self.endpoint}/api/models/{repository}/tree/{commit}?recursive=true"
        found: list[HubFile] = []
        while url:
            entries, url = self._json(url)
            if not isinstance(entries, list):
                raise self._strange("its listing is no list")
            found += [self._file(one) for one in entries if one.get("type") == "file"]
        return tuple(found)

    def summed(self, repository: str, commit: str, file: HubFile) -> WeightFile:
        """A file with its SHA-256 sum: as it is told, or else of the content.

        Raises:
            OperationError: the content is not what the listing says.
        """
        sha256 = file.sha256
        if sha256 is None:
            path = urllib.parse.quote(file.path)
            content = self._get(f"{self.endpoint}/{repository}/resolve/{commit}/{path}")[0]
            # git names content by this sum; it is compared, not trusted.
            blob = b"blob %d\0%s" % (len(content), content)
            sha1 = hashlib.sha1(blob, usedforsecurity=False).hexdigest()
            if (len(content), sha1) != (file.bytes, file.git_sha1):
                raise self._strange(f"{file.path} is not the file that it lists")
            sha256 = hashlib.sha256(content).hexdigest()
        return WeightFile(path=file.path, bytes=file.bytes, sha256=sha256)

    def _file(self, entry: dict[str, Any]) -> HubFile:
        lfs = entry.get("lfs") or {}
        try:
            return HubFile(
                path=entry["path"],
                bytes=lfs.get("size", entry["size"]),
                sha256=str(lfs["oid"]).removeprefix("sha256:") if lfs else None,
                git_sha1=entry["oid"],
            )
        except KeyError as error:
            raise self._strange(f"its listing has an entry without {error}") from error

    def _json(self, url: str) -> tuple[Any, str | None]:
        """A document, and the URL of the next page."""
        body, link = self._get(url)
        following = re.search(r'<([^>]+)>;\s*rel="next"', link)
        try:
            return json.loads(body), self._own(following[1]) if following else None
        except ValueError as error:
            raise self._strange(f"{url} is no JSON") from error

    def _own(self, url: str) -> str:
        """A URL of this hub; the token must not follow another."""
        whole = urllib.parse.urljoin(f"{self.endpoint}/", url)
        if not whole.startswith(f"{self.endpoint}/"):
            raise self._strange(f"its next page is elsewhere, at {whole}")
        return whole

    def _get(self, url: str) -> tuple[bytes, str]:
        """Content of a URL, and its Link header."""
        request = urllib.request.Request(url, headers={"User-Agent": "tokenworks"})  # noqa: S310  (https by the CLI's check)
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310  (see above)
                body: bytes = answer.read(LARGEST_BYTES + 1)
                link = answer.headers.get("Link", "")
        except urllib.error.HTTPError as error:
            raise self._refused(url, error) from error
        except (OSError, http.client.HTTPException) as error:
            remedy = "check the way there, and try again"
            raise OperationError(f"hub {url}", reason=str(error), remedy=remedy) from error
        if len(body) > LARGEST_BYTES:
            raise self._strange(f"{url} has more than {LARGEST_BYTES} bytes and no sum is told")
        return body, link

    def _refused(self, url: str, error: urllib.error.HTTPError) -> OperationError:
        remedies = {
            401: "give a token that may read this model with --token-file",
            403: "accept the model's licence, and give a token that may read it",
            404: "correct repository and revision",
        }
        remedy = remedies.get(error.code, "try again later")
        return OperationError(f"hub {url}", reason=f"answers {error.code}", remedy=remedy)

    def _strange(self, reason: str) -> OperationError:
        remedy = "check that this is a hub, or make the manifest of a folder with --folder"
        return OperationError(f"hub {self.endpoint}", reason=reason, remedy=remedy)
