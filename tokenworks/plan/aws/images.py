"""Machine images made by the host roles: what is in each, and so its name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from tokenworks.environment.sections import NodePool
from tokenworks.facts.aws_zones import offerings
from tokenworks.plan.aws.case import AwsCase
from tokenworks.plan.aws.types import ImagePlan
from tokenworks.plan.aws.zones import zones_of
from tokenworks.plan.types import HostPoolPlan, PoolPlan

BUILDERS = ("g4dn.xlarge", "g6.xlarge", "g5.xlarge")
"""Small machines with a GPU that every driver since Turing drives, so that the driver is proven to
load before any image is made; the first that the zone offers is taken."""
ROOT_GIB = 60
SHOWN_DIGITS = 10


def image_digest(case: AwsCase, hosts: HostPoolPlan) -> str:
    """SHA-256 over everything that decides what is in an image: roles, lock, settings, base."""
    content = {
        "roles": case.roles_digest,
        "lock": hosts.lock.model_dump(mode="json"),
        "settings": _settings(hosts),
        "base": case.section.builder_base_image,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _settings(hosts: HostPoolPlan) -> dict[str, object]:
    """The number of GPUs is that of whatever starts the image, and so not in it."""
    settings: dict[str, object] = hosts.settings.model_dump(mode="json", exclude={"expected_gpus"})
    return settings


def image_name(case: AwsCase, pool: PoolPlan) -> str:
    """The image that a pool's nodes start; pools of one content have one image."""
    assert pool.hosts is not None  # noqa: S101  (asked for pools with a lock only)
    digest = image_digest(case, pool.hosts)
    return f"{case.prefix}-{pool.hosts.lock_name}-{digest[:SHOWN_DIGITS]}"


def images(case: AwsCase) -> tuple[ImagePlan, ...]:
    """Every image once, in the order of the pools that start it."""
    found: dict[str, ImagePlan] = {}
    for asked, pool in zip(case.loaded.environment.node_pools, case.pools, strict=True):
        if asked.host_lock is None or pool.hosts is None:
            continue
        name = image_name(case, pool)
        one = found.get(name) or _image(case, asked, pool.hosts, name)
        found[name] = replace(one, pools=(*one.pools, pool.name))
    return tuple(found.values())


def _image(case: AwsCase, pool: NodePool, hosts: HostPoolPlan, name: str) -> ImagePlan:
    zone = zones_of(case, pool)[0]
    return ImagePlan(
        name=name,
        pools=(),
        digest=image_digest(case, hosts),
        lock_name=hosts.lock_name,
        base_image=str(case.section.builder_base_image),
        builder_instance=_builder(zone, pool.kind),
        zone_id=zone,
        root_volume_gib=ROOT_GIB,
    )


def _builder(zone: str, own: str) -> str:
    fitting = (name for name in BUILDERS if zone in offerings().get(name, ()))
    return next(fitting, own)
