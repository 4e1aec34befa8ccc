"""The gateway's certificate comes from one place: given with its key, or signed in the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from tokenworks.environment.sections import Environment
from tokenworks.environment.yaml_source import YamlSource
from tokenworks.errors import Problem


def issuer_problems(environment: Environment, source: YamlSource) -> Iterator[Problem]:
    """Both places, neither, one that the platform lacks, and a certificate without a life."""
    issuer = environment.gateway.certificate_issuer
    key, section = ("aws", environment.aws) if environment.aws else ("cluster", environment.cluster)
    if issuer is None:
        if section is not None and section.certificate is None:
            yield source.problem(
                (key, "certificate"),
                given=None,
                reason="is missing, and no gateway.certificate_issuer is named either",
                remedy="give a certificate and its key, or name a cert-manager issuer",
            )
        return
    if environment.platform == "simulated":
        yield source.problem(
            ("gateway", "certificate_issuer"),
            given=issuer.name,
            reason="names an issuer, and no cert-manager runs in a simulated cluster",
            remedy="remove it: a local authority signs the certificate here",
        )
    elif section is not None and section.certificate is not None:
        yield source.problem(
            ("gateway", "certificate_issuer"),
            given=issuer.name,
            reason=f"stands beside {key}.certificate, and the gateway shows one certificate",
            remedy="keep one of them",
        )
    if issuer.renew_before_days >= issuer.duration_days:
        yield source.problem(
            ("gateway", "certificate_issuer", "renew_before_days"),
            given=str(issuer.renew_before_days),
            reason=f"is not below duration_days ({issuer.duration_days}), so every certificate "
            "would be replaced as soon as it is there",
            remedy="give about a third of duration_days",
        )
