"""The gateway's certificate, by reference."""

from __future__ import annotations

from pydantic import Field

from tokenworks.environment.gateway import SecretReference
from tokenworks.environment.section import Section
from tokenworks.environment.values import RelativePath


class CertificateReference(Section):
    """The gateway's certificate, and where its key is kept."""

    chain: RelativePath = Field(description="Certificate chain in PEM, beside this file.")
    private_key: SecretReference = Field(description="Where the private key is kept.")
