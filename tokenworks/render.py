"""Text from templates: what a plan decided, written as the files that programs read."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shlex
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from ruamel.yaml import YAML

from tokenworks.errors import ConfigError, Problem
from tokenworks.plan.model import CONFIG_FILE
from tokenworks.plan.types import GatewayPlan, GatewayRoute, ModelPlan, WeightsPlan

TEMPLATES: Final = Path(__file__).resolve().parent.parent / "templates"

_LUA_PLAIN: Final = frozenset((string.ascii_letters + string.digits + " -_./:").encode())


def yaml_text(value: object) -> str:
    """JSON on one line, which YAML reads as the same value; no string can leave its quotes.

    Raises ``TypeError`` for what JSON does not know and ``ValueError`` for NaN and infinity.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)


def lua_text(value: str | int) -> str:
    """A Lua literal; every byte of a string that is not plainly harmless is a ``\\ddd`` escape."""
    if isinstance(value, int):
        return str(value)
    plain = "".join(chr(b) if b in _LUA_PLAIN else f"\\{b:03d}" for b in value.encode())
    return f'"{plain}"'


def shell_text(value: str | int) -> str:
    """One word of a POSIX shell command."""
    return shlex.quote(str(value))


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - HTML escapes would corrupt YAML; see the filters
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(yaml=yaml_text, lua=lua_text, shell=shell_text)
    return environment


_ENVIRONMENT: Final = _environment()


def render(template: str, **values: object) -> str:
    """The text of ``templates/<template>`` with its values put in.

    Values that people chose enter through the filter of the file's language, ``yaml``, ``lua`` or
    ``shell``. Raises ``jinja2.UndefinedError`` for a value that the template names and nobody gave.
    """
    return _ENVIRONMENT.get_template(template).render(**values)


# --- The gateway ---------------------------------------------------------------------------------

MODEL_LIST_PATH: Final = "/v1/models"
"""The one path that the gateway answers itself: which models there are."""

MAX_KEY_BYTES: Final = 512
"""Longest API key that is hashed; a header may hold 60 kB, and hashing that is work."""

MAX_CONNECTIONS: Final = 10_000
"""Callers' connections at once in one Envoy: twice the 5,000 streams that it must carry."""

DRAIN_MINIMUM_SECONDS: Final = 15
"""How long a stopping gateway goes on accepting, until load balancers have seen failed probes."""

_ENVOY_DIRECT_RESPONSE_BYTES: Final = 4096  # Envoy's default of max_direct_response_body_size_bytes
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_HEADER_WORD: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, kw_only=True)
class GatewayMounts:
    """Where the gateway's container finds its files; each folder is the root of one volume.

    Envoy watches the roots, because the kubelet changes a ConfigMap or Secret by swapping a link
    there; a ``subPath`` mount is never changed and so would never be seen.
    """

    config: str = "/etc/envoy"
    keys: str = "/etc/gateway-keys"
    tls: str = "/etc/gateway-tls"


GATEWAY_MOUNTS: Final = GatewayMounts()

_GATEWAY_FILES: Final = (
    "envoy.yaml",
    "lds.yaml",
    "cds.yaml",
    "rds.yaml",
    "sds.yaml",
    "drain.sh",
)


@dataclass(frozen=True, kw_only=True)
class _Cluster:
    """One model's engines as Envoy counts them."""

    model: str
    name: str
    statistics_name: str
    host: str
    port: int
    max_requests: int
    max_connections: int


def gateway_files(
    plan: GatewayPlan, *, listen_address: str, mounts: GatewayMounts = GATEWAY_MOUNTS
) -> dict[str, str]:
    """The gateway's ConfigMap: file name → text. Nothing in it is secret.

    ``listen_address`` is where both listeners bind: every address of a Pod, loopback elsewhere.
    """
    models = [route.model for route in plan.routes]
    model_list = _model_list(models)
    model_not_found = f"This model is not served here. Models: {', '.join(models)}."
    body_limit = plan.max_request_body_bytes.value
    values = {
        "plan": plan,
        "mounts": mounts,
        "listen_address": listen_address,
        "max_connections": MAX_CONNECTIONS,
        "drain_minimum_seconds": min(DRAIN_MINIMUM_SECONDS, plan.drain_seconds.value),
        "clusters": [_cluster(route) for route in plan.routes],
        "model_list_paths": [path for path in plan.allowed_paths if path == MODEL_LIST_PATH],
        "inference_paths": [path for path in plan.allowed_paths if path != MODEL_LIST_PATH],
        "model_list": model_list,
        "model_not_found": model_not_found,
        "body_too_large": f"A request body may hold at most {body_limit} bytes here.",
        "max_direct_response_bytes": max(
            _ENVOY_DIRECT_RESPONSE_BYTES, len(model_list.encode()), len(model_not_found.encode())
        ),
    }
    return {name: render(f"gateway/{name}.j2", **values) for name in _GATEWAY_FILES}


def _model_list(models: Sequence[str]) -> str:
    """The answer to ``GET /v1/models``; ``created`` is 0 because equal plans give equal bytes."""
    data = [
        {"id": model, "object": "model", "created": 0, "owned_by": "tokenworks"} for model in models
    ]
    return json.dumps({"object": "list", "data": data})


def _cluster(route: GatewayRoute) -> _Cluster:
    """Named apart from Envoy's own; counted under the model's name, but a dot ends Envoy's label.

    There may be twice as many connections as requests: a request too many then gets a connection,
    meets the limit on requests and is refused at once, where it would otherwise wait unseen.
    """
    return _Cluster(
        model=route.model,
        name=f"model/{route.model}",
        statistics_name=route.model.replace(".", "_"),
        host=route.host,
        port=route.port,
        max_requests=route.max_concurrent_requests,
        max_connections=2 * route.max_concurrent_requests,
    )


def key_hash(key: str) -> str:
    """The SHA-256 of an API key, in hexadecimal: all that is ever stored of it.

    There is no salt and no stretching, so keys must be random: 128 bits or more, not words.
    """
    return hashlib.sha256(key.encode()).hexdigest()


def gateway_keys_file(hashes: Mapping[str, Sequence[str]]) -> str:
    """``keys.yaml`` for the gateway's Secret: tenant → ``key_hash`` of each of its keys.

    Raises ``ConfigError`` for what is no hash, for a hash of two tenants, and for a tenant whose
    name no header can carry; never repeats what was given, which could be a key.
    """
    problems = [*_tenant_problems(hashes), *_hash_problems(hashes)]
    if problems:
        raise ConfigError(problems)
    tenant_of_hash = sorted((hash_, tenant) for tenant in hashes for hash_ in hashes[tenant])
    source = render(
        "gateway/api_keys.lua.j2", max_key_bytes=MAX_KEY_BYTES, tenant_of_hash=tenant_of_hash
    )
    return render("gateway/keys.yaml.j2", source=source)


def _tenant_problems(hashes: Mapping[str, Sequence[str]]) -> list[Problem]:
    return [
        Problem(
            key="tenants",
            given=json.dumps(tenant),
            reason="cannot be carried in a header",
            remedy="name tenants in printable ASCII without spaces",
        )
        for tenant in hashes
        if not _HEADER_WORD.fullmatch(tenant)
    ]


def _hash_problems(hashes: Mapping[str, Sequence[str]]) -> list[Problem]:
    problems: list[Problem] = []
    owner: dict[str, str] = {}
    for tenant, of_tenant in hashes.items():
        for index, hash_ in enumerate(of_tenant):
            key = f"tenants.{tenant}.keys[{index}]"
            if not _HASH.fullmatch(hash_):
                reason = "is no SHA-256 in lower-case hexadecimal"
                problems.append(Problem(key=key, reason=reason, remedy="give key_hash(key)"))
            elif owner.setdefault(hash_, tenant) != tenant:
                reason = f"is also a key of tenant {owner[hash_]}"
                problems.append(Problem(key=key, reason=reason, remedy="give each its own key"))
    return problems


def envoy_arguments(
    plan: GatewayPlan, *, mounts: GatewayMounts = GATEWAY_MOUNTS
) -> tuple[str, ...]:
    """Envoy's command line; fits a read-only file system and any user.

    There are as many workers as the plan gives processors: Envoy would otherwise start one thread
    for each processor of the node. Levels below ``warning`` are never asked for, because
    Envoy's debug log prints API keys.
    """
    return (
        "--config-path",
        f"{mounts.config}/envoy.yaml",
        "--log-level",
        "warning",
        "--concurrency",
        str(plan.workers.value),
        # A misspelt field in a watched file is refused and the old file stays in force.
        "--reject-unknown-dynamic-fields",
        # Hot restart needs shared memory; a Pod is replaced instead.
        "--disable-hot-restart",
        # How long streams may go on after a listener was changed, and when the Pod stops.
        "--drain-time-s",
        str(plan.drain_seconds.value),
        "--drain-strategy",
        "immediate",
        # Access log lines leave within a second, not in ten.
        "--file-flush-interval-msec",
        "1000",
    )


def drain_command(mounts: GatewayMounts = GATEWAY_MOUNTS) -> tuple[str, ...]:
    """What the container runs before it is stopped (``preStop``), for ``drain_seconds`` at most."""
    return ("bash", f"{mounts.config}/drain.sh")


# --- The engine ----------------------------------------------------------------------------------

GATE_SCRIPT: Final = "verify.py"
GATE_MANIFEST: Final = "manifest.json"


def engine_files(model: ModelPlan) -> dict[str, str]:
    """The engine's own configuration, as the plan decided it."""
    text = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(model.config_file.value, text)
    return {CONFIG_FILE: text.getvalue()}


def weights_gate_files(weights: WeightsPlan) -> dict[str, str]:
    """The gate's program and the manifest that it holds the weights against."""
    files = [{"path": path, "bytes": size, "sha256": sha} for path, size, sha in weights.files]
    manifest = {
        "repository": weights.repository,
        "revision": weights.revision,
        "files": files,
    }
    return {
        GATE_SCRIPT: (TEMPLATES / "weights" / "verify.py").read_text("utf-8"),
        GATE_MANIFEST: json.dumps(manifest, indent=1) + "\n",
    }
