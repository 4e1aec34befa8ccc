"""An EC2 that refuses some calls, and knows some that moto does not: a proxy before moto."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REFUSAL = (
    b"<Response><Errors><Error><Code>UnauthorizedOperation</Code>"
    b"<Message>You are not authorized to perform this operation.</Message></Error></Errors>"
    b"<RequestID>1</RequestID></Response>"
)
# Moto has no placement groups; an account without any answers so.
UNKNOWN_TO_MOTO = {
    "DescribePlacementGroups": b"<DescribePlacementGroupsResponse><requestId>1</requestId>"
    b"<placementGroupSet/></DescribePlacementGroupsResponse>"
}
NO_QUOTA = b'{"__type": "NoSuchResourceException", "message": "No such quota"}'
"""Moto answers an error of its own where it is asked for a default."""
OF_THE_CONNECTION = ("connection", "content-length", "date", "server")


class Refusing(ThreadingHTTPServer):
    """Passes every call on but those whose names are in ``refused``."""

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind.removeprefix("http://")
        self.refused: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do(self) -> None:
        assert isinstance(self.server, Refusing)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if any(f"Action={name}&".encode() in body for name in self.server.refused):
            self._answer(403, {"content-type": "text/xml"}, REFUSAL)
            return
        for name, answer in UNKNOWN_TO_MOTO.items():
            if f"Action={name}&".encode() in body:
                self._answer(200, {"content-type": "text/xml"}, answer)
                return
        if self.headers.get("X-Amz-Target", "").endswith(".GetAWSDefaultServiceQuota"):
            self._answer(400, {"content-type": "application/x-amz-json-1.1"}, NO_QUOTA)
            return
        connection = http.client.HTTPConnection(self.server.behind)
        connection.request(self.command, self.path, body, dict(self.headers))
        with connection.getresponse() as passed:
            headers = {
                name: value
                for name, value in passed.getheaders()
                if name.lower() not in OF_THE_CONNECTION
            }
            self._answer(passed.status, headers, passed.read())
        connection.close()

    do_DELETE = do_GET = do_POST = do_PUT = do  # noqa: N815  names of the base class

    def do_HEAD(self) -> None:
        assert isinstance(self.server, Refusing)
        connection = http.client.HTTPConnection(self.server.behind)
        connection.request("HEAD", self.path, headers=dict(self.headers))
        self._answer(connection.getresponse().status, {}, b"")
        connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the test's own output is what matters."""


@contextmanager
def refusing(behind: str) -> Iterator[Refusing]:
    """A proxy for as long as the block lasts."""
    server = Refusing(behind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
