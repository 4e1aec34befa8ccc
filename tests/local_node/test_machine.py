"""What a node's programs are told."""

from __future__ import annotations

import json
from pathlib import Path

from ruamel.yaml import YAML

from tests.node.harness import ENVIRONMENT
from tokenworks.local_cluster.layout import Layout
from tokenworks.local_node.cgroups import Cgroups
from tokenworks.local_node.layout import NodeLayout
from tokenworks.local_node.machine import (
    ETC,
    PLUGINS,
    PROGRAMS,
    Descriptors,
    Machine,
    Ports,
    config_files,
    enter_spec,
    init_spec,
    kubeconfig,
    users,
    wire_spec,
)

MACHINE = Machine(name="here-0", labels={}, processors=4, memory_mib=1024, gpus=2, max_pods=9)
CGROUPS = Cgroups("one")


def test_the_wire_knows_three_ways_and_no_other() -> None:
    ports = Ports(api=1001, kwok=1002, gateway=1003)
    spec = wire_spec(ports, Descriptors(host_network=3, gateway=4, proxy=5))
    assert spec["inward"] == [[4, ["192.0.2.1", 443]]]
    assert spec["outward"] == [[["192.0.2.2", 1001], ["127.0.0.1", 1001]]]
    assert (spec["proxy"], spec["on_host"]) == (5, [["127.0.0.1", 1002]])


def test_only_the_wire_inherits_sockets_of_the_host() -> None:
    programs = init_spec(MACHINE, (3, 4, 5))["programs"]
    assert {each["name"]: each["descriptors"] for each in programs if each["descriptors"]} == {
        "wire": (3, 4, 5)
    }


def test_each_program_is_a_user_of_its_own_and_nobody_is_an_administrator() -> None:
    found = users(MACHINE)
    assert len({user.name for user in found.values()}) == len(found)
    assert found["kubelet"].name == "system:node:here-0"
    assert not any("system:masters" in user.groups for user in found.values())
    for program in found:
        assert json.loads(kubeconfig(program, 1001))["users"][0]["user"] == {
            "client-certificate": f"{ETC}/{program}.crt",
            "client-key": f"{ETC}/{program}.key",
        }


def test_files_are_what_their_readers_parse(tmp_path: Path) -> None:
    layout = Layout.of(ENVIRONMENT, tmp_path)
    layout.pki.mkdir(parents=True)
    (layout.pki / "ca.crt").write_text("certificate")
    files = config_files(MACHINE, layout, "tokenworks.local/pause@sha256:0")
    kubelet = YAML(typ="safe").load(files["kubelet.yaml"])
    assert kubelet["maxPods"] == 9
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert YAML(typ="safe").load(files["kube-proxy.yaml"])["hostnameOverride"] == "here-0"
    (plugin,) = json.loads(files["pods.conflist"])["plugins"]
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.245.0.0/24", "gateway": "10.245.0.1"}]]
    assert 'sandbox = "tokenworks.local/pause@sha256:0"' in files["containerd.toml"]


EVICTION_DEFAULTS = {
    *("memory.available", "nodefs.available", "nodefs.inodesFree"),
    *("imagefs.available", "imagefs.inodesFree"),
}
"""What a kubelet ends pods for unless it is told otherwise: DefaultEvictionHard of pkg/kubelet."""


def test_no_pod_is_ended_because_others_fill_the_machine(tmp_path: Path) -> None:
    layout = Layout.of(ENVIRONMENT, tmp_path)
    layout.pki.mkdir(parents=True)
    (layout.pki / "ca.crt").write_text("certificate")
    kubelet = YAML(typ="safe").load(config_files(MACHINE, layout, "pause")["kubelet.yaml"])
    assert kubelet["evictionHard"] == dict.fromkeys(EVICTION_DEFAULTS, "0%")
    assert "evictionSoft" not in kubelet


def test_whatever_the_node_may_write_lies_in_its_own_folder(tmp_path: Path) -> None:
    layout = NodeLayout(Layout.of(ENVIRONMENT, tmp_path))
    programs = {name: Path("/tools", name) for name in (*PROGRAMS, *PLUGINS)}
    spec = enter_spec(MACHINE, layout, Path("/debian"), Path("/hub"), programs, CGROUPS)
    writable = [Path(source) for source, _, may_write in spec["binds"] if may_write]
    assert len(writable) == 4
    assert all(path.is_relative_to(layout.root) for path in writable)
    assert all(Path(spec[key]).is_relative_to(layout.root) for key in ("upper", "work", "merged"))
