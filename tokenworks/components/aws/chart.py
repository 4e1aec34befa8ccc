"""A Helm chart at one exact version, from an archive that was held against its digest."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_kubernetes.helm.v3 import Release

from tokenworks.plan.aws.types import ChartPlan

LIMIT_SECONDS = 900


class Chart(pulumi.ComponentResource):
    """A chart that runs before this is done; its source, version and digest are inputs of it."""

    release: Release

    def __init__(
        self,
        name: str,
        plan: ChartPlan,
        *,
        archive: str,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        said = {"chart": plan.chart, "version": plan.version, "digest": plan.digest}
        super().__init__("tokenworks:cluster:Chart", name, said, opts)
        self.release = Release(
            f"{name}-release",
            name=plan.name,
            chart=archive,
            version=plan.version,
            namespace=plan.namespace,
            values=dict(plan.values),
            atomic=True,
            cleanup_on_fail=True,
            max_history=3,
            skip_await=False,
            timeout=LIMIT_SECONDS,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(after)),
        )
        self.register_outputs({"status": self.release.status})
