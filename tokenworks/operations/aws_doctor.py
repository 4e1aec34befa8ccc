"""What the doctor looks at in an AWS account: who is calling, and whether quotas are enough."""

from __future__ import annotations

from tokenworks.aws.target import Target
from tokenworks.errors import OperationError
from tokenworks.operations.aws_quotas import as_finding, check_quotas
from tokenworks.operations.aws_target import find_cloud
from tokenworks.operations.doctor import Finding
from tokenworks.plan.types import Plan
from tokenworks.workspace import Workspace


def examine_account(workspace: Workspace, plan: Plan) -> list[Finding]:
    """The account and its quotas; what cannot be asked could not be told."""
    if plan.aws is None:
        return []
    subject = f"account {plan.aws.account}"
    try:
        cloud = find_cloud(workspace, plan.environment)
        account = Finding(subject=subject, well=True, seen=_place(cloud.target))
        verdicts = check_quotas(cloud, plan.aws.quotas)
    except OperationError as error:
        return [Finding(subject=subject, well=None, seen=error.reason, remedy=error.remedy)]
    return [account, *map(as_finding, verdicts)]


def _place(target: Target) -> str:
    return f"these credentials are for it, in {target.region}"
