"""What providers would answer, for programs that run without any: ids, names, addresses.

Answers are made from the resource's own name, so that two runs give the same ones. For Kubernetes
and AWS they hold what programs read back; any other provider returns the inputs and an id.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from tokenworks.check.aws_answers import State, call_answer, digits, resource_answer

_AWS: Final = ("aws:", "aws-native:")

# kubernetes.io/docs/reference/kubernetes-api: kinds without a namespace.
_CLUSTER_SCOPED: Final = frozenset(
    {
        "APIService",
        "CSIDriver",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "DeviceClass",
        "GatewayClass",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttributesClass",
    }
)


def answer(type_token: str, name: str, inputs: Mapping[str, Any]) -> tuple[str, State]:
    """Return the id and the outputs of a created resource."""
    if type_token.startswith("kubernetes:"):
        return _kubernetes(type_token, name, inputs)
    if type_token.startswith(_AWS):
        return resource_answer(type_token, name, inputs)
    return f"{name}-id", dict(inputs)


def answer_call(token: str, arguments: Mapping[str, Any]) -> State | None:
    """Return what a provider's function answers, or None where nothing here knows."""
    return call_answer(token, arguments) if token.startswith(_AWS) else None


def _kubernetes(type_token: str, name: str, inputs: Mapping[str, Any]) -> tuple[str, State]:
    kind = type_token.rpartition(":")[2].removesuffix("Patch")
    metadata = dict(inputs.get("metadata") or {})
    metadata.setdefault("name", f"{name}-{digits(name, 8)}")  # the provider's own auto-naming
    metadata["uid"] = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{name}"))
    if kind not in _CLUSTER_SCOPED:
        metadata.setdefault("namespace", "default")
    state: State = {**inputs, "metadata": metadata}
    if kind == "Service":
        state |= _service(state.get("spec") or {}, name)
    place = metadata.get("namespace")
    return f"{place}/{metadata['name']}" if place else metadata["name"], state


def _service(spec: Mapping[str, Any], name: str) -> State:
    last = int(digits(name, 4), 16) % 250 + 1
    answered: State = {"spec": {"clusterIP": f"10.96.0.{last}", **spec}}
    if spec.get("type") == "LoadBalancer":
        ip, host = {"ip": f"10.0.0.{last}"}, {"hostname": f"{name}.elb.amazonaws.com"}
        of_aws = "aws" in str(spec.get("loadBalancerClass"))  # which tells a name and no address
        answered["status"] = {"loadBalancer": {"ingress": [host if of_aws else ip]}}
    return answered
