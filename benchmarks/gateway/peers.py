"""What the gateway is measured against: Envoy and nginx with TLS only, and LiteLLM."""

from __future__ import annotations

import os
import shutil
import string
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.gateway.subjects import Bench, Subject, free_port, listens, local_subject
from tokenworks.errors import OperationError
from tokenworks.gateway.layout import LOOPBACK
from tokenworks.gateway.supervisor import Program
from tokenworks.operations.gateway_serve import envoy_path
from tokenworks.toolchain.cache import Cache

LITELLM: Final = "1.108.7"


@contextmanager
def envoy(it: Bench) -> Iterator[Subject]:
    """The gateway's own Envoy with the same TLS, one route and the router: nothing that is ours.

    What separates it from nginx is Envoy's; what separates the gateway from it is our features.
    """
    port, admin = free_port(), free_port()
    config = _config(it, "envoy.yaml", port=port, admin=admin)
    program = Program(
        name="envoy",
        executable=envoy_path(),
        arguments=(
            *("--config-path", str(config), "--log-level", "warning"),
            *("--concurrency", "1", "--disable-hot-restart"),
        ),
        environ={"PATH": os.defpath},
        unready=lambda: listens(port),
        port=port,
        about="Envoy",
    )
    it.supervisor.start(program)
    try:
        yield local_subject(it, "envoy", "TLS only, the same 1.39.3, router only", port)
    finally:
        it.supervisor.stop("envoy")


@contextmanager
def nginx(it: Bench) -> Iterator[Subject]:
    """TLS and unbuffered passing on, nothing else; one worker, as our Envoy has.

    Raises:
        OperationError: there is no nginx on PATH.
    """
    executable = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if executable is None:
        raise OperationError(
            "nginx", reason="is not on PATH", remedy="apt-get install nginx-light, to compare"
        )
    port = free_port()
    config = _config(it, "nginx.conf", port=port)
    program = Program(
        name="nginx",
        executable=Path(executable),
        arguments=("-p", str(it.folder), "-c", str(config), "-e", "stderr"),
        environ={"PATH": os.defpath},
        unready=lambda: listens(port),
        port=port,
        about="nginx",
    )
    it.supervisor.start(program)
    try:
        yield local_subject(it, "nginx", f"TLS only, {_version_of(executable)}", port)
    finally:
        it.supervisor.stop("nginx")


@contextmanager
def litellm(it: Bench, say: Callable[[str], None]) -> Iterator[Subject]:
    """The LiteLLM proxy with one worker and a master key, from PyPI into the cache.

    Raises:
        OperationError: it cannot be installed or does not start.
    """
    place = _install_litellm(say)
    port = free_port()
    key = "sk-benchmark-on-loopback"
    config = it.folder / "litellm.yaml"
    config.write_text(LITELLM_CONFIG.format(model=it.model, engine=it.engine_port, key=key))
    tls = ("--ssl_keyfile_path", it.certificates / "tls.key")
    chain = ("--ssl_certfile_path", it.certificates / "tls.crt")
    options = ("--config", config, "--host", LOOPBACK, "--port", port, "--num_workers", 1)
    program = Program(
        name="litellm",
        executable=place / "bin" / "python",
        arguments=(str(place / "bin" / "litellm"), *map(str, (*options, *tls, *chain))),
        environ=_litellm_environ(place, it.folder),
        unready=lambda: listens(port),
        port=port,
        about="LiteLLM",
        # Its imports alone take ten seconds on a machine at rest.
        ready_seconds=180,
    )
    it.supervisor.start(program)
    try:
        yield local_subject(it, "LiteLLM", f"proxy {LITELLM}, one worker", port, key=key)
    finally:
        it.supervisor.stop("litellm")


LITELLM_CONFIG: Final = """\
model_list:
- model_name: {model}
  litellm_params: {{model: openai/{model}, api_base: "http://127.0.0.1:{engine}/v1", api_key: none}}
general_settings: {{master_key: {key}}}
litellm_settings: {{telemetry: false, num_retries: 0}}
"""


def _litellm_environ(place: Path, folder: Path) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "HOME": str(folder),
        # Started by a link elsewhere, Python does not see that it is a virtual environment's.
        "PYTHONPATH": str(next((place / "lib").glob("python3*/site-packages"))),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_LOG": "ERROR",
    }


def _config(it: Bench, name: str, **ports: int) -> Path:
    """The file of this name beside this module, with folders and ports filled in."""
    text = string.Template(Path(__file__).with_name(name).read_text("utf-8"))
    file = it.folder / name
    values = {"folder": it.folder, "engine": it.engine_port, "tls": it.certificates, **ports}
    file.write_text(text.substitute(values), "utf-8")
    return file


def _install_litellm(say: Callable[[str], None]) -> Path:
    place = Cache.of(os.environ).root / "benchmarks" / f"litellm-{LITELLM}"
    if (place / "installed").exists():
        return place
    say(f"installing litellm[proxy] {LITELLM} into {place}")
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(place)],
        [str(place / "bin" / "pip"), "install", "--quiet", f"litellm[proxy]=={LITELLM}"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OperationError(
                f"LiteLLM {LITELLM}",
                reason=(done.stderr.strip().splitlines() or ["pip failed"])[-1],
                remedy="see that PyPI can be reached, or do without this comparison",
            )
    (place / "installed").touch()
    return place


def _version_of(nginx_path: str) -> str:
    said = subprocess.run([nginx_path, "-v"], capture_output=True, text=True, check=False)
    return said.stderr.strip().rpartition(" ")[2]
