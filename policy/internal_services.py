"""Whether a Service's load balancer is internal, by what the controller that makes it honours.

An annotation that no controller reads makes nothing internal: with a class, only the class's own
controller acts; without one, the cluster's cloud does, and each cloud reads its own annotation.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

from policy.estate import Estate
from policy.networks import is_private
from policy.objects import KubernetesObject
from policy.resources import UNKNOWN, Value, elements, is_body, peek
from policy.rule import Verdict

AWS: Final = "service.beta.kubernetes.io/aws-load-balancer-"
# Controllers that read the AWS annotations by load balancer class
# (kubernetes-sigs.github.io/aws-load-balancer-controller; EKS Auto Mode user guide).
_AWS_CLASSES: Final = frozenset({"service.k8s.aws/nlb", "eks.amazonaws.com/nlb"})
# Without a class, only these types hand a Service to that controller; the in-tree one
# ignores the scheme annotation and goes public (aws-load-balancer-controller#2737, #3293).
_AWS_CONTROLLER_TYPES: Final = frozenset({"external", "nlb-ip"})
# docs.cloud.google.com/kubernetes-engine/docs/concepts/service-load-balancer-parameters
_GOOGLE_CLASSES: Final = {
    "networking.gke.io/l4-regional-internal": True,
    "networking.gke.io/l4-regional-external": False,
}
# What the clouds' own controllers take for internal, spelled as they compare it, cloud by cloud
# (kubernetes.io/docs/concepts/services-networking/service/#internal-load-balancer).
_INTERNAL: Final[tuple[dict[str, frozenset[str]], ...]] = (
    {
        "networking.gke.io/load-balancer-type": frozenset({"Internal", "internal"}),
        "cloud.google.com/load-balancer-type": frozenset({"Internal", "internal"}),
    },
    {"service.beta.kubernetes.io/azure-load-balancer-internal": frozenset({"true"})},
    {"service.beta.kubernetes.io/openstack-internal-load-balancer": frozenset({"true"})},
    {"service.beta.kubernetes.io/oci-load-balancer-internal": frozenset({"true"})},
    {"service.kubernetes.io/ibm-load-balancer-cloud-provider-ip-type": frozenset({"private"})},
    {"service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type": frozenset({"intranet"})},
)
_EKS_CLUSTER: Final = re.compile(r"aws(?:-native)?:eks(?:/\w+)?:Cluster")
# kubernetes.io/docs/reference/command-line-tools-reference/feature-gates-removed: the field
# loadBalancerClass is read since 1.22, and was ignored before.
_FIRST_WITH_CLASSES: Final = 22


def internal_verdict(service: KubernetesObject, estate: Estate) -> Verdict | None:
    """Return None for a load balancer with an internal address only, or what it is instead."""
    class_ = peek(service.body, "spec", "loadBalancerClass")
    if class_ in (None, ""):
        return _without_class(service, estate)
    if not isinstance(class_, str):
        return Verdict.UNDETERMINABLE
    if class_ in _AWS_CLASSES:
        read = _is_handed_over(service) or not _ignores_classes(estate)
        scheme = _annotation(service, f"{AWS}scheme")
        return _verdict_unless(scheme == "internal" and read, unknown=scheme is UNKNOWN and read)
    if class_ in _GOOGLE_CLASSES:
        return _verdict_unless(_GOOGLE_CLASSES[class_], unknown=False)
    return _by_sources(service)


def public_annotations(service: KubernetesObject) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield key and value of each annotation that asks for a public load balancer."""
    scheme = _annotation(service, f"{AWS}scheme")
    if isinstance(scheme, str) and scheme != "internal":
        yield ("metadata", "annotations", f"{AWS}scheme"), scheme
    for cloud in _INTERNAL:
        for key, words in cloud.items():
            given = _annotation(service, key)
            if isinstance(given, str) and given not in words:
                yield ("metadata", "annotations", key), given


def public_addresses(service: KubernetesObject) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each public address that a live load balancer has been given."""
    keys = ("status", "loadBalancer", "ingress")
    for index, given in elements(peek(service.body, *keys)):
        address = peek(given, "ip")
        if isinstance(address, str) and _is_global(address):
            yield (*keys, index, "ip"), address


def _is_global(address: str) -> bool:
    """Return whether an address is routed in public; those of documentation, say, are not."""
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False


def _without_class(service: KubernetesObject, estate: Estate) -> Verdict | None:
    """Judge a load balancer that the cluster's own cloud makes, unless it is handed over."""
    scheme, kind = _annotation(service, f"{AWS}scheme"), _annotation(service, f"{AWS}type")
    if _is_handed_over(service):
        return _verdict_unless(scheme == "internal", unknown=scheme is UNKNOWN)
    unknown = kind is UNKNOWN
    if _is_on_aws(service, estate):  # its in-tree controller knows no scheme
        return _verdict_unless(good=False, unknown=unknown)
    for cloud in _INTERNAL:
        given = {key: _annotation(service, key) for key in cloud}
        said = {key: value for key, value in given.items() if value is not None}
        unknown = unknown or UNKNOWN in said.values()
        if said and all(value in cloud[key] for key, value in said.items()):
            return None
    return _verdict_unless(good=False, unknown=unknown)


def _is_handed_over(service: KubernetesObject) -> bool:
    kind = _annotation(service, f"{AWS}type")
    return isinstance(kind, str) and kind in _AWS_CONTROLLER_TYPES


def _is_on_aws(service: KubernetesObject, estate: Estate) -> bool:
    annotations = peek(service.body, "metadata", "annotations")
    said = is_body(annotations) and any(key.startswith(AWS) for key in annotations)
    return said or any(_EKS_CLUSTER.fullmatch(resource.type) for resource in estate.resources)


def _ignores_classes(estate: Estate) -> bool:
    """Return whether the cluster is older than the field (aws-load-balancer-controller#2916)."""
    versions = (
        re.fullmatch(r"1\.([0-9]+)", str(resource.properties.get("version")))
        for resource in estate.resources
        if _EKS_CLUSTER.fullmatch(resource.type)
    )
    return any(version and int(version[1]) < _FIRST_WITH_CLASSES for version in versions)


def _by_sources(service: KubernetesObject) -> Verdict | None:
    """Judge a class of one's own by the sources that it admits."""
    listed = peek(service.body, "spec", "loadBalancerSourceRanges")
    ranges = [source for _, source in elements(listed)]
    private = all(isinstance(source, str) and is_private(source) for source in ranges)
    good = bool(ranges) and private and _families(service) <= _families_of(ranges)
    return _verdict_unless(good, unknown=listed is UNKNOWN or UNKNOWN in ranges)


def _families(service: KubernetesObject) -> set[int]:
    """Return the versions of IP that must have sources: one without any admits everybody.

    kube-proxy filters each family by the ranges of that family alone.
    """
    spec = peek(service.body, "spec")
    if peek(spec, "ipFamilyPolicy") in ("PreferDualStack", "RequireDualStack"):
        return {4, 6}
    words = {"IPv4": 4, "IPv6": 6}
    listed = (family for _, family in elements(peek(spec, "ipFamilies")))
    return {words[family] for family in listed if isinstance(family, str) and family in words}


def _families_of(ranges: list[Value]) -> set[int]:
    return {
        ipaddress.ip_network(source, strict=False).version
        for source in ranges
        if isinstance(source, str)
    }


def _annotation(service: KubernetesObject, name: str) -> Value:
    return peek(service.body, "metadata", "annotations", name)


def _verdict_unless(good: bool, *, unknown: bool) -> Verdict | None:
    if good:
        return None
    return Verdict.UNDETERMINABLE if unknown else Verdict.FAIL
