"""What counts as an exact version, and what to say of a version that is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from policy.resources import UNKNOWN, Value
from policy.rule import Fault, Verdict

# Semantic Versioning 2.0.0 (semver.org), with the leading v that Helm and EKS add-ons allow.
_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_EXACT: Final = re.compile(
    rf"v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    r"(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
# EKS takes the minor version of Kubernetes and chooses the patch itself
# (docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html).
_KUBERNETES_MINOR: Final = re.compile(r"1\.[1-9][0-9]*")
# Kubernetes patch and date of the image, such as 1.36.2-20260714
# (github.com/awslabs/amazon-eks-ami, CHANGELOG); Bottlerocket's own version and the commit that
# it was built from, such as 1.20.3-5d9ac849 (github.com/bottlerocket-os/bottlerocket, releases).
_NODE_RELEASE: Final = re.compile(
    rf"1\.[1-9][0-9]*\.[0-9]+-[0-9]{{8}}|{_NUMBER}\.{_NUMBER}\.{_NUMBER}-[0-9a-f]{{8}}"
)
_TEMPLATE_VERSION: Final = re.compile(r"[1-9][0-9]*")
# A driver's branch and release, such as 580.95.05 or 470.57, which are no semantic versions; with
# the revision of a distribution's package (docs.nvidia.com/datacenter/tesla/drivers).
_PACKAGE: Final = re.compile(
    r"(?:[0-9]+:)?v?[0-9]+(?:\.[0-9]+){1,3}(?:[-~+][0-9A-Za-z][0-9A-Za-z.~+-]*)?"
)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


def is_exact_version(text: str) -> bool:
    """Return whether the text names one version: ``v?X.Y.Z[-pre][+meta]``, and no range.

    ``1.2.x-0`` is none, but ``1.2.3-x`` is: what follows the numbers names a pre-release.
    """
    return _EXACT.fullmatch(text) is not None


def is_kubernetes_minor(text: str) -> bool:
    """Return whether the text is a minor version of Kubernetes, ``1.36``."""
    return _KUBERNETES_MINOR.fullmatch(text) is not None


def is_node_release(text: str) -> bool:
    """Return whether the text is a release of an EKS node image, ``1.36.2-20260714``."""
    return _NODE_RELEASE.fullmatch(text) is not None


def is_template_version(text: str) -> bool:
    """Return whether the text is the number of one version of a launch template."""
    return _TEMPLATE_VERSION.fullmatch(text) is not None


def is_package_version(text: str) -> bool:
    """Return whether the text is one version of a package, ``580.95.05-0ubuntu1``."""
    return _PACKAGE.fullmatch(text) is not None


def is_commit(text: str) -> bool:
    """Return whether the text is a full commit id of git, 40 lower-case hex digits."""
    return _COMMIT.fullmatch(text) is not None


@dataclass(frozen=True, kw_only=True)
class Exactness:
    """What one kind of version must be, and the words for one that is missing or loose."""

    is_exact: Callable[[str], bool]
    missing: str
    loose: str
    remedy: str

    def faults(self, key: str, version: Value) -> Iterator[Fault]:
        """Yield a fault for a version that is not known, missing or loose."""
        if version is UNKNOWN:
            yield Fault(
                key=key,
                reason="is not known, and may be loose",
                remedy=self.remedy,
                verdict=Verdict.UNDETERMINABLE,
            )
        elif version is None or version == "":
            yield Fault(key=key, reason=self.missing, remedy=self.remedy)
        elif not self.is_exact(str(version)):
            yield Fault(key=key, given=version, reason=self.loose, remedy=self.remedy)
