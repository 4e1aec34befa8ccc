"""What pods may do: paths however they are spelled, and every control of Pod Security."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.node_access import host_folder
from policy.resources import Resource
from policy.rules.engine_pods_are_restricted import RULE

_DIGEST = f"sha256:{'a1' * 32}"
_ENGINE: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "engine",
            "image": f"vllm/vllm-openai@{_DIGEST}",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ],
}


def _capabilities(added: str) -> dict[str, Any]:
    return {"drop": ["ALL"], "add": [added]}


def opens_the_node(path: str) -> bool:
    return any(host_folder({"path": path}, ()))


@given(
    st.sampled_from(["/", "/etc", "/proc", "/var/run/docker.sock", "/run/containerd/x", "/var"]),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["/", "/./", "/a/../"])), max_size=3),
    st.sampled_from(["", "/", "/."]),
)
def test_a_folder_of_the_node_is_the_same_however_it_is_spelled(
    path: str, detours: list[tuple[int, str]], end: str
) -> None:
    for position, detour in detours:
        slashes = [index for index, letter in enumerate(path) if letter == "/"]
        at = slashes[position % len(slashes)]
        path = path[:at] + detour + path[at + 1 :]
    assert opens_the_node(path + end)


@pytest.mark.parametrize(
    "path", ["/var/log", "/mnt/x", "/etcetera", "/runs", "/process", "/data/etc"]
)
def test_other_folders_open_nothing(path: str) -> None:
    assert not opens_the_node(path)


def broken_rules(pod: dict[str, Any]) -> list[str]:
    properties = {"spec": {"template": {"spec": pod}}}
    found = RULE.judge(Resource.of("kubernetes:apps/v1:Deployment", "e", properties))
    return [finding.key.removeprefix("spec.template.spec.") for finding in found]


def test_the_engine_to_start_from_is_restricted() -> None:
    assert broken_rules(_ENGINE) == []


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("runAsNonRoot", [True], [False, "true", 1]),
        ("runAsUser", [1, 1000, 65532], [0, "0"]),
        ("seccompProfile", [{"type": "Localhost"}], [{"type": "Unconfined"}, {"type": ""}]),
        ("allowPrivilegeEscalation", [False], [True, None, "false"]),
        ("procMount", ["Default", None], ["Unmasked"]),
        ("appArmorProfile", [{"type": "Localhost"}, {}], [{"type": "Unconfined"}]),
        ("seLinuxOptions", [{"type": "container_t"}, {"level": "s0"}], [{"type": "spc_t"}]),
        ("capabilities", [{"drop": ["ALL"]}], [{}, {"drop": ["all"]}, {"drop": ["NET_RAW"]}]),
        ("capabilities", [_capabilities("IPC_LOCK")], [_capabilities("SETUID")]),
    ],
)  # fmt: skip
def test_a_containers_security_context_is_held_to_the_standard(
    field: str, good: list[Any], bad: list[Any]
) -> None:
    for value in [*good, *bad]:
        pod = deepcopy(_ENGINE)
        pod["containers"][0]["securityContext"][field] = value
        found = broken_rules(pod)
        assert bool(found) is any(value is one for one in bad), value
        assert all(f"securityContext.{field}" in key for key in found)


@given(
    st.sampled_from(["initContainers", "ephemeralContainers", "containers"]),
    st.sampled_from(["livenessProbe", "readinessProbe", "startupProbe"]),
    st.sampled_from(["httpGet", "tcpSocket"]),
    st.text("abc.0", max_size=6),
)
def test_no_probe_of_any_container_calls_another_host(
    listed: str, probe: str, kind: str, host: str
) -> None:
    pod = deepcopy(_ENGINE)
    probed = {**pod["containers"][0], probe: {kind: {"port": 8000, "host": host}}}
    pod[listed] = [*pod.get(listed, []), probed]
    assert len(broken_rules(pod)) == (1 if host else 0)
