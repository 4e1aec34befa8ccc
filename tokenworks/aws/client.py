"""Clients of one account in one region, proven to be the one that an environment names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from tokenworks.aws.target import Target
from tokenworks.errors import OperationError

# Every call ends: five attempts with botocore's own backoff, each of bounded length.
SETTINGS: Final = Config(
    retries={"mode": "standard", "max_attempts": 5},
    connect_timeout=5,
    read_timeout=30,
    user_agent_appid="tokenworks",
)
_REMEDIES: Final = {
    "AccessDenied": "give the role that you act as this permission and try again",
    "AccessDeniedException": "give the role that you act as this permission and try again",
    "UnauthorizedOperation": "give the role that you act as this permission and try again",
    "ExpiredToken": "log in to AWS again and run the same command",
    "ExpiredTokenException": "log in to AWS again and run the same command",
    "InvalidClientTokenId": "log in to AWS again and run the same command",
}
REFUSALS: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
"""Codes with which AWS says that the caller may not ask."""


class AwsError(OperationError):
    """A call that AWS answered with an error, or not at all; ``code`` is AWS's own, or empty."""

    def __init__(self, what: str, *, reason: str, remedy: str, code: str = "") -> None:
        self.code = code
        super().__init__(what, reason=reason, remedy=remedy)


class Cloud:
    """An account and region in which calls are made; get one from ``connect``."""

    def __init__(self, session: boto3.session.Session, target: Target) -> None:
        self.target = target
        self._session = session
        self._clients: dict[str, Any] = {}

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """What AWS answers to one operation, such as ``call("ec2", "delete_volume", …)``.

        Raises:
            AwsError: AWS refused, failed, or did not answer.
        """
        try:
            answered: dict[str, Any] = getattr(self.client(service), operation)(**arguments)
        except (ClientError, BotoCoreError) as error:
            raise as_error(service, operation, error) from error
        return answered

    def pages(
        self, service: str, operation: str, key: str, **arguments: Any
    ) -> Iterator[dict[str, Any]]:
        """Every entry under a key of a listing, over all of its pages.

        Raises:
            AwsError: AWS refused, failed, or did not answer.
        """
        try:
            for page in self.client(service).get_paginator(operation).paginate(**arguments):
                yield from page.get(key) or ()
        except (ClientError, BotoCoreError) as error:
            raise as_error(service, operation, error) from error

    def wait(self, service: str, state: str, **arguments: Any) -> None:
        """Return once a thing is in a state, by the service's own waiter, which gives up in time.

        Raises:
            AwsError: it never was, or AWS refused, failed, or did not answer.
        """
        try:
            self.client(service).get_waiter(state).wait(**arguments)
        except (ClientError, BotoCoreError) as error:
            raise as_error(service, f"wait {state}", error) from error

    def client(self, service: str) -> Any:
        """The client of a service in this region."""
        if service not in self._clients:
            self._clients[service] = self._session.client(
                service, region_name=self.target.region, config=SETTINGS
            )
        return self._clients[service]


def connect(target: Target) -> Cloud:
    """The environment's account and region, once it is proven that the credentials are for it.

    Raises:
        OperationError: no credentials, those of another account, or a shell set to another region.
    """
    session = boto3.session.Session()
    _refuse_other_region(session.region_name, target)
    cloud = Cloud(session, target)
    caller = cloud.call("sts", "get_caller_identity")
    if caller["Account"] != target.account:
        raise OperationError(
            f"account of {target.environment}",
            reason=f"its file says {target.account}, but the credentials are {caller['Arn']} "
            f"in {caller['Account']}",
            remedy=f"choose credentials of {target.account}, for instance by AWS_PROFILE; "
            "nothing was read or changed",
        )
    return cloud


def _refuse_other_region(configured: str | None, target: Target) -> None:
    """Refuse a shell whose region is another one: whoever set it is thinking of another place."""
    if configured not in (None, target.region):
        raise OperationError(
            f"region of {target.environment}",
            reason=f"its file says {target.region}, but this shell or profile says {configured}",
            remedy=f"set AWS_REGION={target.region}, or unset it; nothing was read or changed",
        )


def as_error(service: str, operation: str, error: Exception) -> AwsError:
    """What went wrong with a call, and what to do about it."""
    what = f"aws {service} {operation.replace('_', '-')}"
    if isinstance(error, ClientError):
        told = error.response.get("Error", {})
        code, message = str(told.get("Code", "")), str(told.get("Message", ""))
        remedy = _REMEDIES.get(code, "correct what AWS names and run the same command again")
        return AwsError(what, reason=f"{code}: {message.rstrip('.')}", remedy=remedy, code=code)
    if isinstance(error, NoCredentialsError | TokenRetrievalError | UnauthorizedSSOTokenError):
        remedy = "log in to AWS, for instance with `aws sso login`, and run the same command again"
        return AwsError(what, reason=str(error).rstrip("."), remedy=remedy)
    remedy = "see that AWS can be reached from here and run the same command again"
    return AwsError(what, reason=str(error).rstrip("."), remedy=remedy)


def tags_of(listed: Any) -> dict[str, str]:
    """Tags as a mapping, from AWS's lists of keys and values in either spelling."""
    pairs = ((each.get("Key", each.get("key")), each) for each in listed or ())
    return {str(key): str(each.get("Value", each.get("value", ""))) for key, each in pairs}


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Tags as most services want them."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
