"""Which account, region and names an environment stands on; enough to act without a plan.

What takes an environment down must work where it can no longer be planned, such as when its
Kubernetes version has ended; so it is made from the environment's file alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ENVIRONMENT_TAG: Final = "tokenworks:environment"
PROGRAM_TAG: Final = "tokenworks:program"
STATE_PROGRAM: Final = "state"
"""What the state's bucket and key are tagged with: they belong to no stack."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One environment's place in AWS.

    ``cluster`` is the name of its EKS cluster, which controllers write into their tags.
    ``key_alias`` starts with ``alias/``.
    """

    environment: str
    account: str
    region: str
    cluster: str
    state_bucket: str
    key_alias: str

    @property
    def state_tags(self) -> dict[str, str]:
        """Tags of what keeps the state."""
        return {ENVIRONMENT_TAG: self.environment, PROGRAM_TAG: STATE_PROGRAM}

    @property
    def backend_url(self) -> str:
        """Pulumi's backend, for ``pulumi login``."""
        return f"s3://{self.state_bucket}?region={self.region}"

    @property
    def secrets_provider(self) -> str:
        """Pulumi's secrets provider, for ``pulumi stack init``."""
        return f"awskms://{self.key_alias}?region={self.region}"
