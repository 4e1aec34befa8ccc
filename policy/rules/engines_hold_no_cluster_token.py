"""Whoever takes over an engine must not get the cluster with it: no pod of serving has a token.

Kubernetes mounts a token of the pod's service account unless pod or account forbids it. Judged
are engines, by what they are, and this toolkit's gateway and weights; what observes a cluster
needs to ask it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy import engines
from policy.estate import Estate
from policy.labels import ENGINE, GATEWAY, ROLE, WEIGHTS
from policy.objects import KubernetesObject, is_kubernetes, objects_in
from policy.pods import PodSpec, pod_specs
from policy.resources import UNKNOWN, Resource, Value, elements, is_body, peek
from policy.rule import Family, Fault, Rule, Severity, Verdict

_AUTOMOUNT: Final = "automountServiceAccountToken"
_REMEDY: Final = f"set {_AUTOMOUNT}: false in the pod's specification"


def _faults(resource: Resource, estate: Estate) -> Iterator[Fault]:
    chart = resource.type.startswith("kubernetes:helm.sh/")
    for thing in objects_in(resource):
        for pod in pod_specs(thing):
            why = _serves(pod)
            if why is not None:
                whole = not (thing.partial or chart)
                yield from _automount(thing, pod, estate, why, whole=whole)
                yield from _projected_tokens(thing, pod, why)


def _serves(pod: PodSpec) -> engines.Evidence:
    role = peek(pod.labels, ROLE)
    if isinstance(role, str) and role in {ENGINE, GATEWAY, WEIGHTS}:
        return f"its label {ROLE} is {role}"
    return engines.in_pod(pod)


def _automount(
    thing: KubernetesObject, pod: PodSpec, estate: Estate, why: engines.Evidence, *, whole: bool
) -> Iterator[Fault]:
    given = pod.body.get(_AUTOMOUNT)
    if given is False or (given is None and not whole):
        return
    if given is None and _account_forbids(thing, pod, estate):
        return
    yield _fault(thing, (*pod.keys, _AUTOMOUNT), given, "mounts a token of the cluster", why)


def _account_forbids(thing: KubernetesObject, pod: PodSpec, estate: Estate) -> bool:
    """Return whether the pod's service account, if it is known, mounts no tokens."""
    account = _or(pod.body.get("serviceAccountName"), "default")
    namespace = peek(thing.body, "metadata", "namespace")
    return estate.complete and any(
        other.kind == "ServiceAccount"
        and not other.group
        and peek(other.body, "metadata", "name") == account
        and peek(other.body, "metadata", "namespace") == namespace
        and other.body.get(_AUTOMOUNT) is False
        for _, other in estate.objects
    )


def _projected_tokens(
    thing: KubernetesObject, pod: PodSpec, why: engines.Evidence
) -> Iterator[Fault]:
    """Yield tokens for the cluster itself that a volume brings; others' audiences are theirs."""
    for index, volume in elements(pod.body.get("volumes")):
        for position, source in elements(peek(volume, "projected", "sources")):
            token = peek(source, "serviceAccountToken")
            if is_body(token) and "audience" not in token:
                keys = (*pod.keys, "volumes", index, "projected", "sources", position)
                reason = "mounts a token of the cluster by hand"
                yield _fault(thing, (*keys, "serviceAccountToken"), None, reason, why)


def _fault(
    thing: KubernetesObject,
    keys: tuple[str | int, ...],
    given: Value,
    reason: str,
    why: engines.Evidence,
) -> Fault:
    unknown = given is UNKNOWN or why is UNKNOWN
    because = why if isinstance(why, str) else "it may be an engine"
    start = "may be what " if unknown else ""
    return Fault(
        key=thing.path(*keys),
        given=given,
        reason=f"{start}{reason} (the pod needs none, since {because})",
        remedy=_REMEDY,
        verdict=Verdict.UNDETERMINABLE if unknown else Verdict.FAIL,
    )


def _or(value: Value, otherwise: str) -> Value:
    return otherwise if value is None else value


RULE: Final = Rule(
    code="S3",
    name="engines-hold-no-cluster-token",
    description="Engines, gateway and weights jobs mount no service account token.",
    family=Family.PODS,
    severity=Severity.HIGH,
    remediation="Set automountServiceAccountToken: false in the pod's specification.",
    references=(
        "https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#opt-out-of-api-credential-automounting",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
