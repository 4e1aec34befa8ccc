"""A node boots one image: by id, by release, or by a path that names a release.

An image that is looked up by the newest, by a moving alias or by a pattern is another one after a
rebuild. The look-up is judged where it is made, since its answer is an ordinary id.
"""

from __future__ import annotations

from typing import Final

from policy.aws import aws_type
from policy.node_images import IMAGE_TYPES, image_faults
from policy.objects import is_kubernetes
from policy.rule import Family, Rule, Severity

RULE: Final = Rule(
    code="P6",
    name="node-images-are-one-release",
    description="Every node image is one release: no newest, no recommended, no pattern.",
    family=Family.PINS,
    severity=Severity.HIGH,
    remediation=(
        "Name the image by id, by its release, or by an SSM path that holds the release; raise it "
        "by a reviewed change."
    ),
    references=(
        "https://github.com/awslabs/amazon-eks-ami/issues/996",
        "https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html",
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-systems-manager-parameter-to-find-AMI.html",
    ),
    applies=lambda token: aws_type(token) in IMAGE_TYPES or is_kubernetes(token),
    faults=lambda resource, _: image_faults(resource),
    tolerates_unknown_at_preview=True,
)
