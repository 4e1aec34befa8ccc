"""Helm charts as archives on this machine, each held against its digest before it is used.

Helm compares no digest of a chart that a repository serves, so what is installed is a file that was
compared here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from tokenworks.errors import OperationError
from tokenworks.plan.aws.types import ChartPlan
from tokenworks.workspace import Workspace

PATIENCE_SECONDS: Final = 60
_SCHEMES: Final = ("https://", "http://127.0.0.1:")


def chart_path(plan: ChartPlan) -> str:
    """Where a chart's archive lies, from the checkout's root, where every program runs."""
    short = plan.digest.removeprefix("sha256:")[:12]
    return f"./.tokenworks/charts/{plan.name}-{plan.version}-{short}.tgz"


def chart_archive(workspace: Workspace, plan: ChartPlan) -> str:
    """The path of a chart's archive, which is fetched if it is not there, and is as planned.

    Raises:
        OperationError: it cannot be fetched, or is another archive than the plan's.
    """
    path = chart_path(plan)
    file = workspace.root / path
    content = file.read_bytes() if file.is_file() else _fetched(plan)
    found = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if found != plan.digest:
        raise OperationError(
            f"chart {plan.name} {plan.version}",
            reason=f"the archive at {file if file.is_file() else plan.chart} has {found}, "
            f"and not {plan.digest}",
            remedy="use nothing of it; delete the file if it is one of this machine, else ask the "
            "chart's publisher",
        )
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=file.parent, delete=False) as beside:
            beside.write(content)
        Path(beside.name).replace(file)
    return path


def _fetched(plan: ChartPlan) -> bytes:
    if not plan.chart.startswith(_SCHEMES):
        raise OperationError(
            f"chart {plan.name} at {plan.chart}",
            reason="is no archive that can be fetched and compared",
            remedy="name it by https://, ending in .tgz",
        )
    import http.client  # with TLS, slow to load, and only a new chart needs it
    import urllib.request

    try:
        with urllib.request.urlopen(plan.chart, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310  (its scheme is checked)
            content: bytes = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise OperationError(
            f"chart {plan.name} at {plan.chart}",
            reason=f"cannot be fetched: {error}",
            remedy=f"see that it can be reached, or put the archive at {chart_path(plan)}",
        ) from error
    return content
