"""Text from templates: what a plan decided, written as the files that programs read."""

from __future__ import annotations

import io
import json
from typing import Final

from ruamel.yaml import YAML

from tokenworks.plan.model import CONFIG_FILE
from tokenworks.plan.types import ClaimPlan, ModelPlan, ServerPlan, WeightsPlan
from tokenworks.templating import TEMPLATES

# --- The engine ----------------------------------------------------------------------------------

GATE_SCRIPT: Final = "verify.py"
GATE_MANIFEST: Final = "manifest.json"

# --- Weights -------------------------------------------------------------------------------------

POPULATE_SCRIPT: Final = "populate.py"
COLLECT_SCRIPT: Final = "collect.py"
SETTINGS: Final = "settings.json"
AUTHORITY: Final = "authority.pem"
TOOLS_MOUNT: Final = "/etc/weights-tools"
TOKEN_MOUNT: Final = "/etc/weights-token"  # noqa: S105  (a folder)
TOKEN_KEY: Final = "token"  # noqa: S105  (a file's name)
SOURCE_MOUNT: Final = "/source"

ATTEMPTS: Final = 8
"""How often a source is asked without a MiB arriving; with pauses that double, about two minutes,
in which servers restart."""
STALL_SECONDS: Final = 60
"""How long nothing may arrive: longer than content networks take to fetch a cold file's start."""


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
    return {GATE_SCRIPT: _tool(GATE_SCRIPT), GATE_MANIFEST: _manifest(weights)}


def populate_files(model: str, weights: WeightsPlan) -> dict[str, str]:
    """The program that fills the volume, the manifest, and what it is to do."""
    plan = weights.populate
    settings = {
        "revision": weights.folder.partition("/")[0],
        "model": model,
        "source": _source(plan.source),
        "connections": plan.connections.value,
        "attempts": ATTEMPTS,
        "pause_seconds": 1,
        "every_seconds": 10,
    }
    files = {name: _tool(name) for name in (POPULATE_SCRIPT, "sources.py", GATE_SCRIPT)}
    files |= {GATE_MANIFEST: _manifest(weights), SETTINGS: json.dumps(settings, indent=1) + "\n"}
    if isinstance(plan.source, ServerPlan) and plan.source.authority:
        files[AUTHORITY] = plan.source.authority
    return files


def collect_files(weights: WeightsPlan) -> dict[str, str]:
    """The program that removes what no release uses, and which revisions are used."""
    settings = {
        "in_use": [weights.folder.partition("/")[0]],
        "previous": weights.populate.previous_revisions.value,
    }
    tools = (COLLECT_SCRIPT, POPULATE_SCRIPT, "sources.py", GATE_SCRIPT)
    return {name: _tool(name) for name in tools} | {SETTINGS: json.dumps(settings, indent=1) + "\n"}


def _source(source: ServerPlan | ClaimPlan) -> dict[str, str | int]:
    """A source as ``templates/weights/sources.py`` reads it."""
    if isinstance(source, ClaimPlan):
        return {"folder": f"{SOURCE_MOUNT}/{source.folder}"}
    settings: dict[str, str | int] = {"url": source.url, "stall_seconds": STALL_SECONDS}
    if source.token_secret:
        settings["token_file"] = f"{TOKEN_MOUNT}/{TOKEN_KEY}"
    if source.authority:
        settings["ca_file"] = f"{TOOLS_MOUNT}/{AUTHORITY}"
    return settings


def _manifest(weights: WeightsPlan) -> str:
    files = [{"path": path, "bytes": size, "sha256": sha} for path, size, sha in weights.files]
    manifest = {
        "repository": weights.repository,
        "revision": weights.revision,
        "files": files,
    }
    return json.dumps(manifest, indent=1) + "\n"


def _tool(name: str) -> str:
    return (TEMPLATES / "weights" / name).read_text("utf-8")
