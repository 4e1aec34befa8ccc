"""A real node on this machine, in namespaces of its own: its containers run, simulated ones do not.

``LocalNode`` starts, joins and removes it, ``preflight`` says whether the machine can carry one,
``debian`` makes its root file system, and ``templates/node/`` has what runs inside.
"""

from tokenworks.local_node.machine import Machine, Ports
from tokenworks.local_node.node import LocalNode, Parts

__all__ = ["LocalNode", "Machine", "Parts", "Ports"]
