"""What every section of an environment file is built on."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A frozen table of keys; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
