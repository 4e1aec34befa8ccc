"""Helm charts: the load balancer controller and NVIDIA's device plugin, with images by digest."""

from __future__ import annotations

from typing import Final

from tokenworks.environment.lock import Lock
from tokenworks.facts.aws_versions import ChartVersion, charts
from tokenworks.plan.aws.case import ENVIRONMENT_TAG, AwsCase
from tokenworks.plan.aws.iam import BALANCER_ACCOUNT, KUBE_SYSTEM
from tokenworks.plan.aws.types import ChartPlan
from tokenworks.plan.gateway_images import Tag
from tokenworks.plan.types import Image

CONTROLLER, DEVICE_PLUGIN = "aws-load-balancer-controller", "nvidia-device-plugin"
_FEATURES: Final = {
    # One Service of one kind is all that there is; its role has no rights for anything else.
    "ALBGatewayAPI": False,
    "GatewayListenerSet": False,
    "LBCapacityReservation": False,
    "NLBGatewayAPI": False,
    "ServiceTypeLoadBalancerOnly": True,
}
"""Features of the controller: kubernetes-sigs/aws-load-balancer-controller, feature_gates.go."""


def controller_image() -> Tag:
    """The controller's image at the version of its chart."""
    version = charts()[CONTROLLER].version
    return Tag("public.ecr.aws/eks/aws-load-balancer-controller", f"v{version}")


def device_plugin_image() -> Tag:
    """The device plugin's image at the version of its chart."""
    return Tag("nvcr.io/nvidia/k8s-device-plugin", f"v{charts()[DEVICE_PLUGIN].version}")


def chart_images() -> tuple[Tag, ...]:
    """Every image that the lock must hold for the charts."""
    return controller_image(), device_plugin_image()


def chart_plans(case: AwsCase) -> tuple[ChartPlan, ...]:
    """Every chart, in the order in which they are installed."""
    return (_controller(case), _device_plugin(case))


def _locked(lock: Lock, tag: Tag) -> tuple[Image, dict[str, str]]:
    """The image, and how charts are told of it: they put a colon between the two."""
    image = tag.locked(lock)
    return image, {"repository": image.repository, "tag": f"{image.tag}@{image.digest}"}


def _controller(case: AwsCase) -> ChartPlan:
    known = charts()[CONTROLLER]
    image, spelt = _locked(case.lock, controller_image())
    values = {
        "clusterName": case.prefix,
        "region": case.section.region,
        # Nodes answer pods no questions about themselves, so the network is found by its tag.
        "vpcTags": {ENVIRONMENT_TAG: case.environment},
        "image": spelt,
        "serviceAccount": {"create": True, "name": BALANCER_ACCOUNT},
        # It would make itself the class of every Service of type LoadBalancer.
        "enableServiceMutatorWebhook": False,
        # None of them has an endpoint in a network without internet, and none is wanted.
        "enableShield": False,
        "enableWaf": False,
        "enableWafv2": False,
        "createIngressClassResource": False,
        "controllerConfig": {"featureGates": dict(_FEATURES)},
        "defaultTargetType": "ip",
        "defaultTags": {ENVIRONMENT_TAG: case.environment},
    }
    return _chart(CONTROLLER, known, KUBE_SYSTEM, values, image)


def _device_plugin(case: AwsCase) -> ChartPlan:
    known = charts()[DEVICE_PLUGIN]
    image, spelt = _locked(case.lock, device_plugin_image())
    # Labels of GPUs are those of the node groups, so feature discovery has nothing to find.
    values = {"image": spelt, "gfd": {"enabled": False}, "allowDefaultNamespace": False}
    return _chart(DEVICE_PLUGIN, known, KUBE_SYSTEM, values, image)


def _chart(
    name: str, known: ChartVersion, namespace: str, values: dict[str, object], image: Image
) -> ChartPlan:
    return ChartPlan(
        name=name,
        chart=known.chart,
        version=known.version,
        digest=known.digest,
        namespace=namespace,
        values=values,
        images=(image.reference,),
    )
