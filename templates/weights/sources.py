"""Where weights come from: an HTTP server, a hub among them, or a folder that is mounted.

Each source gives ``answer(path, start, mark)``: the rest of a file from a byte on. ``mark`` is what
the source called the file's version when the beginning was read; where it has another version now,
the answer starts at zero.
"""

import email.utils
import http.client
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

CHUNK_BYTES = 2**20
WAIT_SECONDS = 60
"""Longest pause that a server may ask for; a Job that waits longer is better started again."""
AGAIN = {408, 425, 429}
DENIED = {401, 403}
GONE = {404, 410}
NOT_SATISFIABLE = 416


class RefusedError(Exception):
    """What trying again cannot mend."""


class TryAgainError(Exception):
    """What may go well when it is tried again, after ``wait`` seconds where the server says so."""

    def __init__(self, reason, wait=None):
        super().__init__(reason)
        self.wait = wait


class Answer:
    """A file from byte ``start`` on: its ``total`` size or None, its ``mark``, its ``chunks``."""

    def __init__(self, start, total, mark, chunks):
        self.start, self.total, self.mark, self.chunks = start, total, mark, chunks


class Folder:
    """Files below a folder of a mounted volume; links may not lead out of it."""

    def __init__(self, folder):
        self.root = Path(folder).resolve()

    def answer(self, path, start, mark):
        """The rest of one file."""
        file = (self.root / path).resolve()
        if not file.is_relative_to(self.root):
            raise RefusedError(f"{path}: leads out of the source's folder, to {file}")
        try:
            stream = file.open("rb")
        except FileNotFoundError:
            raise RefusedError(f"{path}: is missing in the source's folder {self.root}") from None
        except (PermissionError, IsADirectoryError) as error:
            raise RefusedError(f"{path}: cannot be read ({error.strerror})") from None
        state = file.stat()
        now = f"{state.st_size}-{state.st_mtime_ns}"
        start = stream.seek(start if mark in (None, now) else 0)
        return Answer(start, state.st_size, now, _pieces(stream, stream.read))


class Server:
    """Files below a URL; the token goes to that server and to nobody it redirects to."""

    def __init__(self, url, token_file=None, ca_file=None, stall_seconds=60):
        self.url = url if url.endswith("/") else f"{url}/"
        if _origin(url)[0] not in ("http", "https"):
            raise RefusedError(f"{_shown(url)}: is no address of an HTTP server")
        self.token = Path(token_file).read_text("utf-8").strip() if token_file else None
        if self.token and not self.url.startswith("https://"):
            raise RefusedError(f"{_shown(self.url)}: a token is never sent without TLS")
        self.stall_seconds = stall_seconds
        self.opener = urllib.request.OpenerDirector()
        context = ssl.create_default_context(cafile=ca_file)
        for handler in (
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(context=context),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            _Redirects(),
        ):
            self.opener.add_handler(handler)

    def answer(self, path, start, mark):
        """The rest of one file, or all of it where the server has another version by now."""
        address = self.url + urllib.parse.quote(path)
        request = urllib.request.Request(address)  # noqa: S310  (http or https, see __init__)
        request.add_header("Accept-Encoding", "identity")
        request.add_header("User-Agent", "tokenworks-weights")
        if start:
            request.add_header("Range", f"bytes={start}-")
            if mark:
                request.add_header("If-Range", mark)
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            response = self.opener.open(request, timeout=self.stall_seconds)
        except urllib.error.HTTPError as error:
            return self._refusal(path, start, error)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise RefusedError(f"{path}: the server cannot be trusted ({reason})") from None
            raise TryAgainError(f"{path}: {_shown(request.full_url)}: {reason}") from None
        mark = response.headers.get("ETag")
        mark = None if mark is None or mark.startswith("W/") else mark
        began, total = _extent(response, start)
        return Answer(began, total, mark, _pieces(response, response.read1))

    def _refusal(self, path, start, error):
        """What an error status means: begin anew, try again, or never."""
        error.close()
        place = f"{path}: {_shown(error.url)} answers {error.code} {error.reason}"
        if error.code == NOT_SATISFIABLE and start:
            return self.answer(path, 0, None)
        if error.code in AGAIN or error.code >= 500:
            raise TryAgainError(place, _seconds(error.headers.get("Retry-After"))) from None
        # Signed addresses of a content network expire; the next request asks for a new one.
        if error.code in DENIED and _origin(error.url) != _origin(self.url):
            raise TryAgainError(place) from None
        if error.code in DENIED:
            needs = "that it may read this model" if self.token else "whether a token is needed"
            raise RefusedError(
                f"{place}: check {needs}, and that its licence is accepted"
            ) from None
        if error.code in GONE:
            raise RefusedError(f"{place}: the source does not have this file") from None
        raise RefusedError(place) from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, without the token to other servers, and never from TLS to none."""

    max_redirections = 5

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        """The next request, or a refusal."""
        before, after = _origin(req.full_url), _origin(newurl)
        if after[0] != "https" and (after[0] != "http" or before[0] == "https"):
            raise RefusedError(f"{_shown(req.full_url)} redirects to {_shown(newurl)}, without TLS")
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if new is not None and token and after == before:
            new.add_unredirected_header("Authorization", token)
        return new


def _pieces(stream, read):
    """What is read, in pieces of about CHUNK_BYTES; what came before a failure is given first."""
    failure, piece = None, b"the first"
    with stream:
        while piece and failure is None:
            gathered = bytearray()
            try:
                while len(gathered) < CHUNK_BYTES and (piece := read(CHUNK_BYTES - len(gathered))):
                    gathered += piece
            except (OSError, http.client.HTTPException, ValueError) as error:
                failure = error
            if gathered:
                yield gathered
    if failure is not None:
        raise TryAgainError(f"the connection broke ({failure!r})")


def _extent(response, start):
    """Where an answer begins, and the size of the whole file or None."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        unit, _, extent = response.headers.get("Content-Range", "").partition(" ")
        span, _, total = extent.partition("/")
        begin = span.partition("-")[0]
        if unit != "bytes" or begin != str(start):
            response.close()
            raise TryAgainError(f"asked for bytes from {start} on, the server sends {extent!r}")
        return start, int(total) if total.isdigit() else None
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def _origin(url):
    parts = urllib.parse.urlsplit(url)
    default = {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


def _shown(url):
    """A URL without what may be secret: user, query, fragment."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _seconds(header):
    """Pause that a Retry-After header asks for, as a number or as a date; None without one."""
    if not header:
        return None
    if header.strip().isdigit():
        return min(int(header), WAIT_SECONDS)
    date = email.utils.parsedate_to_datetime
    try:
        return min(max(date(header).timestamp() - time.time(), 0), WAIT_SECONDS)
    except (TypeError, ValueError):
        return None


def source_of(settings):
    """The source that the settings describe."""
    if "folder" in settings:
        return Folder(settings["folder"])
    return Server(**settings)
