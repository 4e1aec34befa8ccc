"""The only way between the node's network and the host's: a few connections, passed on by hand.

Runs in the node's network namespace and makes single sockets in the host's. It needs no interface,
route or rule of the host, and whatever it is not told to pass on has no way at all. Argument: a
JSON file with

``host_network``  descriptor of the host's network namespace
``inward``        descriptors of listening sockets of the host, each with its address on the node
``outward``       addresses to listen at on the node, each with its address on the host
``proxy``         descriptor of a listening socket where the API server asks for connections to
                  kubelets and pods with HTTP's CONNECT
``on_host``       addresses that such a request means on the host: kubelets of simulated nodes
"""

import asyncio
import ctypes
import json
import os
import re
import socket
import sys
from functools import partial
from pathlib import Path

NEW_NETWORK = 0x40000000  # CLONE_NEWNET of linux/sched.h
CONNECT = re.compile(rb"CONNECT \[?([0-9a-fA-F.:]+?)\]?:([0-9]+) HTTP/1\.[01]\r\n")
CHUNK = 65536
LIBC = ctypes.CDLL(None, use_errno=True)


class Networks:
    """Sockets of the node's network, and of the host's."""

    def __init__(self, host: int) -> None:
        self.host = host
        self.node = os.open("/proc/self/ns/net", os.O_RDONLY)

    def enter(self, descriptor: int) -> None:
        """Sockets made from now on belong to that network."""
        if LIBC.setns(descriptor, NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")

    async def connect(self, address: tuple, on_host: bool):
        """A connection to an address of one of the two."""
        if on_host:
            self.enter(self.host)
        try:
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        finally:
            if on_host:
                self.enter(self.node)
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().sock_connect(made, address)
            return await asyncio.open_connection(sock=made)
        except BaseException:
            made.close()
            raise


async def pump(reader, writer) -> None:
    """Pass bytes on until their end, then say that it is the end."""
    try:
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        # One side is gone without a word; the other learns it at once.
        writer.transport.abort()


async def join(one, other) -> None:
    """Pass bytes between two connections, both ways, until both are over."""
    await asyncio.gather(pump(one[0], other[1]), pump(other[0], one[1]))
    for _, writer in (one, other):
        writer.close()


async def forward(networks: Networks, address: tuple, on_host: bool, reader, writer) -> None:
    """Pass one connection on."""
    try:
        other = await networks.connect(address, on_host)
    except OSError:
        writer.transport.abort()
        return
    await join((reader, writer), other)


async def serve_proxy(networks: Networks, on_host: list, reader, writer) -> None:
    """Open the connection that CONNECT asks for, and pass it on."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        asked = CONNECT.match(head)
        if asked is None:
            raise ValueError("no CONNECT to an address")
        address = (asked[1].decode(), int(asked[2]))
        other = await networks.connect(address, list(address) in on_host)
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        writer.write(f"HTTP/1.1 502 Bad Gateway\r\n\r\n{error}".encode())
        writer.close()
        return
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    await join((reader, writer), other)


async def main() -> None:
    """Serve every way that was asked for, until the node ends."""
    spec = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    networks = Networks(spec["host_network"])
    servers = []
    for descriptor, address in spec["inward"]:
        passed = partial(forward, networks, tuple(address), False)
        listening = socket.socket(fileno=os.dup(descriptor))
        servers.append(await asyncio.start_server(passed, sock=listening, backlog=1024))
    for here, there in spec["outward"]:
        passed = partial(forward, networks, tuple(there), True)
        servers.append(await asyncio.start_server(passed, *here, backlog=1024))
    asked = partial(serve_proxy, networks, spec["on_host"])
    listening = socket.socket(fileno=os.dup(spec["proxy"]))
    servers.append(await asyncio.start_unix_server(asked, sock=listening))
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(main())
