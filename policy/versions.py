"""What counts as an exact version."""

from __future__ import annotations

import re
from typing import Final

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
# (github.com/awslabs/amazon-eks-ami, CHANGELOG).
_NODE_RELEASE: Final = re.compile(r"1\.[1-9][0-9]*\.[0-9]+-[0-9]{8}")


def is_exact_version(text: str) -> bool:
    """Return whether the text names one version: ``v?X.Y.Z[-pre][+meta]``, and no range."""
    return _EXACT.fullmatch(text) is not None


def is_kubernetes_minor(text: str) -> bool:
    """Return whether the text is a minor version of Kubernetes, ``1.36``."""
    return _KUBERNETES_MINOR.fullmatch(text) is not None


def is_node_release(text: str) -> bool:
    """Return whether the text is a release of an EKS node image, ``1.36.2-20260714``."""
    return _NODE_RELEASE.fullmatch(text) is not None
