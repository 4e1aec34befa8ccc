"""The gateway's images: their tags, and the digests that the lock gives for them."""

from __future__ import annotations

from dataclasses import dataclass

from tokenworks.environment.lock import Lock
from tokenworks.plan.types import Image


@dataclass(frozen=True)
class Tag:
    """One tag of an image."""

    repository: str
    tag: str

    def locked(self, lock: Lock) -> Image:
        """The image under its digest; that there is one was checked before."""
        found = lock.find(self.repository, self.tag)
        assert found is not None  # noqa: S101  (gateway_problems has reported it)
        return Image(repository=found.repository, tag=found.tag, digest=found.digest)


ENVOY = Tag("docker.io/envoyproxy/envoy", "v1.39.3")
RATE_LIMIT = Tag("docker.io/envoyproxy/ratelimit", "837de552")
"""Tags of this image are commits; there are no releases after 1.4.0."""
STORE = Tag("docker.io/valkey/valkey", "9.1.0")
