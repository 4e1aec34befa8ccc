"""The GPU's driver and container toolkit are one version on every node.

An engine is built against a driver's CUDA version, and a driver that changes under it fails when
the first model loads. Where a chart is given no version, it has the one that it was released with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from policy.aws import truth
from policy.estate import Estate
from policy.files import ANSIBLE_VARIABLES, CONTENT
from policy.objects import KubernetesObject, is_kubernetes, objects_in
from policy.packages import driver_faults
from policy.resources import UNKNOWN, Body, Resource, Value, elements, is_body, key_path, peek
from policy.rule import Family, Fault, Rule, Severity, Verdict
from policy.scripts import may_hold_scripts, scripts_in
from policy.versions import Exactness, is_package_version

Keys = tuple[str | int, ...]

_CHART: Final = re.compile(r"kubernetes:helm\.sh/v[0-9]+:(?:Release|Chart)")
# Charts of NVIDIA's that install drivers, toolkits and plugins
# (docs.nvidia.com/datacenter/cloud-native/gpu-operator, github.com/NVIDIA/k8s-device-plugin).
_NVIDIA_CHART: Final = re.compile(
    r"(?:^|/)(?:gpu-operator|network-operator|nvidia-device-plugin|nvidia-dra-driver-gpu)"
    r"(?:$|[-@:]v?[0-9]|@)"
)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_VARIABLE: Final = re.compile(
    r"(?:^|_)(?:driver|nvidia|toolkit|cuda|fabric_?manager|dcgm)(?:_\w+)?_version$", re.IGNORECASE
)
_TEMPLATED: Final = re.compile(r".*\{\{.*", re.DOTALL)
_DEEPEST: Final = 20
_EXACT: Final = Exactness(
    is_exact=lambda text: is_package_version(text) or _DIGEST.fullmatch(text) is not None,
    missing="is missing, which means whichever driver is newest",
    loose="is a branch or a range, which may mean another driver tomorrow",
    remedy="give the one version that was tested, such as 580.95.05",
)


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    if resource.type == ANSIBLE_VARIABLES:
        yield from _variable_faults(resource.properties)
        return
    if _CHART.fullmatch(resource.type):
        yield from _chart_faults(resource)
        return
    for script in scripts_in(resource):
        yield from driver_faults(script)
    if is_kubernetes(resource.type):
        for thing in objects_in(resource):
            yield from _object_faults(thing)


def _chart_faults(chart: Resource) -> Iterator[Fault]:
    yield from _values_faults(
        chart.properties.get("chart"), chart.properties.get("values"), ("values",)
    )


def _values_faults(name: Value, values: Value, keys: Keys) -> Iterator[Fault]:
    """Judge a chart's values if the chart is one of NVIDIA's; one that is not known may be."""
    if isinstance(name, str) and _NVIDIA_CHART.search(name):
        yield from _component_faults(values, keys)
    elif name is UNKNOWN and values is not UNKNOWN:
        for fault in _component_faults(values, keys):
            yield replace(fault, verdict=Verdict.UNDETERMINABLE)


def _component_faults(values: Value, keys: Keys) -> Iterator[Fault]:
    """Yield a fault for each component, such as ``driver``, that is given a loose version."""
    if values is UNKNOWN:
        yield from _EXACT.faults(key_path(*keys), UNKNOWN)
    for name, component in values.items() if is_body(values) else ():
        if is_body(component) and "version" in component:
            off = truth(component.get("enabled")) is False
            if not off and component["version"] not in (None, ""):
                yield from _EXACT.faults(key_path(*keys, name, "version"), component["version"])


def _object_faults(thing: KubernetesObject) -> Iterator[Fault]:
    if thing.group == "nvidia.com" and thing.kind == "ClusterPolicy":
        yield from _component_faults(peek(thing.body, "spec"), (*thing.keys, "spec"))
    elif thing.group == "nvidia.com" and thing.kind == "NVIDIADriver":
        version = peek(thing.body, "spec", "version")
        if version is not None or not thing.partial:
            yield from _EXACT.faults(thing.path("spec", "version"), version)
    elif thing.kind == "HelmRelease" and thing.group.endswith("fluxcd.io"):
        name = peek(thing.body, "spec", "chart", "spec", "chart")
        values = peek(thing.body, "spec", "values")
        yield from _values_faults(name, values, (*thing.keys, "spec", "values"))


def _variable_faults(variables: Body) -> Iterator[Fault]:
    if variables.get(CONTENT) is UNKNOWN:
        yield Fault(
            key=CONTENT,
            reason="cannot be read, and may name any driver",
            remedy="make it YAML that Ansible reads",
            verdict=Verdict.UNDETERMINABLE,
        )
    yield from _variables(variables, (), _DEEPEST)


def _variables(value: Value, keys: Keys, depth: int) -> Iterator[Fault]:
    """Look at each variable by its whole name, nested ones included: ``nvidia.driver.version``."""
    if depth == 0:
        return
    name = "_".join(key for key in keys if isinstance(key, str))
    if is_body(value) or isinstance(value, tuple):
        for key, child in value.items() if is_body(value) else elements(value):
            yield from _variables(child, (*keys, key), depth - 1)
    elif _VARIABLE.search(name) and not (isinstance(value, str) and _TEMPLATED.match(value)):
        yield from _EXACT.faults(key_path(*keys), value)


RULE: Final = Rule(
    code="P8",
    name="gpu-drivers-have-one-exact-version",
    description="GPU drivers and the container toolkit have one exact version.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation="Write driver and toolkit with their whole version; raise it by a reviewed change.",
    references=(
        "https://docs.nvidia.com/datacenter/tesla/drivers/",
        "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html",
        "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html",
    ),
    applies=lambda token: token == ANSIBLE_VARIABLES or may_hold_scripts(token),
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
