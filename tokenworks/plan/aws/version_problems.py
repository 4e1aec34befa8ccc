"""Versions that are unknown, ended, or of another Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

from tokenworks.environment.aws import Aws
from tokenworks.environment.load import LoadedEnvironment
from tokenworks.errors import Problem
from tokenworks.facts.aws_versions import KubernetesSupport, kubernetes_versions, read_on
from tokenworks.plan.aws.add_ons import add_on_names

FACTS = "facts/aws_versions.json"


def version_problems(loaded: LoadedEnvironment, section: Aws) -> Iterator[Problem]:
    """Everything about the version of Kubernetes and of add-ons.

    A version has ended by the day on which its end was read: a plan is the same on every day.
    """
    version, path = section.kubernetes_version, ("aws", "kubernetes_version")
    known = kubernetes_versions()
    usable = [name for name, one in known.items() if one.support_ends > read_on() and one.add_ons]
    found = known.get(version)
    if found is None:
        yield loaded.source.problem(
            path,
            given=version,
            reason="is a version of which nothing is known here",
            remedy=f"use one of: {', '.join(usable)}; or enter it into {FACTS} from `aws eks "
            "describe-cluster-versions`",
        )
        return
    if found.support_ends <= read_on():
        yield loaded.source.problem(
            path,
            given=version,
            reason=f"has had no standard support since {found.support_ends}",
            remedy=f"use one of: {', '.join(usable)}",
        )
        return
    if not found.releases:
        yield loaded.source.problem(
            path,
            given=version,
            reason="has no known release of AWS's images, which system nodes start",
            remedy=f"enter one into {FACTS} from the change log of awslabs/amazon-eks-ami",
        )
    yield from _add_ons(loaded, section, found)


def _add_ons(
    loaded: LoadedEnvironment, section: Aws, known: KubernetesSupport
) -> Iterator[Problem]:
    version, given = section.kubernetes_version, section.add_on_versions
    names = add_on_names(section.weights.file_system)
    for name in names:
        if name not in given and name not in known.add_ons:
            yield loaded.source.problem(
                ("aws", "kubernetes_version"),
                given=version,
                reason=f"has no known version of the add-on {name}",
                remedy=f"enter what `aws eks describe-addon-versions --addon-name {name} "
                f"--kubernetes-version {version}` answers as aws.add_on_versions.{name}",
            )
    for name in given:
        if name not in names:
            yield loaded.source.problem(
                ("aws", "add_on_versions", name),
                given=given[name],
                reason="is of an add-on that this environment does not have",
                remedy=f"use one of: {', '.join(names)}",
            )
    proxy = given.get("kube-proxy", f"v{version}.")
    if not proxy.startswith(f"v{version}."):
        yield loaded.source.problem(
            ("aws", "add_on_versions", "kube-proxy"),
            given=proxy,
            reason=f"is not of Kubernetes {version}, and EKS refuses it there",
            remedy=f"use one of {version}, or leave it out",
        )
