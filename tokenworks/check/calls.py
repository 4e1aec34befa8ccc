"""Calls that a program makes of providers, as resources that the rules can judge.

The engine sends no call to a policy pack, so that ``getAmi`` with ``mostRecent`` is seen only where
the program makes it: in a recording and in the program's guard. A call is judged by its token and
its arguments, as a resource is by its type and its properties.

``kubernetes:helm.sh/v3:Chart`` registers with no inputs at all; its options travel as JSON in the
call that renders it (pulumi-kubernetes ``helm/v3/helm.py``, ``_parse_chart``). Rules see them as
the Chart that they describe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from policy.resources import UNKNOWN, Resource

RENDER_CALL: Final = "kubernetes:helm:template"
DECODE_YAML_CALL: Final = "kubernetes:yaml:decode"
_CHART_TYPE: Final = "kubernetes:helm.sh/v3:Chart"


def resource_of_call(token: str, arguments: Mapping[str, object]) -> Resource | None:
    """Return a call as the resource that it stands for.

    A call that renders a chart is the chart; options that are not known yet give a chart whose
    version is not known. What is decoded from YAML is registered, and judged, object by object,
    so that call is None.
    """
    if token == DECODE_YAML_CALL:
        return None
    call = Resource.of(token, "call", arguments)
    if token != RENDER_CALL:
        return call
    written = call.properties.get("jsonOpts")
    options = json.loads(written) if isinstance(written, str) else {"version": UNKNOWN}
    name = options.get("chart") or options.get("path")
    return Resource.of(_CHART_TYPE, name if isinstance(name, str) else "", options)
