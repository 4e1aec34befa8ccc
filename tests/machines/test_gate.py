"""The gate on a machine whose driver is bad: what it finds, and that it keeps the node out.

Every test has a machine of its own that goes on from where the first run ended.
"""

from __future__ import annotations

import pytest

from tests.machines.debs import OLD
from tests.machines.findings import examined, findings
from tests.machines.machine import Machine
from tests.machines.site import Site
from tokenworks.hosts.outcome import Outcome

pytestmark = [pytest.mark.machine, pytest.mark.xdist_group("machines")]

FAULT = "/etc/modprobe.d/fault.conf"


def test_the_gate_finds_each_fault_of_the_driver(host: Machine) -> None:
    host.run("systemctl stop nvidia-persistenced")
    faults = {
        "load": {"gpus": "broke", "driver": "failed"},
        "version": {"gpus": "broke", "driver": "failed"},
        "xid": {"xid": "failed"},
    }
    for fault, found in faults.items():
        host.run("rmmod nvidia-uvm nvidia", status=None)
        host.run(f"modprobe nvidia fault={fault}", status=None)
        assert found.items() <= examined(host).items(), fault


def test_a_driver_that_is_not_the_locked_one_after_boot_keeps_the_node_out(
    site: Site, host: Machine
) -> None:
    host.write(FAULT, "options nvidia fault=version\n")
    host.reboot()
    assert host.driver == "1.2.3"
    assert host.unit("tokenworks-gate") == "failed"
    assert host.unit("kubelet") == "inactive"
    assert findings(host)["driver"] == "failed"
    found = site.check(host, OLD)
    assert f"driver 1.2.3 is loaded, locked is {OLD}" in found.changes

    host.run(f"rm {FAULT}")
    report = site.prepare(host, OLD)
    assert report.outcome is Outcome.CHANGED, report
    assert host.driver == OLD
    assert host.unit("kubelet") == "active"
