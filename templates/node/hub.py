"""A stand-in for a model hub: the files below a folder, each whole or from a byte on.

usage: hub.py ADDRESS PORT FOLDER

Like hubs it names the version of a file (ETag) and answers Range, so that a download that was cut
goes on where it ended. It lists no folders.
"""

import http.server
import re
import sys
from functools import partial
from http import HTTPStatus
from pathlib import Path


class Hub(http.server.SimpleHTTPRequestHandler):
    """One request for a file."""

    def send_head(self):
        """The head of an answer; returns the open file where a body follows."""
        file = Path(self.translate_path(self.path))
        if not file.is_file():
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        state = file.stat()
        tag = f'"{state.st_size}-{state.st_mtime_ns}"'
        start = self._start(tag)
        if start and start >= state.st_size:
            self.send_error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            return None
        self.send_response(HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK)
        if start:
            last = state.st_size - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{state.st_size}")
        self.send_header("Content-Length", str(state.st_size - start))
        self.send_header("ETag", tag)
        self.end_headers()
        stream = file.open("rb")
        stream.seek(start)
        return stream

    def _start(self, tag):
        """The byte to begin with: zero, too, for who began with another version of the file."""
        asked = re.fullmatch(r"bytes=([0-9]+)-", self.headers.get("Range", ""))
        return int(asked[1]) if asked and self.headers.get("If-Range", tag) == tag else 0


def main(address, port, folder):
    """Serve until the end of the process."""
    handler = partial(Hub, directory=folder)
    http.server.ThreadingHTTPServer((address, int(port)), handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
