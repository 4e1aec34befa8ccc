#!/usr/bin/python
"""Everything about a GPU host in one round trip: an Ansible module, and a library for the gate."""

import os
import re

try:
    from ansible.module_utils.basic import AnsibleModule

    from ansible.module_utils import host_base, host_gpu
except ImportError:  # as a library, on the host itself, the readers lie beside it
    import host_base
    import host_gpu

DOCUMENTATION = """
module: host_state
short_description: Read everything about a GPU host in one round trip
description:
  - Returns what tokenworks.hosts.state.HostState describes. Changes nothing.
options:
  files:
    description: Paths whose SHA-256 sums are wanted.
    type: list
    elements: str
    default: []
  packages:
    description: Packages for which apt is asked which version it would install.
    type: list
    elements: str
    default: []
author:
  - tokenworks
"""

EXAMPLES = """
- name: Read the host
  host_state:
    files: [/etc/apt/preferences.d/00-tokenworks]
  register: host
"""

RETURN = """
state:
  description: The fields of HostState.
  returned: always
  type: dict
"""


def read(host, files=(), packages=()):
    """Return the fields of HostState."""
    present, half, held = host_base.dpkg(host, set(packages))
    modules = host.text("proc/modules") or ""
    users = host_gpu.gpu_users(host)
    return {
        "os": host_base.operating_system(host),
        "architecture": host_base.architecture(),
        "running_kernel": host.word("proc/sys/kernel/osrelease"),
        "boot_kernel": host_base.boot_kernel(host),
        "installed_kernels": host_base.kernels(host),
        "stale_initramfs": host_base.stale_initramfs(host),
        "kernel_compiler": host_base.compiler(host),
        "packages": present,
        "half_installed": half,
        "held": held,
        "apt_sources": host_base.apt_sources(host),
        "candidates": host_base.candidates(host, packages),
        "upgrade_blacklist": host_base.upgrade_blacklist(host),
        "automatic_updates": host_base.automatic_updates(host),
        "package_manager_busy": host_base.lock_holder(host),
        "files": {path: host_base.digest(host, path) for path in files},
        "owed": host_base.owed(host),
        "loaded_driver": host_gpu.loaded_driver(host),
        "loaded_modules": host_gpu.loaded_modules(host),
        "nouveau_loaded": bool(re.search(r"^(nouveau|nova_core|nova_drm) ", modules, re.MULTILINE)),
        "module_versions": host_gpu.module_versions(host),
        "dkms": host_gpu.dkms(host),
        "libraries": host_gpu.libraries(host),
        "gpus": len(host_gpu.pci(host, "0x03")),
        "gpu_ids": sorted(set(host_gpu.pci(host, "0x03").values())),
        "nvswitches": len(host_gpu.pci(host, "0x0680")),
        "secure_boot": host_base.secure_boot(host),
        "module_key_enrolled": host_base.module_key_enrolled(host),
        "reboot_required": os.path.exists(host.path("run/reboot-required")),
        "gpu_users": users,
        "gpu_users_in_pods": host_gpu.in_pods(host, users),
        "device_nodes": host.names("dev/nvidia*"),
        "services": host_gpu.units(host, "ActiveState"),
        "enabled": host_gpu.enabled(host),
        "containerd": host_gpu.containerd(host),
        "cdi_specs": host_gpu.cdi_specs(host),
        "gate": host_base.gate(host),
    }


def main():
    """Answer Ansible."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "str", "default": []},
            "packages": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    state = read(host_base.Host(), module.params["files"], module.params["packages"])
    module.exit_json(changed=False, state=state)


if __name__ == "__main__":
    main()
