"""The Secret with the gateway's certificate: given with its key, or kept by cert-manager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import Secret

from tokenworks.components.workload import WAIT_FOR, Workload
from tokenworks.plan.gateway_types import Issuer

ISSUED: Final = "condition=Ready"
"""Without it an issuer that is missing or refuses would show as pods that never start."""


@dataclass(frozen=True, kw_only=True)
class GivenCertificate:
    """What the gateway shows its callers, and the key that proves it."""

    chain: pulumi.Input[str]
    private_key: pulumi.Input[str]


def certificate_secret(
    gateway: Workload, given: GivenCertificate | None, issuer: Issuer | None, hostname: str
) -> pulumi.Input[str]:
    """The name of the Secret, in which ``tls.crt`` and ``tls.key`` lie either way."""
    name = f"{gateway.name}-certificate"
    if issuer is not None:
        # A name of its own: cert-manager leaves its Secret behind, and whoever then wrote the given
        # certificate there would be refused; pods move from one to the other like to a new release.
        secret = f"{gateway.name}-issued-certificate"
        _issued(gateway, name, secret, issuer, hostname)
        # Known at once: pods wait for a Secret that they mount, and start when it was written.
        return secret
    if given is None:
        raise ValueError("a gateway without an issuer was given no certificate")
    created = Secret(
        name,
        metadata=gateway.metadata(name),
        type="kubernetes.io/tls",
        string_data={
            "tls.crt": given.chain,
            "tls.key": pulumi.Output.secret(given.private_key),
        },
        opts=gateway.child(),
    )
    return created.metadata.name


def _issued(gateway: Workload, name: str, secret: str, issuer: Issuer, hostname: str) -> None:
    """A Certificate of cert-manager, which writes the Secret and replaces what is in it in time."""
    metadata = {**gateway.metadata(name), "annotations": {WAIT_FOR: ISSUED}}
    CustomResource(
        name,
        api_version="cert-manager.io/v1",
        kind="Certificate",
        metadata=metadata,
        spec=_specification(gateway, secret, issuer, hostname),
        opts=gateway.child(),
    )


def _specification(gateway: Workload, secret: str, issuer: Issuer, hostname: str) -> dict[str, Any]:
    return {
        "secretName": secret,
        "secretTemplate": {"labels": gateway.labels},
        "dnsNames": [hostname],
        "usages": ["digital signature", "server auth"],
        "duration": f"{issuer.duration_hours.value}h",
        "renewBefore": f"{issuer.renew_before_hours.value}h",
        # A new key with every certificate: one that leaked ends with it.
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "issuerRef": {"group": "cert-manager.io", "kind": issuer.kind, "name": issuer.name},
    }
