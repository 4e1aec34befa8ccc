"""The JSON Schema of environment files, by which editors complete and check them.

``python -m tokenworks.environment.schema > stacks/schema.json`` writes it anew.
"""

from __future__ import annotations

import json
import sys

from tokenworks.environment.sections import Environment


def schema_text() -> str:
    """The schema as it is committed, generated from the sections alone."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tokenworks environment",
        **{k: v for k, v in Environment.model_json_schema().items() if k != "title"},
    }
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
