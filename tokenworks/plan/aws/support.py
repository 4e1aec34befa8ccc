"""When AWS's support of a Kubernetes version ends, and from when on that is a warning."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from tokenworks.plan.aws.types import AwsPlan

WARNING_DAYS = 90
"""Time to try the next minor version, update, and let nodes roll."""


def support_warnings(plan: AwsPlan, today: datetime.date) -> Iterator[str]:
    """What to do about a version whose support ends soon or has ended; nothing before that."""
    ends, version = plan.cluster.support_ends, plan.cluster.version
    left = (ends - today).days
    if left > WARNING_DAYS:
        return
    ended = f"ended on {ends}" if left <= 0 else f"ends on {ends}, in {left} days"
    yield (
        f"aws.kubernetes_version: standard support of {version} {ended}; from then on EKS updates "
        "the control plane by itself, so take the next minor version before"
    )
