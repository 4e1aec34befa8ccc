"""Several replicas behind one name, as a headless Service gives them."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from .engine import SimulatedEngine
from .harness import (
    Gateway,
    engines_of,
    free_port,
    model_step,
    plan_for,
    route_to,
    running,
    until,
)

pytestmark = pytest.mark.envoy

REPLICAS = ("127.0.0.1", "127.0.0.2")
RESOLVER = (
    "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig"
)
NAME = "alpha.engines.svc.cluster.local"
SLOW = {"events": 25, "gap_seconds": 0.1}


@contextlib.contextmanager
def name_server() -> Iterator[int]:
    """A DNS server on loopback that gives the addresses of the replicas for every name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.2)
        stopped = threading.Event()
        thread = threading.Thread(target=_answer, args=(server, stopped))
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            stopped.set()
            thread.join(5)


def _answer(server: socket.socket, stopped: threading.Event) -> None:
    while not stopped.is_set():
        with contextlib.suppress(TimeoutError):
            query, client = server.recvfrom(512)
            question = query[12 : query.index(b"\0", 12) + 5]
            asks_for_ipv4 = question[-4:-2] == b"\0\1"
            records = [
                b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4) + socket.inet_aton(address)
                for address in REPLICAS
                if asks_for_ipv4
            ]
            head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(records), 0, 0)
            server.sendto(head + question + b"".join(records), client)


def ask(gateway: Gateway, port: int) -> None:
    """Send this gateway's questions to the name server of the test."""
    resolver = f"""
      typed_dns_resolver_config:
        name: envoy.network.dns_resolver.cares
        typed_config:
          "@type": {RESOLVER}
          resolvers: [{{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}]"""
    files = gateway.files(gateway.plan)
    kind = "clusters.dns.v3.DnsCluster"
    gateway.config.publish({**files, "cds.yaml": files["cds.yaml"].replace(kind, kind + resolver)})


def test_a_busy_replica_gets_nothing_while_another_is_idle(tmp_path: Path) -> None:
    """Envoy's default draws two with replacement: one time in four it meets the busy one."""
    port = free_port()
    model = engines_of("alpha", port, host=NAME, most=8)
    with (
        SimulatedEngine(REPLICAS[0], port) as first,
        SimulatedEngine(REPLICAS[1], port) as second,
        name_server() as names,
        running(tmp_path, plan_for([model])) as gateway,
    ):
        ask(gateway, names)
        until(lambda: gateway.post({"model": "alpha"}).status == 200, what="replicas")
        first.received.clear()
        second.received.clear()
        with gateway.streaming({"model": "alpha", "simulate": SLOW}):
            for _ in range(30):
                assert gateway.post({"model": "alpha"}).status == 200
        assert sorted((len(first.received), len(second.received))) == [1, 30]


def test_a_replica_that_died_sends_nobody_to_the_next_step_while_another_is_healthy(
    tmp_path: Path,
) -> None:
    """It has no request, so it is the first choice until probes have missed it."""
    port = free_port()
    with SimulatedEngine() as small, SimulatedEngine(REPLICAS[0], port) as staying:
        models = [engines_of("alpha", port, host=NAME), engines_of("small", small.port)]
        chain = route_to("alpha", model_step("alpha"), model_step("small", rewrites=True))
        plan = plan_for(models, routes=(chain, route_to("small")))
        with name_server() as names, running(tmp_path, plan) as gateway:
            with SimulatedEngine(REPLICAS[1], port) as dying:
                ask(gateway, names)
                until(
                    lambda: (
                        gateway.post({"model": "alpha"}).status == 200
                        and bool(staying.received)
                        and bool(dying.received)
                    ),
                    what="replicas",
                )
            small.received.clear()
            staying.received.clear()
            with gateway.streaming({"model": "alpha", "simulate": SLOW}):
                for _ in range(5):
                    assert gateway.post({"model": "alpha"}).status == 200
            assert (len(staying.received), len(small.received)) == (6, 0)
