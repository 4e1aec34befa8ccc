"""What comes from git or from an address comes by the commit that was reviewed.

A branch and a tag can be moved, and an address may serve anything. A commit's 40 hex digits are
made from its files. What an init container clones by itself is out of reach of this rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from policy.estate import Estate
from policy.files import ANSIBLE_REQUIREMENTS, CONTENT, PIP_REQUIREMENTS
from policy.galaxy import galaxy_entries
from policy.objects import KubernetesObject, is_kubernetes, objects_in
from policy.pods import pod_specs
from policy.requirements import pip_lines
from policy.resources import Body, Resource, Value, elements, is_body, key_path, peek
from policy.rule import Family, Fault, Rule, Severity
from policy.sources import COMMIT, address_faults, is_of_git, names_a_commit

Keys = tuple[str | int, ...]

_FILES: Final = frozenset({PIP_REQUIREMENTS, ANSIBLE_REQUIREMENTS})
# Components and calls that read manifests from addresses
# (pulumi.com/registry/packages/kubernetes/api-docs/yaml/v2, .../kustomize/v2).
_READERS: Final = re.compile(
    r"kubernetes:(?:yaml(?:/v2)?:Config(?:File|Group)|kustomize(?:/v2)?:Directory"
    r"|kustomize:directory)"
)
_ADDRESSES: Final = ("file", "files", "directory")


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    if resource.type in _FILES:
        yield from _file_faults(resource.type, resource.properties)
        return
    if _READERS.fullmatch(resource.type):
        yield from _reader_faults(resource.properties)
        return
    for thing in objects_in(resource):
        yield from _volume_faults(thing)
        for (kind, group), read in _CONTROLLERS.items():
            if thing.kind == kind and thing.group.endswith(group):
                yield from read(thing)


def _file_faults(type_: str, file: Body) -> Iterator[Fault]:
    content = file.get(CONTENT)
    if type_ == PIP_REQUIREMENTS:
        for line in pip_lines(content) if isinstance(content, str) else ():
            if is_of_git(line.requirement) and not names_a_commit(line.requirement):
                yield Fault(
                    key=line.name, reason=COMMIT.loose, remedy=COMMIT.remedy, line=line.line
                )
        return
    for entry in galaxy_entries(file):
        if entry.by_git:
            yield from COMMIT.faults(entry.key, entry.version)
        elif entry.by_url:
            yield from address_faults(entry.key, entry.source)


def _reader_faults(properties: Body) -> Iterator[Fault]:
    for name in _ADDRESSES:
        given = properties.get(name)
        if not isinstance(given, tuple):
            yield from address_faults(name, given)
        for index, address in elements(given):
            yield from address_faults(key_path(name, index), address)


def _volume_faults(thing: KubernetesObject) -> Iterator[Fault]:
    for pod in pod_specs(thing):
        for index, volume in elements(pod.body.get("volumes")):
            repository = peek(volume, "gitRepo")
            if is_body(repository):
                key = thing.path(*pod.keys, "volumes", index, "gitRepo", "revision")
                yield from COMMIT.faults(key, repository.get("revision"))


def _flux_repository(thing: KubernetesObject) -> Iterator[Fault]:
    """Flux prefers a commit to everything else (fluxcd.io/flux/components/source)."""
    yield from COMMIT.faults(
        thing.path("spec", "ref", "commit"), peek(thing.body, "spec", "ref", "commit")
    )


def _argo_application(thing: KubernetesObject) -> Iterator[Fault]:
    base: Keys = ("spec",) if thing.kind == "Application" else ("spec", "template", "spec")
    spec = peek(thing.body, *base)
    sources: list[tuple[Keys, Value]] = [((*base, "source"), peek(spec, "source"))]
    for index, source in elements(peek(spec, "sources")):
        sources.append(((*base, "sources", index), source))
    for keys, source in sources:
        if is_body(source) and source.get("chart") is None:
            yield from COMMIT.faults(
                thing.path(*keys, "targetRevision"), source.get("targetRevision")
            )


_CONTROLLERS: Final[dict[tuple[str, str], Callable[[KubernetesObject], Iterator[Fault]]]] = {
    ("GitRepository", "fluxcd.io"): _flux_repository,
    ("Application", "argoproj.io"): _argo_application,
    ("ApplicationSet", "argoproj.io"): _argo_application,
}


RULE: Final = Rule(
    code="P10",
    name="sources-are-pinned-by-commit",
    description="What comes from git or from an address names one commit.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation="Write the commit's 40 hex digits instead of a branch or a tag.",
    references=(
        "https://kubernetes.io/docs/concepts/storage/volumes/#gitrepo",
        "https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/resource/",
        "https://docs.ansible.com/ansible/latest/collections_guide/collections_installing.html",
    ),
    applies=lambda token: token in _FILES or is_kubernetes(token),
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
