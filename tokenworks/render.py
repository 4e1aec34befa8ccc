"""Text from templates: what a plan decided, written as the files that programs read."""

from __future__ import annotations

import io
import json
from typing import Final

from ruamel.yaml import YAML

from tokenworks.plan.model import CONFIG_FILE
from tokenworks.plan.types import ModelPlan, WeightsPlan
from tokenworks.templating import TEMPLATES

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
