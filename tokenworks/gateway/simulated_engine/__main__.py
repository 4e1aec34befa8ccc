"""``python -m tokenworks.gateway.simulated_engine``: one engine until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import json
import signal
import ssl
import sys
from collections.abc import Sequence

from .engine import Engine
from .server import EngineServer
from .settings import Settings


def main(arguments: Sequence[str]) -> int:
    """Run an engine; 0 after a clean stop, 2 when it cannot start as asked."""
    parser = _parser()
    given = parser.parse_args(arguments)
    names = [field.name for field in dataclasses.fields(Settings)]
    values = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    try:
        settings = Settings().changed({name: _value(text) for name, text in values.items()})
    except ValueError as error:
        parser.error(str(error))
    engine = Engine.of(given.name or given.model, given.model, settings)
    try:
        asyncio.run(_run(EngineServer(engine), given))
    except OSError as error:
        print(
            f"error: {given.host}:{given.port}: {error}; give a free port and readable files",
            file=sys.stderr,
        )
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulated-engine", description=__doc__)
    parser.add_argument("--model", required=True, help="the name that /v1/models gives")
    parser.add_argument("--name", help="what every answer begins with; else the model's name")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--control-host", default="127.0.0.1")
    parser.add_argument("--control-port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--load-seconds",
        type=float,
        default=0.0,
        help="time before it listens at all, as if weights were loaded",
    )
    parser.add_argument("--tls-certificate", help="serve TLS with this chain, as managed APIs do")
    parser.add_argument("--tls-key", help="the key of that certificate")
    for field in dataclasses.fields(Settings):
        parser.add_argument(f"--{field.name.replace('_', '-')}", metavar="VALUE")
    return parser


def _value(text: str) -> object:
    """A number, true, false or null as JSON has them, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _tls(given: argparse.Namespace) -> ssl.SSLContext | None:
    if given.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(given.tls_certificate, given.tls_key)
    return context


async def _run(server: EngineServer, given: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if given.load_seconds:
        loading = asyncio.create_task(asyncio.sleep(given.load_seconds))
        await asyncio.wait(
            (loading, asyncio.create_task(stop.wait())), return_when=asyncio.FIRST_COMPLETED
        )
    await server.listen(given.host, given.port, given.control_host, given.control_port, _tls(given))
    port, control = server.ports
    print(json.dumps({"engine": server.engine.name, "port": port, "control": control}), flush=True)
    # What exists by now stays; collecting it again and again would only add pauses.
    gc.freeze()
    await stop.wait()
    await server.drain()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
