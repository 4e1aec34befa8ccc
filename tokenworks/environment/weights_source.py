"""Where the files of a model come from, when the volume that engines read is filled."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from tokenworks.environment.gateway import SecretReference
from tokenworks.environment.section import Section
from tokenworks.environment.values import NodeName, RelativePath, matching

HUB = "https://huggingface.co"

SourceUrl = Annotated[
    str,
    Strict(),
    AfterValidator(
        matching(
            r"https?://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[1-9]\d{0,4})?(/[\w./~+-]*)?",
            "is not the address of an HTTP server",
            "write it as https://models.example.com/folder, without user, query and fragment",
        )
    ),
]


def _network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise refusal(
            "is no range of addresses", "write it as 10.20.0.0/16, or 10.20.0.7/32 for one"
        ) from None


def refusal(reason: str, remedy: str) -> PydanticCustomError:
    """A refusal that the loader shows at its key."""
    return PydanticCustomError("tokenworks", "{reason}", {"reason": reason, "remedy": remedy})


Network = Annotated[
    str, Strict(), Field(json_schema_extra={"examples": ["10.20.0.0/16"]}), AfterValidator(_network)
]


class _Server(Section):
    """What every HTTP server has in common."""

    token: SecretReference | None = Field(
        default=None,
        description="Where a bearer token is kept; it goes to this server alone, over TLS.",
    )
    ca: RelativePath | None = Field(
        default=None,
        description="Authorities that sign this server's certificate, in PEM, beside this file; "
        "left out, those of the image.",
    )
    addresses: Annotated[tuple[Network, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Addresses that the download may reach; left out, all public ones. A server "
        "inside your network needs its own here, with those that it redirects to.",
    )

    @property
    def address(self) -> str:
        """The server's URL."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _refuse_plain(self) -> _Server:
        if self.address.startswith("http://") and (self.token or self.ca):
            reason = "has a token or an authority, and an address without TLS"
            raise refusal(reason, "write the address with https://, or remove them")
        return self


class HubSource(_Server):
    """A model hub, asked for the revision that the weights are pinned to."""

    endpoint: SourceUrl = Field(default=HUB, description="Address of the hub, or of its mirror.")

    @property
    def address(self) -> str:
        """The hub."""
        return self.endpoint


class HttpSource(_Server):
    """A folder of an HTTP server: each path of the manifest below it."""

    url: SourceUrl = Field(description="Address of the folder with the files.")

    @property
    def address(self) -> str:
        """The folder."""
        return self.url


class ClaimSource(Section):
    """A volume that holds the files: a disk, a share, or a bucket through its CSI driver."""

    name: NodeName = Field(
        description="PersistentVolumeClaim with the files, in the namespace of the engines."
    )
    folder: RelativePath | None = Field(
        default=None, description="Folder of the files on that volume; left out, its root."
    )


class WeightsSource(Section):
    """Where the volume of a model is filled from; one of the three."""

    hub: HubSource | None = Field(default=None, description="A model hub.")
    http: HttpSource | None = Field(default=None, description="A folder of an HTTP server.")
    claim: ClaimSource | None = Field(default=None, description="A volume in the cluster.")

    @model_validator(mode="before")
    @classmethod
    def _refuse_none_and_several(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not set(data) <= set(cls.model_fields):
            return data
        given = [name for name, value in data.items() if value is not None]
        if len(given) != 1:
            reason = f"names {' and '.join(given) or 'nothing'}"
            raise refusal(reason, f"name one of: {', '.join(cls.model_fields)}")
        return data

    @property
    def named(self) -> HubSource | HttpSource | ClaimSource:
        """The one of the three that is given."""
        return next(one for one in (self.hub, self.http, self.claim) if one is not None)

    @property
    def server(self) -> HubSource | HttpSource | None:
        """The HTTP server, where it is one."""
        return self.hub or self.http


def host_and_port(url: str) -> tuple[str, int]:
    """Whom a URL calls."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or {"https": 443, "http": 80}[parts.scheme]
