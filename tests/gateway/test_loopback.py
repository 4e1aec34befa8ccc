"""Production's files on this machine: where things are changes, and nothing else."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenworks.errors import OperationError
from tokenworks.gateway.layout import local_plan
from tokenworks.gateway.loopback import Substitution
from tokenworks.gateway.ports import COUNT, FIRST, choose_ports, ports_for
from tokenworks.gateway.volumes import Volume
from tokenworks.plan.gateway_types import ClientCertificates
from tokenworks.templating import yaml_text

from .harness import engines_of, plan_for


def endpoint(host: str, port: int) -> dict[str, Any]:
    address = {"socket_address": {"address": host, "port_value": port, "protocol": "TCP"}}
    return {"endpoint": {"address": address}, "load_balancing_weight": 3}


ENGINES = Substitution(
    addresses={
        ("m.engines.svc", 8000): (("127.0.0.1", 1), ("127.0.0.1", 2)),
        ("api.example.com", 443): (("127.0.0.1", 3),),
    }
)


def test_one_name_of_many_pods_becomes_an_address_for_each_of_them() -> None:
    text = json.dumps({"endpoints": [{"lb_endpoints": [endpoint("m.engines.svc", 8000)]}]})
    assert json.loads(ENGINES.apply(text)) == {
        "endpoints": [{"lb_endpoints": [endpoint("127.0.0.1", 1), endpoint("127.0.0.1", 2)]}]
    }


def test_addresses_on_loopback_and_listeners_inside_the_process_stay() -> None:
    inside = {"endpoint": {"address": {"envoy_internal_address": {"server_listener_name": "x"}}}}
    value = {
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 9901}}},
        "lb_endpoints": [inside, endpoint("::1", 5)],
    }
    assert json.loads(ENGINES.apply(json.dumps(value))) == value


def test_on_loopback_no_balancer_is_needed_and_certificates_of_callers_are() -> None:
    callers = ClientCertificates(ca="the authorities", required=True)
    plan = plan_for([engines_of("alpha", 8000)], client_certificates=callers, proxy_protocol=True)
    ports = {"gateway": 1, "gateway-admin": 2, "gateway-readiness": 3}
    here = local_plan(plan, ports)
    assert here.client_certificates == callers
    assert not here.proxy_protocol


EVERYWHERE = "0.0.0.0"  # noqa: S104  (it is refused)


@pytest.mark.parametrize("host", ["10.0.0.7", "m.engines.svc", "localhost.a.com", EVERYWHERE])
def test_what_would_leave_this_machine_is_refused_by_name(host: str) -> None:
    with pytest.raises(OperationError, match=rf"the address {host}:9 in the gateway's"):
        ENGINES.apply(json.dumps({"lb_endpoints": [endpoint(host, 9)]}))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(min_size=1), inner),
)


@given(JSON_VALUES)
def test_whatever_names_no_address_is_the_same_afterwards(value: Any) -> None:
    assert json.loads(ENGINES.apply(yaml_text({"value": value}))) == {"value": value}


def test_a_script_of_many_lines_keeps_every_byte() -> None:
    script = 'function f()\n  return "\\195\\188: #1 % {{ }}"\nend\n'
    text = "source:\n  inline_string: |\n" + "".join(
        f"    {line}\n" for line in script.splitlines()
    )
    assert json.loads(ENGINES.apply(text))["source"]["inline_string"] == script


# --- Ports ---------------------------------------------------------------------------------------

NAMES = st.lists(st.text(min_size=1), unique=True, max_size=20)


@given(NAMES, st.sets(st.integers(FIRST, FIRST + COUNT - 1), max_size=50), st.text())
def test_every_name_gets_a_free_port_of_its_own(names: list[str], used: set[int], by: str) -> None:
    chosen = choose_ports(by, names, {}, lambda port: port not in used)
    assert list(chosen) == names
    assert len(set(chosen.values())) == len(names)
    assert not set(chosen.values()) & used
    assert all(FIRST <= port < FIRST + COUNT for port in chosen.values())


@given(NAMES, st.text())
def test_ports_are_the_same_the_next_time(names: list[str], owner: str) -> None:
    first = choose_ports(owner, names, {}, lambda _: True)
    assert choose_ports(owner, names[::-1], first, lambda _: True) == first


def test_only_a_port_that_somebody_took_changes() -> None:
    first = choose_ports("here", ["a", "b", "c"], {}, lambda _: True)
    second = choose_ports("here", ["a", "b", "c", "d"], first, lambda port: port != first["b"])
    assert (second["a"], second["c"]) == (first["a"], first["c"])
    assert len({*first.values(), second["b"], second["d"]}) == 5


def test_where_no_port_is_free_it_is_said() -> None:
    with pytest.raises(OperationError, match="no port from 10000 to 19999 is free"):
        choose_ports("here", ["a"], {}, lambda _: False)


def test_ports_are_remembered_in_the_folder(tmp_path: Path) -> None:
    first = ports_for(tmp_path, ["gateway", "engine"])
    with socket.create_server(("127.0.0.1", first["engine"])):
        second = ports_for(tmp_path, ["gateway", "engine"])
    assert second["gateway"] == first["gateway"]
    assert second["engine"] not in first.values()


# --- Volumes -------------------------------------------------------------------------------------


def seen(volume: Volume) -> dict[str, str]:
    return {
        path.name: path.read_text()
        for path in volume.root.iterdir()
        if not path.name.startswith("..")
    }


def test_a_volume_changes_by_one_link(tmp_path: Path) -> None:
    volume = Volume(tmp_path / "config")
    volume.publish({"a.yaml": "1", "b.yaml": "2"})
    link = (volume.root / "a.yaml").readlink()
    volume.publish({"a.yaml": "3", "c.yaml": "4"})
    assert seen(volume) == {"a.yaml": "3", "c.yaml": "4"}
    assert (volume.root / "a.yaml").readlink() == link == Path("..data/a.yaml")


def test_nothing_of_older_contents_stays(tmp_path: Path) -> None:
    volume = Volume(tmp_path / "config")
    for number in range(4):
        volume.publish({"a.yaml": str(number)})
    folders = [path for path in volume.root.iterdir() if path.is_dir() and not path.is_symlink()]
    assert len(folders) == 1


def test_only_the_owner_can_read_a_volume(tmp_path: Path) -> None:
    volume = Volume(tmp_path / "keys")
    volume.publish({"keys.yaml": "secret"})
    assert volume.root.stat().st_mode & 0o077 == 0
    assert (volume.root / "keys.yaml").stat().st_mode & 0o077 == 0
