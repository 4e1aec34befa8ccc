"""Comparing what an environment needs of service quotas with what the account has and uses."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from tokenworks.aws.client import REFUSALS, AwsError, Cloud
from tokenworks.aws.quota_use import COUNTERS
from tokenworks.plan.aws.types import QuotaNeed

_USE_WINDOW: Final = datetime.timedelta(hours=3)
"""CloudWatch has the use of a quota every five minutes at most; three hours bridge its gaps."""
_PERIOD_SECONDS: Final = 300


@dataclass(frozen=True, kw_only=True)
class Quota:
    """What the account may have, and what it has; None where AWS did not say, with the reason."""

    limit: float | None
    used: float | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class QuotaVerdict:
    """One need against its quota; ``enough`` is None where it could not be told."""

    need: QuotaNeed
    quota: Quota
    enough: bool | None
    because: str


def judge_quota(need: QuotaNeed, quota: Quota, *, already_up: bool) -> QuotaVerdict:
    """Whether what is needed fits beside what is used.

    Where the environment is up already, its own part is in what is used, and cannot be told apart.
    """
    enough, because = _judge(need, quota, already_up=already_up)
    return QuotaVerdict(need=need, quota=quota, enough=enough, because=because)


def _judge(need: QuotaNeed, quota: Quota, *, already_up: bool) -> tuple[bool | None, str]:
    if quota.limit is None:
        return None, quota.reason
    if need.needed > quota.limit:
        return False, f"{need.needed} are needed, and the quota is {quota.limit:g}"
    if quota.used is None:
        return None, f"the quota of {quota.limit:g} is enough alone, but {quota.reason}"
    free = quota.limit - quota.used
    if need.needed <= free:
        return True, f"{free:g} of {quota.limit:g} are free"
    if already_up:
        return None, f"{free:g} of {quota.limit:g} are free; what is used counts this environment"
    return False, f"{need.needed} are needed, and {free:g} of {quota.limit:g} are free"


def read_quotas(cloud: Cloud, needs: Iterable[QuotaNeed]) -> list[tuple[QuotaNeed, Quota]]:
    """Each need with its quota; what the credentials may not read is told as such.

    Raises:
        AwsError: AWS failed otherwise.
    """
    return [(need, _read(cloud, need)) for need in needs]


def _read(cloud: Cloud, need: QuotaNeed) -> Quota:
    try:
        found = _quota(cloud, need)
    except AwsError as error:
        if error.code in REFUSALS or error.code == "NoSuchResourceException":
            return Quota(limit=None, used=None, reason=error.reason)
        raise
    limit = float(found["Value"])
    counted = float(COUNTERS[need.code](cloud)) if need.code in COUNTERS else None
    told, reason = _told(cloud, found.get("UsageMetric") or {})
    used = max((each for each in (counted, told) if each is not None), default=None)
    return Quota(limit=limit, used=used, reason="" if used is not None else reason)


def _told(cloud: Cloud, metric: dict[str, Any]) -> tuple[float | None, str]:
    """What CloudWatch says is used, or None with the reason.

    It also counts what is reserved and not used, which cannot be seen by counting.
    """
    if not metric.get("MetricName"):
        return None, "AWS does not say how much of it is used"
    try:
        used = _used(cloud, metric)
    except AwsError as error:
        if error.code in REFUSALS:
            return None, error.reason
        raise
    return used, "CloudWatch has no figure of its use" if used is None else ""


def _quota(cloud: Cloud, need: QuotaNeed) -> dict[str, Any]:
    """The account's own value, or AWS's default where it never had one of its own."""
    place = {"ServiceCode": need.service, "QuotaCode": need.code}
    try:
        answer = cloud.call("service-quotas", "get_service_quota", **place)
    except AwsError as error:
        if error.code != "NoSuchResourceException":
            raise
        answer = cloud.call("service-quotas", "get_aws_default_service_quota", **place)
    quota: dict[str, Any] = answer["Quota"]
    return quota


def _used(cloud: Cloud, metric: dict[str, Any]) -> float | None:
    """The newest figure of a quota's use, or None: where nothing was used there is none either."""
    now = datetime.datetime.now(datetime.UTC)
    statistic = metric.get("MetricStatisticRecommendation", "Maximum")
    dimensions = metric.get("MetricDimensions") or {}
    answer = cloud.call(
        "cloudwatch",
        "get_metric_statistics",
        Namespace=metric["MetricNamespace"],
        MetricName=metric["MetricName"],
        Dimensions=[{"Name": k, "Value": v} for k, v in sorted(dimensions.items())],
        StartTime=now - _USE_WINDOW,
        EndTime=now,
        Period=_PERIOD_SECONDS,
        Statistics=[statistic],
    )
    points = sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])
    return float(points[-1][statistic]) if points else None
