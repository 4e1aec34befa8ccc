"""The simulated cluster of an environment: a real control plane on loopback, simulated machines.

``LocalCluster`` creates, starts, stops and deletes it; kwokctl runs the processes, and stages in
``templates/kwok/`` say what the simulated nodes, pods, load balancers and volumes do.
"""

from tokenworks.local_cluster.cluster import (
    ClusterStatus,
    ComponentStatus,
    LocalCluster,
    Started,
    State,
)

__all__ = ["ClusterStatus", "ComponentStatus", "LocalCluster", "Started", "State"]
