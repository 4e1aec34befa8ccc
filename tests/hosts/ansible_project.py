"""Small Ansible projects and pools whose hosts are this machine, for tests of what runs them."""

from __future__ import annotations

from pathlib import Path

from tests.hosts import samples
from tokenworks.hosts.inventory import Access, Host, Pool
from tokenworks.hosts.settings import HostSettings

CONFIG = "[defaults]\ntransport = local\nlocalhost_warning = False\nlibrary = library\n"
REPORT = """\
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule(argument_spec={"tokenworks": {"type": "dict"}})
module.exit_json(changed=False, tokenworks=module.params["tokenworks"])
"""


def project(folder: Path, **playbooks: str) -> Path:
    """A project with a playbook of one play for each name; each text is the play's tasks."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ansible.cfg").write_text(CONFIG)
    (folder / "library").mkdir(exist_ok=True)
    (folder / "library" / "report.py").write_text(REPORT)
    for name, text in playbooks.items():
        head = (
            "" if text.startswith("- hosts") else "- hosts: all\n  gather_facts: false\n  tasks:\n"
        )
        (folder / f"{name}.yml").write_text(head + text)
    return folder


def pool(folder: Path, *names: str, gpus: int = 8) -> Pool:
    """A pool of hosts, each with a failure domain of its own."""
    hosts = tuple(Host(name=name, address="127.0.0.1", failure_domain=name) for name in names)
    return Pool(
        name="h100",
        hosts=hosts,
        access=Access(user="root", known_hosts=""),
        lock=samples.lock(),
        settings=HostSettings(expected_gpus=gpus),
        keys={},
        kubeconfig="",
    )
