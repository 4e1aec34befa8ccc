"""A pool of machines that exist: prepared by Ansible, then labelled as nodes of their cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.dynamic import Resource
from pulumi_kubernetes.core.v1 import NodePatch

from tokenworks.hosts.inventory import Pool
from tokenworks.hosts.provider import PoolProvider, pool_inputs

GRACE_SECONDS = 600
"""Pulumi gives up after the run itself would have, which then says what it left."""


@dataclass(frozen=True, kw_only=True)
class HostPoolArgs:
    """The machines and what they are to have, and the labels of each node by its name."""

    pool: Pool
    labels: Mapping[str, Mapping[str, str]]


class PreparedHosts(Resource, module="hosts", name="Pool"):
    """The machines of one pool, each as locked; outputs tell of every host."""

    hosts: pulumi.Output[Mapping[str, Any]]
    drift: pulumi.Output[Mapping[str, Sequence[str]]]

    def __init__(self, name: str, pool: Pool, opts: pulumi.ResourceOptions | None = None) -> None:
        inputs = {**pool_inputs(pool), "hosts": None, "drift": None}
        super().__init__(PoolProvider(), name, inputs, opts)


class HostPool(pulumi.ComponentResource):
    """Machines that are prepared and labelled."""

    hosts: pulumi.Output[Mapping[str, Any]]

    def __init__(
        self, name: str, args: HostPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tokenworks:cluster:HostPool", name, {}, opts)
        limit = f"{args.pool.prepare_timeout_seconds + GRACE_SECONDS}s"
        limits = pulumi.CustomTimeouts(create=limit, update=limit)
        prepared = PreparedHosts(
            f"{name}-hosts",
            args.pool,
            pulumi.ResourceOptions(parent=self, custom_timeouts=limits),
        )
        for host in args.pool.hosts:
            NodePatch(
                f"{host.name}-labels",
                metadata={"name": host.name, "labels": dict(args.labels[host.name])},
                opts=pulumi.ResourceOptions(parent=self, depends_on=[prepared]),
            )
        self.hosts = prepared.hosts
        self.register_outputs({"hosts": self.hosts})
