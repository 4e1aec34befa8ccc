"""Exact versions of what runs on EKS, each with its source, and when AWS's support ends.

All of them stand in ``aws_versions.json`` and nowhere else: for each minor version of Kubernetes
the end of standard support, its add-ons and AWS's AL2023 images with the NVIDIA driver in each, and
the charts with the SHA-256 of their archives. What no public source states is not there.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Sourced:
    """One exact version, and where it was read."""

    version: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release of AWS's AL2023 images for EKS, and the NVIDIA driver in its GPU image."""

    version: str
    driver: str
    source: str


@dataclass(frozen=True, kw_only=True)
class ChartVersion:
    """One Helm chart: ``chart`` is the address of its archive, ``digest`` the archive's SHA-256."""

    version: str
    chart: str
    digest: str
    source: str


@dataclass(frozen=True, kw_only=True)
class KubernetesSupport:
    """What is known for one minor version of Kubernetes on EKS."""

    support_ends: datetime.date
    source: str
    add_ons: Mapping[str, Sourced]
    releases: Mapping[str, Release]


@cache
def read_on() -> datetime.date:
    """The day on which the versions were read."""
    return datetime.date.fromisoformat(_document()["read_on"])


@cache
def kubernetes_versions() -> Mapping[str, KubernetesSupport]:
    """What is known for each minor version, by its name such as ``1.36``."""
    return {name: _support(found) for name, found in _document()["kubernetes"].items()}


@cache
def charts() -> Mapping[str, ChartVersion]:
    """Charts by name."""
    return {name: ChartVersion(**found) for name, found in _document()["charts"].items()}


def releases() -> Mapping[str, Release]:
    """Every known release of AWS's images, by its version such as ``1.36.2-20260714``."""
    return {
        name: release
        for one in kubernetes_versions().values()
        for name, release in one.releases.items()
    }


def _support(found: dict[str, Any]) -> KubernetesSupport:
    return KubernetesSupport(
        support_ends=datetime.date.fromisoformat(found["support_ends"]),
        source=found["source"],
        add_ons={name: Sourced(**one) for name, one in found["add_ons"].items()},
        releases={
            name: Release(version=name, driver=one["driver"], source=one["source"])
            for name, one in found["releases"].items()
        },
    )


@cache
def _document() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("aws_versions.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    return document
