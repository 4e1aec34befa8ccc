"""The process that runs ansible-runner: it is told what to do on its standard input.

A process of its own, since ansible-runner writes the whole environment of its process into its
artifacts, and since whatever it starts must be found again. Events leave as lines of JSON. When the
input closes, whoever asked is gone, and everything that was started here ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, TextIO

from tokenworks.hosts.leftovers import end_leftovers


def main() -> None:
    """Run one job and say how it ended."""
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints does not get among events
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_whoever_asked, args=(job["mark"],), daemon=True).start()
    _say(events, {"end": _run(job, events)})


def _run(job: dict[str, Any], events: TextIO) -> dict[str, Any]:
    import ansible_runner  # type: ignore[import-untyped]

    def handle(event: dict[str, Any]) -> bool:
        _say(events, {"event": event})
        return True  # a false answer drops the event, and with the last one the final count

    done = ansible_runner.run(
        private_data_dir=job["private"],
        project_dir=job["project"],
        playbook=job["playbook"],
        inventory=job["inventory"],
        event_handler=handle,
        quiet=True,
    )
    said = done.stdout.read() if done.stats is None else ""
    return {"status": done.status, "code": done.rc, "counts": done.stats, "said": said[-4000:]}


def _say(events: TextIO, what: dict[str, Any]) -> None:
    events.write(json.dumps(what, default=str) + "\n")


def _end_with_whoever_asked(mark: str) -> None:
    sys.stdin.read()
    end_leftovers(mark)
    os._exit(1)


if __name__ == "__main__":
    main()
