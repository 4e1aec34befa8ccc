"""What the gate of a machine has found."""

from __future__ import annotations

import json

from tests.machines.machine import Machine

AT_BOOT = "/run/tokenworks/gate.json"
_GATE = "python3 -B /usr/local/lib/tokenworks/host_gate.py --expect /etc/tokenworks/gate.json"
_BY_HAND = "/run/gate-by-hand.json"


def findings(host: Machine, report_file: str = AT_BOOT) -> dict[str, str]:
    """Outcome of each check that was neither passed nor skipped, at the last boot."""
    report = json.loads(host.run(f"cat {report_file}"))
    outcomes = {check["name"]: check["outcome"] for check in report["checks"]}
    return {n: outcome for n, outcome in outcomes.items() if outcome not in ("passed", "skipped")}


def examined(host: Machine) -> dict[str, str]:
    """What the gate finds now, not at boot."""
    host.run(f"{_GATE} --output {_BY_HAND}", status=None)
    return findings(host, _BY_HAND)
