"""Named kinds of value that only AWS has; each says what it accepts and what to write instead."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any

from pydantic import AfterValidator, Field, Strict
from pydantic_core import PydanticCustomError

from tokenworks.environment.values import matching


def _cidr(value: str) -> str:
    try:
        ipaddress.IPv4Network(value)
    except ValueError:
        refused = {
            "reason": "is not an IPv4 network",
            "remedy": "write it as 10.64.0.0/16, with no bits set behind the prefix",
        }
        raise PydanticCustomError("tokenworks", "{reason}", refused) from None
    return value


def _matching(regex: str, reason: str, remedy: str) -> Any:
    return AfterValidator(matching(regex, reason, remedy))


Cidr = Annotated[str, Strict(), AfterValidator(_cidr)]

Account = Annotated[
    str,
    Strict(),
    Field(json_schema_extra={"pattern": "^[0-9]{12}$"}),
    _matching(
        r"[0-9]{12}",
        "is not an AWS account",
        "write its 12 digits in quotes; `aws sts get-caller-identity` prints them",
    ),
]

Region = Annotated[
    str,
    Strict(),
    _matching(r"[a-z]{2}(-[a-z]+)+-[0-9]", "is not a region", "write one such as us-east-1"),
]

ZoneId = Annotated[
    str,
    Strict(),
    _matching(
        r"[a-z]{2,6}[0-9]-az[0-9]",
        "is not the id of a zone",
        "write an id such as use1-az1, which means the same place in every account; "
        "`aws ec2 describe-availability-zones` prints it beside the name",
    ),
]

KubernetesVersion = Annotated[
    str,
    Strict(),
    _matching(r"1\.[0-9]{2}", "is not a version of EKS", "write one such as '1.36', in quotes"),
]

ReleaseVersion = Annotated[
    str,
    Strict(),
    _matching(
        r"1\.[0-9]{2}\.[0-9]+-[0-9]{8}",
        "is not the release of an EKS image",
        "write the Kubernetes version and the day, such as 1.36.2-20260714",
    ),
]

AddOnVersion = Annotated[
    str,
    Strict(),
    _matching(
        r"v[0-9]+\.[0-9]+\.[0-9]+-eksbuild\.[0-9]+",
        "is not the exact version of an add-on",
        "write one such as v1.3.10-eksbuild.3; `aws eks describe-addon-versions` lists them",
    ),
]

PrincipalArn = Annotated[
    str,
    Strict(),
    _matching(
        r"arn:aws:iam::[0-9]{12}:(role|user)/[\w+=,.@/-]+",
        "is not the ARN of a role or user",
        "write arn:aws:iam::<account>:role/<name>; sessions and wildcards are no principals",
    ),
]


def _id(prefix: str, what: str) -> Any:
    return _matching(
        rf"{prefix}-[0-9a-f]{{8}}([0-9a-f]{{9}})?",
        f"is not the id of {what}",
        f"write it as {prefix}- and 17 hexadecimal digits",
    )


ReservationId = Annotated[str, Strict(), _id("cr", "a capacity reservation")]
TransitGatewayId = Annotated[str, Strict(), _id("tgw", "a transit gateway")]
ImageId = Annotated[str, Strict(), _id("ami", "a machine image")]

BucketName = Annotated[
    str,
    Strict(),
    _matching(
        r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
        "is not a usable bucket name",
        "use 3 to 63 lower-case letters, digits and hyphens, without dots",
    ),
]

KeyAlias = Annotated[
    str,
    Strict(),
    _matching(
        r"alias/(?!aws/)[A-Za-z0-9/_-]{1,250}",
        "is not the alias of a key of yours",
        "write it as alias/tokenworks-state",
    ),
]

Registry = Annotated[
    str,
    Strict(),
    _matching(
        r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-][a-z0-9]+)*)*",
        "is not a registry",
        "write host and path, such as registry.example.org/mirror, without https:// and tag",
    ),
]
