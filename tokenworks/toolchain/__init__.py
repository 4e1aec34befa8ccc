"""Finding or building the programs that tokenworks runs, each at a pinned version.

``inspect`` says where every tool would come from, ``ensure`` gives a ``Toolbox`` in which they
are ready. Tools of the user's own count when they are new enough; the others are built from the
Go modules under ``tools/``, or installed from the wheels pinned there, into a cache outside the
checkout.
"""

from tokenworks.toolchain.catalogue import (
    BENCHMARK_TOOLS,
    CLUSTER_TOOLS,
    ENVIRONMENT_TOOLS,
    GATEWAY_TOOLS,
    MODULES,
    NODE_TOOLS,
    TOOLS,
)
from tokenworks.toolchain.decide import State, ToolStatus
from tokenworks.toolchain.news import Phase, Progress, Report
from tokenworks.toolchain.progress import showing
from tokenworks.toolchain.toolbox import Toolbox, ensure, inspect, tools_folder

__all__ = [
    "BENCHMARK_TOOLS",
    "CLUSTER_TOOLS",
    "ENVIRONMENT_TOOLS",
    "GATEWAY_TOOLS",
    "MODULES",
    "NODE_TOOLS",
    "TOOLS",
    "Phase",
    "Progress",
    "Report",
    "State",
    "ToolStatus",
    "Toolbox",
    "ensure",
    "inspect",
    "showing",
    "tools_folder",
]
