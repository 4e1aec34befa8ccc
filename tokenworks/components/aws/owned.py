"""What every AWS component of ours has in common: children, tags that prove whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

Tags = Mapping[str, str]


class Owned(pulumi.ComponentResource):
    """A component whose children carry the tags of one environment and program."""

    def __init__(
        self, token: str, name: str, tags: Tags, opts: pulumi.ResourceOptions | None
    ) -> None:
        super().__init__(f"tokenworks:aws:{token}", name, {}, opts)
        self.tags = dict(tags)

    def named(self, name: str, more: Tags | None = None) -> dict[str, str]:
        """Tags of a child that is shown under a name."""
        return {**(more or {}), **self.tags, "Name": name}

    def child(
        self, depends_on: Sequence[pulumi.Resource] = (), **options: Any
    ) -> pulumi.ResourceOptions:
        """Options of a child, with what must be there before it and until after it."""
        return pulumi.ResourceOptions(parent=self, depends_on=list(depends_on), **options)
