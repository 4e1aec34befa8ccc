"""What is installed by version is installed by one version, so that a rebuild gives the same.

Charts: the provider overwrites a Release's ``version`` with the chart's own once the chart loads
(pulumi-kubernetes ``helm_release.go``), and a Chart is registered with no inputs at all, so that a
pack sees neither. Ranges are caught where the program's own inputs are seen: in recorded programs
and in the program's guard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from policy.requirements import requirement_findings
from policy.resources import UNKNOWN, Body, Resource, Value, key_path, peek
from policy.rule import Family, Fault, Finding, Rule, Severity, Verdict
from policy.versions import is_exact_version, is_kubernetes_minor, is_node_release

_CHARTS: Final = frozenset(
    {
        "kubernetes:helm.sh/v3:Release",
        "kubernetes:helm.sh/v3:Chart",
        "kubernetes:helm.sh/v2:Chart",
        "kubernetes:helm.sh/v4:Chart",
    }
)
_EKS: Final = re.compile(r"(?:aws:eks/\w+|aws-native:eks):(Cluster|Addon|NodeGroup|Nodegroup)")
_EXACT_CHART: Final = "give the one version X.Y.Z that was tested"
_DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}$")


def _faults(resource: Resource) -> Iterator[Fault]:
    properties = resource.properties
    if resource.type in _CHARTS and properties:
        yield from _chart_faults(properties)
    eks = _EKS.fullmatch(resource.type)
    if eks is not None:
        yield from _EKS_FAULTS[eks[1].lower()](properties)


def _chart_faults(chart: Body) -> Iterator[Fault]:
    fetch = "fetchOpts" if "fetchOpts" in chart else "fetch_opts"
    for keys in (("devel",), (fetch, "devel")):
        devel = peek(chart, *keys)
        if devel not in (None, False):
            yield Fault(
                key=key_path(*keys),
                given=devel,
                reason="admits development versions, whichever is newest",
                remedy=f"remove it, and {_EXACT_CHART}",
                verdict=Verdict.UNDETERMINABLE if devel is UNKNOWN else Verdict.FAIL,
            )
    if _comes_with_the_program(chart) or _is_pinned_by_digest(chart):
        return
    keys = ("version",) if peek(chart, "version") is not None else (fetch, "version")
    version = peek(chart, *keys)
    yield from _version_faults(
        "version" if version is None else key_path(*keys),
        version,
        is_exact_version,
        missing="is missing, which means the newest chart",
        loose="is a range or no full version, which may name another chart tomorrow",
        remedy=_EXACT_CHART,
    )


def _comes_with_the_program(chart: Body) -> bool:
    """Return whether the chart is a folder of the program's own, under the same revision."""
    name, path = chart.get("chart"), chart.get("path")
    return isinstance(path, str) or (isinstance(name, str) and name.startswith(("./", "../", "/")))


def _is_pinned_by_digest(chart: Body) -> bool:
    name = chart.get("chart")
    return isinstance(name, str) and _DIGEST.search(name) is not None


def _cluster_faults(cluster: Body) -> Iterator[Fault]:
    yield from _version_faults(
        "version",
        cluster.get("version"),
        is_kubernetes_minor,
        missing="is missing, which means the newest Kubernetes that EKS offers",
        loose="is not a minor version of Kubernetes",
        remedy="give one such as 1.36",
    )


def _addon_faults(addon: Body) -> Iterator[Fault]:
    yield from _version_faults(
        "addonVersion",
        addon.get("addonVersion"),
        is_exact_version,
        missing="is missing, which means the default version of the day",
        loose="is not one exact version",
        remedy="give one such as v1.21.1-eksbuild.3",
    )


def _node_group_faults(group: Body) -> Iterator[Fault]:
    template = group.get("launchTemplate")
    if template is not None:
        yield from _version_faults(
            "launchTemplate.version",
            peek(template, "version"),
            lambda text: re.fullmatch(r"[1-9][0-9]*", text) is not None,
            missing="is missing, which means the template's default of the day",
            loose="moves with the template",
            remedy="give the number of one version of the launch template",
        )
    if "releaseVersion" in group or not _image_is_the_templates(group):
        yield from _version_faults(
            "releaseVersion",
            group.get("releaseVersion"),
            is_node_release,
            missing="is missing, which means the newest node image (amazon-eks-ami#996)",
            loose="is not one exact release",
            remedy="give one such as 1.36.2-20260714, or an own image in a launch template",
        )


def _image_is_the_templates(group: Body) -> bool:
    """Return whether the launch template, and not EKS, chooses the image.

    A custom image forbids amiType, version and releaseVersion on the group
    (docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
    """
    return group.get("launchTemplate") is not None and group.get("amiType") in (None, "CUSTOM")


_EKS_FAULTS: Final[dict[str, Callable[[Body], Iterator[Fault]]]] = {
    "cluster": _cluster_faults,
    "addon": _addon_faults,
    "nodegroup": _node_group_faults,
}


def _version_faults(
    key: str,
    version: Value,
    is_exact: Callable[[str], bool],
    *,
    missing: str,
    loose: str,
    remedy: str,
) -> Iterator[Fault]:
    if version is UNKNOWN:
        reason, verdict = "is not known, and may be a range", Verdict.UNDETERMINABLE
        yield Fault(key=key, reason=reason, remedy=remedy, verdict=verdict)
    elif version is None or version == "":
        yield Fault(key=key, reason=missing, remedy=remedy)
    elif not is_exact(str(version)):
        yield Fault(key=key, given=version, reason=loose, remedy=remedy)


def judge_requirements(path: str, text: str) -> tuple[Finding, ...]:
    """Return a finding for each line of a Python requirements file that is not exact and hashed."""
    return requirement_findings(path, text, rule=RULE.name, severity=RULE.severity)


RULE: Final = Rule(
    name="every-version-is-exact",
    description="Every version is exact: charts, EKS clusters, add-ons, node images and packages.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation="Write the one version that was tested; raise it by a reviewed change.",
    references=(
        "https://helm.sh/docs/chart_best_practices/dependencies/#versions",
        "https://docs.aws.amazon.com/eks/latest/userguide/managing-add-ons.html",
        "https://pip.pypa.io/en/stable/topics/secure-installs/",
    ),
    applies=lambda type_token: type_token in _CHARTS or _EKS.fullmatch(type_token) is not None,
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
