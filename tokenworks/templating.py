"""Templates: the one place that turns a file below ``templates/`` and values into text."""

from __future__ import annotations

import json
import shlex
import string
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES: Final = Path(__file__).resolve().parent.parent / "templates"

_LUA_PLAIN: Final = frozenset((string.ascii_letters + string.digits + " -_./:").encode())


def yaml_text(value: object) -> str:
    """JSON on one line, which YAML reads as the same value; no string can leave its quotes.

    Raises ``TypeError`` for what JSON does not know and ``ValueError`` for NaN and infinity.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)


def lua_text(value: str | int) -> str:
    """A Lua literal; every byte of a string that is not plainly harmless is a ``\\ddd`` escape."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    plain = "".join(chr(b) if b in _LUA_PLAIN else f"\\{b:03d}" for b in value.encode())
    return f'"{plain}"'


def shell_text(value: str | int) -> str:
    """One word of a POSIX shell command."""
    return shlex.quote(str(value))


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - HTML escapes would corrupt YAML; see the filters
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(yaml=yaml_text, lua=lua_text, shell=shell_text, part=str.rstrip)
    return environment


_ENVIRONMENT: Final = _environment()


def render(template: str, **values: object) -> str:
    """The text of ``templates/<template>`` with its values put in.

    Values that people chose enter through the filter of the file's language, ``yaml``, ``lua`` or
    ``shell``. Raises ``jinja2.UndefinedError`` for a value that the template names and nobody gave.
    """
    return _ENVIRONMENT.get_template(template).render(**values)
