"""Helm charts that a program renders by a call instead of a resource.

``kubernetes:helm.sh/v3:Chart`` registers with no inputs at all; its options travel as JSON in the
call that renders it (pulumi-kubernetes ``helm/v3/helm.py``, ``_parse_chart``). Rules see them as
the Chart that they describe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from policy.resources import UNKNOWN, Resource

RENDER_CALL = "kubernetes:helm:template"
_CHART_TYPE = "kubernetes:helm.sh/v3:Chart"


def chart_of_call(token: str, arguments: Mapping[str, object]) -> Resource | None:
    """Return the chart that a call renders, or None for any other call.

    Options that are not known yet give a chart whose version is not known.
    """
    if token != RENDER_CALL:
        return None
    call = Resource.of(token, "", arguments)
    written = call.properties.get("jsonOpts")
    options = json.loads(written) if isinstance(written, str) else {"version": UNKNOWN}
    name = options.get("chart") or options.get("path")
    return Resource.of(_CHART_TYPE, name if isinstance(name, str) else "", options)
