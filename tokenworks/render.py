"""Text from templates: what a plan decided, written as the files that programs read."""

from __future__ import annotations

import io
import json
import shlex
import string
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from ruamel.yaml import YAML

from tokenworks.plan.model import CONFIG_FILE
from tokenworks.plan.types import ModelPlan, WeightsPlan

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
    ``shell``; what another template made enters as a ``part``. Raises ``jinja2.UndefinedError``
    for a value that the template names and nobody gave.
    """
    return _ENVIRONMENT.get_template(template).render(**values)


# --- The engine ----------------------------------------------------------------------------------

GATE_SCRIPT: Final = "verify.py"
GATE_MANIFEST: Final = "manifest.json"


def engine_files(model: ModelPlan) -> dict[str, str]:
    """The engine's own configuration, as the plan decided it."""
    text = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(model.config_file.value, text)
    return {CONFIG_FILE: text.getvalue()}


def weights_gate_files(weights: WeightsPlan) -> dict[str, str]:
    """The gate's program and the manifest that it holds the weights against."""
    files = [{"path": path, "bytes": size, "sha256": sha} for path, size, sha in weights.files]
    manifest = {
        "repository": weights.repository,
        "revision": weights.revision,
        "files": files,
    }
    return {
        GATE_SCRIPT: (TEMPLATES / "weights" / "verify.py").read_text("utf-8"),
        GATE_MANIFEST: json.dumps(manifest, indent=1) + "\n",
    }
