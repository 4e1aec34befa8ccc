"""Paths of ``ignoreChanges``: whether they hide from the rules what the program asks for.

A pack is shown the old value of an ignored path (pulumi, ``step_generator.go``), so that a value
which a rule would refuse is never seen, at a preview or later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy.aws import aws_type
from policy.objects import is_kubernetes

# Keys whose own value a rule reads: wherever they stand in a path, the path hides it.
_KUBERNETES_KEYS: Final = frozenset(
    """
    image imageName repository tag digest reference ports port targetPort hostPort nodePort
    hostNetwork hostPID hostIPC hostUsers type selector externalIPs externalName loadBalancerClass
    loadBalancerSourceRanges loadBalancerIP ingress egress from to podSelector namespaceSelector
    policyTypes rules backend defaultBackend backendRefs parentRefs listeners allowedRoutes subsets
    endpoints addresses labels matchLabels matchExpressions securityContext privileged capabilities
    serviceAccountName automountServiceAccountToken command args env envFrom data binaryData values
    version chart chartRef targetRevision repositoryOpts devel gitRepo revision ref amiSelectorTerms
    userData associatePublicIPAddress hostPath runtimeClassName
    """.split()  # noqa: SIM905  a list of words
)
_CLOUD_KEYS: Final = frozenset(
    """
    ingress securityGroupIngress cidrBlocks ipv6CidrBlocks cidrBlock ipv6CidrBlock cidrIpv4 cidrIpv6
    cidrIp prefixListId prefixListIds fromPort toPort protocol ipProtocol portRange action
    ruleAction internal scheme external loadBalancerArn listeners defaultActions actions
    targetGroupArn port targets endpointPublicAccess publicAccessCidrs authorization
    authorizationType authType functionUrlAuthType target associatePublicIpAddress
    mapPublicIpOnLaunch subnetIds subnetId vpcZoneIdentifiers version addonVersion releaseVersion
    amiType ami imageId amiId launchTemplate mixedInstancesPolicy userData userDataBase64
    parentImage components body instanceType instanceTypes networkInterfaces
    """.split()  # noqa: SIM905  a list of words
)
# Keys that hold those: a path that ends in one hides everything below it.
_HOLDERS: Final = frozenset(
    """
    * spec metadata annotations template jobTemplate containers initContainers ephemeralContainers
    volumes items vpcConfig resourcesVpcConfig launchTemplateData vpcOriginEndpointConfig filters
    resources
    """.split()  # noqa: SIM905  a list of words
)
# Annotations that decide whether a load balancer is public, and by which cloud.
_ANNOTATION: Final = re.compile(
    r"(?:^|[./-])(?:load-?balancer|elb|alb|ingress|expose|scheme|internal|public|whitelist|neg)",
    re.IGNORECASE,
)
_SEGMENT: Final = re.compile(
    r"""\[(?P<quoted>"(?:[^"\\]|\\.)*"|'[^']*')\]|\[(?P<index>\d+|\*)\]|\.?(?P<key>[^.\[\]]+)"""
)
_SNAKE: Final = re.compile(r"_([a-z0-9])")


def is_guarded(type_token: str, path: tuple[str, ...]) -> bool:
    """Return whether a rule reads, in resources of a type, what lies at or below a path."""
    keys = _KUBERNETES_KEYS if is_kubernetes(type_token) else _CLOUD_KEYS
    if not (is_kubernetes(type_token) or aws_type(type_token)):
        return False
    if path[-1] in _HOLDERS or not keys.isdisjoint(path):
        return True
    if "annotations" in path:
        return _ANNOTATION.search(path[-1]) is not None
    # Tags give a load balancer its role; those of anything else are nobody's business here.
    tagged = path[0] == "tags" and aws_type(type_token).endswith(("LoadBalancer", "Accelerator"))
    return tagged and (len(path) == 1 or path[1].lower().endswith("role"))


def segments(path: str) -> tuple[str, ...] | None:
    """Return the keys of a path in the names of the wire, without indices, or None if it is none.

    ``spec.containers[*].image`` is ``spec, containers, image``; a star that ends a path stays.
    """
    found = list(_matches(path))
    if not found or None in found:
        return None
    named = [one for one in found[:-1] if one and not _is_index(one)]
    last = found[-1] or ""
    if _is_index(last) and last != "*":
        return tuple(named) or None
    return (*named, last)


def _is_index(segment: str) -> bool:
    return segment == "*" or segment.isdecimal()


def _matches(path: str) -> Iterator[str | None]:
    """Yield each segment, and None where something is left that is none."""
    at = 0
    for match in _SEGMENT.finditer(path):
        if match.start() != at:
            break
        at = match.end()
        if match["quoted"]:
            yield match["quoted"][1:-1].replace('\\"', '"')
        else:
            yield match["index"] or _SNAKE.sub(lambda m: m[1].upper(), match["key"])
    if at != len(path):
        yield None
