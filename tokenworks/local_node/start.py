"""Starting a node's first process in namespaces of its own, with what it inherits of the host."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.files import write_whole
from tokenworks.local_node import machine as plain
from tokenworks.local_node.layout import NodeLayout
from tokenworks.local_node.machine import Descriptors, Machine, Ports

NAMESPACES: Final = ("--mount", "--net", "--pid", "--ipc", "--uts")
"""All but users': the node's programs are root, as on any node."""
SOCKET_PATH_BYTES: Final = 107
"""unix(7): 108 with the zero byte at its end."""
_BACKLOG: Final = 1024


@contextmanager
def inherited(layout: NodeLayout, ports: Ports) -> Iterator[Descriptors]:
    """The host's network and sockets in it, open until the node has them."""
    with ExitStack() as stack:
        network = os.open("/proc/self/ns/net", os.O_RDONLY)
        stack.callback(os.close, network)
        gateway = stack.enter_context(socket.socket())
        gateway.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        gateway.bind(("127.0.0.1", ports.gateway))
        gateway.listen(_BACKLOG)
        _refuse_long(layout.proxy)
        proxy = stack.enter_context(socket.socket(socket.AF_UNIX))
        layout.proxy.unlink(missing_ok=True)
        proxy.bind(str(layout.proxy))
        layout.proxy.chmod(0o600)
        proxy.listen(_BACKLOG)
        yield Descriptors(host_network=network, gateway=gateway.fileno(), proxy=proxy.fileno())


def _refuse_long(path: Path) -> None:
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise OperationError(
            f"the socket {path}",
            reason=f"its path is longer than the {SOCKET_PATH_BYTES} bytes that Linux allows",
            remedy="put the checkout into a folder with a shorter path",
        )


def start(
    layout: NodeLayout, machine: Machine, ports: Ports, spec: dict[str, object]
) -> subprocess.Popen[bytes]:
    """Start the node's first process; it ends with everything that it started."""
    layout.starter.unlink(missing_ok=True)
    layout.starter.symlink_to(shutil.which("unshare") or "unshare")
    with inherited(layout, ports) as descriptors:
        kept = (descriptors.host_network, descriptors.gateway, descriptors.proxy)
        _write(layout.config / "wire.json", plain.wire_spec(ports, descriptors))
        _write(layout.config / "init.json", plain.init_spec(machine, kept))
        _write(layout.config / "enter.json", spec)
        arguments = [*NAMESPACES, "--fork", "--kill-child", "--propagation", "private"]
        enter = [sys.executable, "-I", "-S"]
        files = [str(layout.config / name) for name in ("enter.py", "enter.json")]
        with (layout.logs / "init.log").open("ab") as log:
            return subprocess.Popen(
                [str(layout.starter), *arguments, *enter, *files],
                cwd="/",
                env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=kept,
                # No terminal's Ctrl-C ends it.
                start_new_session=True,
                umask=0o022,
            )


def _write(path: Path, content: object) -> None:
    write_whole(path, f"{json.dumps(content, indent=2)}\n")
