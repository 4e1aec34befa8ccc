"""Everything that is decided about one host, in the plain data that Ansible's plugins pass on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tokenworks.hosts.changes import (
    Change,
    ChangeClass,
    ChangePlan,
    Step,
    plan_changes,
    wanted_units,
)
from tokenworks.hosts.files import HostFile, host_files, managed_paths, node_labels
from tokenworks.hosts.lock import HostLock
from tokenworks.hosts.preflight import Refusal, gpu_work, refusals
from tokenworks.hosts.settings import HostSettings
from tokenworks.hosts.state import HostState
from tokenworks.hosts.verification import Finding, findings

DOMAIN_GROUP = "host_domain_"
"""Prefix of the groups that hold the changing hosts of one failure domain."""
_SEEN_ANYWAY = frozenset(
    {Step.DRAIN, Step.FILES, Step.PACKAGES, Step.ENABLE_UNITS, Step.VERIFY, Step.UNCORDON}
)
"""Steps that need no note on the host: the next run sees from the host's state that they lack."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What hosts of one kind must be; ``keys`` is armoured text by file name."""

    lock: HostLock
    settings: HostSettings
    keys: Mapping[str, str]

    @property
    def question(self) -> dict[str, list[str]]:
        """What ``host_state`` must be asked, as its arguments."""
        return {
            "files": list(managed_paths(self.lock, self.settings, self.keys)),
            "packages": sorted(self.lock.versions),
        }


def node_labels_of(node: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the labels of a node as the API server has it; None for an empty one, no node."""
    return dict((node.get("metadata") or {}).get("labels") or {}) if node else None


def read_wanted(variables: Mapping[str, Any]) -> Wanted:
    """Return what a host's variables ask of it.

    Raises pydantic's ``ValidationError`` and ``ConfigError`` for what cannot be meant.
    """
    return Wanted(
        lock=HostLock.model_validate(variables["host_lock"]),
        settings=HostSettings.model_validate(variables["host_settings"]),
        keys={str(name): str(text) for name, text in variables["host_keys"].items()},
    )


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One host as it is, and everything that follows."""

    wanted: Wanted
    state: HostState
    node_labels: Mapping[str, str] | None = None
    """Labels of the host's node; None where there is no node to ask about."""

    @cached_property
    def files(self) -> tuple[HostFile, ...]:
        """The managed files as they must be."""
        return host_files(self.wanted.lock, self.wanted.settings, self.wanted.keys, self.state)

    @cached_property
    def plan(self) -> ChangePlan:
        """What a run changes, the labels of the host's node included."""
        managed = tuple(file.managed for file in self.files)
        plan = plan_changes(self.state, self.wanted.lock, managed)
        if not self.label_changes:
            return plan
        return replace(
            plan,
            change_class=max(plan.change_class, ChangeClass.CONFIGURATION),
            changes=(*plan.changes, *self.label_changes),
            # The end of each turn labels the node.
            steps=plan.steps or (Step.VERIFY,),
        )

    @cached_property
    def label_changes(self) -> tuple[Change, ...]:
        """The labels that the host's node lacks, such as one that was registered anew."""
        if self.node_labels is None:
            return ()
        return tuple(
            Change(
                change_class=ChangeClass.CONFIGURATION,
                because=f"label {name} of the node is {self.node_labels.get(name, 'missing')}, "
                f"locked is {value}",
            )
            for name, value in node_labels(self.wanted.lock).items()
            if self.node_labels.get(name) != value
        )

    def refused(self, *, drains: bool) -> dict[str, list[str]]:
        """What speaks against a run, by role."""
        wanted = self.wanted
        found = refusals(self.state, wanted.lock, wanted.settings, self.plan, drains=drains)
        return _by_role(found)

    @property
    def found(self) -> dict[str, list[str]]:
        """What is not as locked, by role."""
        managed = tuple(file.managed for file in self.files)
        found = findings(self.state, self.wanted.lock, self.wanted.settings, managed)
        labels = (f"{each.because}; run: tokenworks hosts prepare" for each in self.label_changes)
        return _by_role((*found, *(Finding(role="host", message=label) for label in labels)))

    @property
    def texts(self) -> list[dict[str, str]]:
        """The files that differ, as ``host_files`` takes them."""
        stale = set(self.plan.files)
        return [
            {"path": file.path, "text": file.text, "mode": file.mode}
            for file in self.files
            if file.path in stale
        ]

    @property
    def observed(self) -> dict[str, Any]:
        """The versions that a host really has, for those who keep them."""
        state, lock = self.state, self.wanted.lock
        return {
            "kernel": state.running_kernel,
            "driver": state.loaded_driver,
            "gpus": state.gpus,
            "containerd": state.containerd.version if state.containerd else None,
            "packages": {name: state.packages.get(name) for name in sorted(lock.versions)},
        }

    @property
    def changes(self) -> dict[str, Any]:
        """The plan as roles read it, and as people are shown it."""
        plan, lock = self.plan, self.wanted.lock
        hashes = {package.name: package.sha256 for package in lock.packages}
        return {
            "change_class": plan.change_class.name.lower(),
            "because": [change.because for change in plan.changes],
            "steps": [step.value for step in plan.steps],
            "interrupts": plan.interrupts,
            "work": list(gpu_work(self.state)),
            "installed": dict(plan.installed),
            "sha256": {name: hashes[name] for name in plan.installed},
            "removed": list(plan.removed),
            "half_installed": list(self.state.half_installed),
            "held": list(plan.held),
            "enabled": list(plan.enabled),
            "files": list(plan.files),
            "units": list(wanted_units(self.state, lock)),
            "labels": [f"{name}={value}" for name, value in node_labels(lock).items()],
            "owed": [step.value for step in plan.steps if step not in _SEEN_ANYWAY],
        }


def _by_role(found: Iterable[Refusal | Finding]) -> dict[str, list[str]]:
    listed: dict[str, list[str]] = {}
    for each in found:
        listed.setdefault(each.role, []).append(each.message)
    return listed


def domains(groups: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the changing hosts, by failure domain, from Ansible's groups."""
    names = sorted(name for name in groups if name.startswith(DOMAIN_GROUP))
    return [sorted(groups[name]) for name in names]
