"""The node's first process: its network, then its programs, started again when they end.

Runs on the node's own Python, with nothing but the standard library. Argument: a JSON file with
``network`` (commands that set it up), ``settings`` (path below ``/proc/sys`` to value) and
``programs`` (in the order of their start: name, command, and the open descriptors that it alone
inherits). It ends on SIGTERM, and with it, as the first process of its PID namespace, everything
that runs on the node.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LOGS = Path("/var/log/tokenworks")
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0


class Programs:
    """What runs, and when the ones that ended are due again."""

    def __init__(self, programs: list) -> None:
        self.programs = {each["name"]: each for each in programs}
        self.names: dict = {}
        self.pauses = dict.fromkeys(self.programs, FIRST_PAUSE_SECONDS)
        self.due: dict = dict.fromkeys(self.programs, 0.0)

    def start_due(self) -> None:
        """Start what is due; its output is added to its log."""
        now = time.monotonic()
        for name in [each for each, moment in self.due.items() if moment <= now]:
            del self.due[name]
            with (LOGS / f"{name}.log").open("ab") as log:
                started = subprocess.Popen(
                    self.programs[name]["command"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=self.programs[name]["descriptors"],
                )
            self.names[started.pid] = name

    def ended(self, pid: int, status: int) -> None:
        """Note that a process ended; one that is nobody's was an orphan of a container."""
        name = self.names.pop(pid, None)
        if name is None:
            return
        pause = self.pauses[name]
        self.pauses[name] = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self.due[name] = time.monotonic() + pause
        code = os.waitstatus_to_exitcode(status)
        print(f"{name} ended with {code}, again in {pause:.1f} s", flush=True)


def reap(programs: Programs) -> None:
    """Take note of every process that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        programs.ended(pid, status)


def main() -> None:
    """Set the network up, then keep the programs running."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    spec = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    for command in spec["network"]:
        subprocess.run(command, check=True)
    for name, value in spec["settings"].items():
        (Path("/proc/sys") / name).write_text(value)
    programs = Programs(spec["programs"])
    while True:
        programs.start_due()
        time.sleep(0.1)
        reap(programs)


if __name__ == "__main__":
    main()
