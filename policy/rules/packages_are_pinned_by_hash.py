"""Packages are the bytes that were reviewed: pip's by hash, Ansible's by one exact version.

An index may serve other files under a version that was reviewed, and a container that installs
when it starts is another container every day. Galaxy has no hashes, so a version must do there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy.estate import Estate
from policy.files import ANSIBLE_REQUIREMENTS, CONTENT, PIP_REQUIREMENTS
from policy.galaxy import galaxy_entries
from policy.packages import pip_install_faults
from policy.requirements import pip_faults
from policy.resources import UNKNOWN, Body, Resource
from policy.rule import Family, Fault, Rule, Severity, Verdict
from policy.scripts import may_hold_scripts, scripts_in
from policy.versions import Exactness, is_exact_version

_FILES: Final = frozenset({PIP_REQUIREMENTS, ANSIBLE_REQUIREMENTS})
_GALAXY: Final = Exactness(
    is_exact=is_exact_version,
    missing="is missing, which means the newest release",
    loose="is a range or no full version",
    remedy="give the one version X.Y.Z that was tested",
)


def _faults(resource: Resource, _: Estate) -> Iterator[Fault]:
    if resource.type not in _FILES:
        for script in scripts_in(resource):
            yield from pip_install_faults(script)
        return
    content = resource.properties.get(CONTENT)
    if content is UNKNOWN:
        yield Fault(
            key=CONTENT,
            reason="cannot be read, and may install anything",
            remedy="make it a file that the tool reads",
            verdict=Verdict.UNDETERMINABLE,
        )
    elif resource.type == ANSIBLE_REQUIREMENTS:
        yield from _galaxy_faults(resource.properties)
    elif isinstance(content, str):
        yield from pip_faults(content)


def _galaxy_faults(requirements: Body) -> Iterator[Fault]:
    for entry in galaxy_entries(requirements):
        if not (entry.by_git or entry.by_url):
            yield from _GALAXY.faults(entry.key, entry.version)


RULE: Final = Rule(
    code="P9",
    name="packages-are-pinned-by-hash",
    description="Packages of Python are pinned by hash, those of Ansible by one exact version.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation="Compile requirements with hashes; install nothing when a container starts.",
    references=(
        "https://pip.pypa.io/en/stable/topics/secure-installs/",
        "https://docs.ansible.com/ansible/latest/galaxy/user_guide.html",
    ),
    applies=lambda token: token in _FILES or may_hold_scripts(token),
    faults=_faults,
    tolerates_unknown_at_preview=True,
)
