"""A chart is one version of a chart, so that the same program renders the same objects.

The provider overwrites a Release's ``version`` with the chart's own once the chart loads
(pulumi-kubernetes ``helm_release.go``), and a Chart is registered with no inputs at all, so that a
pack sees neither. Ranges are caught where the program's own inputs are seen: in recorded programs
and in the program's guard. Charts that a controller installs are objects, and seen everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from policy.estate import Estate
from policy.objects import KubernetesObject, is_kubernetes, objects_in
from policy.resources import UNKNOWN, Body, Resource, Value, elements, is_body, key_path, peek
from policy.rule import Family, Fault, Rule, Severity, Verdict
from policy.versions import Exactness, is_exact_version

Keys = tuple[str | int, ...]

_CHARTS: Final = re.compile(r"kubernetes:helm\.sh/v[0-9]+:(?:Release|Chart)")
_DIGEST: Final = re.compile(r"(?:^|@)sha256:[0-9a-f]{64}$")
_EXACT: Final = Exactness(
    is_exact=is_exact_version,
    missing="is missing, which means the newest chart",
    loose="is a range or no full version, which may name another chart tomorrow",
    remedy="give the one version X.Y.Z that was tested",
)
# Sources of Flux whose charts lie in a repository or bucket, and have its revision
# (fluxcd.io/flux/components/helm/helmreleases).
_SOURCES_WITH_A_REVISION: Final = frozenset({"GitRepository", "Bucket"})


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    if _CHARTS.fullmatch(resource.type):
        if resource.properties:
            yield from _chart_faults(resource.properties)
        return
    for thing in objects_in(resource):
        for keys, given in _versions_of(thing):
            if given is not None or not thing.partial:
                yield from _EXACT.faults(thing.path(*keys), given)


def _chart_faults(chart: Body) -> Iterator[Fault]:
    fetch = "fetchOpts" if "fetchOpts" in chart else "fetch_opts"
    for keys in (("devel",), (fetch, "devel")):
        devel = peek(chart, *keys)
        if devel not in (None, False):
            yield Fault(
                key=key_path(*keys),
                given=devel,
                reason="admits development versions, whichever is newest",
                remedy=f"remove it, and {_EXACT.remedy}",
                verdict=Verdict.UNDETERMINABLE if devel is UNKNOWN else Verdict.FAIL,
            )
    if _comes_with_the_program(chart) or _is_pinned_by_digest(chart):
        return
    keys = ("version",) if peek(chart, "version") is not None else (fetch, "version")
    version = peek(chart, *keys)
    yield from _EXACT.faults("version" if version is None else key_path(*keys), version)


def _comes_with_the_program(chart: Body) -> bool:
    """Return whether the chart is a folder of the program's own, under the same revision."""
    name, path = chart.get("chart"), chart.get("path")
    return isinstance(path, str) or (isinstance(name, str) and name.startswith(("./", "../", "/")))


def _is_pinned_by_digest(chart: Body) -> bool:
    name = chart.get("chart")
    return isinstance(name, str) and _DIGEST.search(name) is not None


def _versions_of(thing: KubernetesObject) -> Iterator[tuple[Keys, Value]]:
    """Yield each version of a chart that a controller would install for an object."""
    for (kind, group), read in _CONTROLLERS.items():
        if thing.kind == kind and thing.group.endswith(group):
            yield from read(peek(thing.body, "spec"))


def _flux_release(spec: Value) -> Iterator[tuple[Keys, Value]]:
    source = peek(spec, "chart", "spec", "sourceRef", "kind")
    if peek(spec, "chartRef") is None and source not in _SOURCES_WITH_A_REVISION:
        yield ("spec", "chart", "spec", "version"), peek(spec, "chart", "spec", "version")


def _flux_chart(spec: Value) -> Iterator[tuple[Keys, Value]]:
    if peek(spec, "sourceRef", "kind") not in _SOURCES_WITH_A_REVISION:
        yield ("spec", "version"), peek(spec, "version")


def _k3s_chart(spec: Value) -> Iterator[tuple[Keys, Value]]:
    if peek(spec, "chartContent") is None:
        yield ("spec", "version"), peek(spec, "version")


def _oci_artifact(spec: Value) -> Iterator[tuple[Keys, Value]]:
    digest = peek(spec, "ref", "digest")
    if not (isinstance(digest, str) and _DIGEST.search(digest)):
        name = "semver" if peek(spec, "ref", "semver") is not None else "tag"
        yield ("spec", "ref", name), peek(spec, "ref", name)


def _argo_application(spec: Value) -> Iterator[tuple[Keys, Value]]:
    yield from _argo_sources(spec, ("spec",))


def _argo_applications(spec: Value) -> Iterator[tuple[Keys, Value]]:
    yield from _argo_sources(peek(spec, "template", "spec"), ("spec", "template", "spec"))


def _argo_sources(spec: Value, base: Keys) -> Iterator[tuple[Keys, Value]]:
    yield from _argo_source(peek(spec, "source"), (*base, "source"))
    for index, source in elements(peek(spec, "sources")):
        yield from _argo_source(source, (*base, "sources", index))


def _argo_source(source: Value, keys: Keys) -> Iterator[tuple[Keys, Value]]:
    """Yield the revision of a source that is a chart; those of git are commits."""
    if is_body(source) and source.get("chart") is not None:
        yield (*keys, "targetRevision"), source.get("targetRevision")


# fluxcd.io/flux/components; argo-cd.readthedocs.io/en/stable/user-guide/helm;
# docs.k3s.io/add-ons/helm
_CONTROLLERS: Final[dict[tuple[str, str], Callable[[Value], Iterator[tuple[Keys, Value]]]]] = {
    ("HelmRelease", "fluxcd.io"): _flux_release,
    ("HelmChart", "fluxcd.io"): _flux_chart,
    ("HelmChart", "helm.cattle.io"): _k3s_chart,
    ("OCIRepository", "fluxcd.io"): _oci_artifact,
    ("Application", "argoproj.io"): _argo_application,
    ("ApplicationSet", "argoproj.io"): _argo_applications,
}


RULE: Final = Rule(
    code="P3",
    name="charts-have-one-exact-version",
    description="Every Helm chart has one exact version, and never a range.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation="Write the one chart version that was tested; raise it by a reviewed change.",
    references=(
        "https://helm.sh/docs/chart_best_practices/dependencies/#versions",
        "https://github.com/helm/helm/issues/10150",
    ),
    applies=is_kubernetes,
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
