"""What an environment needs of service quotas, and whether the account has it."""

from __future__ import annotations

from collections.abc import Sequence

from tokenworks.aws.client import Cloud
from tokenworks.aws.inventory import cluster_exists
from tokenworks.aws.quotas import QuotaVerdict, judge_quota, read_quotas
from tokenworks.operations.doctor import Finding
from tokenworks.plan.aws.types import QuotaNeed


def check_quotas(cloud: Cloud, needs: Sequence[QuotaNeed]) -> list[QuotaVerdict]:
    """Each need against its quota; what could not be told says why.

    Raises:
        AwsError: AWS failed otherwise than by refusing.
    """
    already_up = cluster_exists(cloud)
    return [
        judge_quota(need, quota, already_up=already_up) for need, quota in read_quotas(cloud, needs)
    ]


def as_finding(verdict: QuotaVerdict) -> Finding:
    """A verdict as the doctor tells it, with the command that asks for more."""
    need = verdict.need
    ask = (
        f"aws service-quotas request-service-quota-increase --service-code {need.service} "
        f"--quota-code {need.code} --desired-value <value>"
    )
    look = (
        f"aws service-quotas get-service-quota --service-code {need.service} "
        f"--quota-code {need.code}"
    )
    remedy = {True: "", False: f"`{ask}`", None: f"look by hand: `{look}`"}[verdict.enough]
    return Finding(
        subject=f"quota {need.name}", well=verdict.enough, seen=verdict.because, remedy=remedy
    )
