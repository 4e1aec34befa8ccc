"""Files of a repository as resources, so that the same rules judge what they pin.

The properties of a file are its own keys; a list of roles has them under ``roles``. Pip's
requirements, and a file that cannot be read, have ``content`` alone: its text, or UNKNOWN.
"""

from __future__ import annotations

from typing import Final

PIP_REQUIREMENTS: Final = "file:pip-requirements"
"""Python requirement files, as pip reads them."""
ANSIBLE_REQUIREMENTS: Final = "file:ansible-requirements"
"""Roles and collections, as ansible-galaxy installs them."""
ANSIBLE_VARIABLES: Final = "file:ansible-variables"
"""Defaults, variables and group variables of roles and plays."""
PACK_CONFIG: Final = "file:policy-pack-config"
"""What ``--policy-pack-config`` is given."""

CONTENT: Final = "content"
