"""From a node pool to what Ansible is told: hosts, variables, and the way to them. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenworks.hosts.lock import HostLock
from tokenworks.hosts.settings import HostSettings
from tokenworks.hosts.sources import sources_digest

INTERPRETER: Final = "/usr/bin/python3"
"""Named for every host: discovery may pick a shim that does not run without a login shell."""
PATIENCE_SECONDS: Final = 20
SESSION_MANAGER_PLUGIN: Final = "amazon.aws.aws_ssm"
"""Ansible's connection of the collection in ``ansible/requirements.yml``."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """One machine: its node's name, where SSH answers, the way there, what fails with it."""

    name: str
    address: str
    failure_domain: str
    jump_host: str | None = None


@dataclass(frozen=True, kw_only=True)
class SessionManager:
    """AWS's own way to a machine without any open port: by its id, through a bucket for files."""

    region: str
    bucket: str
    key_alias: str


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who logs in, which host keys are right, and which key is shown; None means ssh-agent's.

    ``known_hosts`` is the text of such a file and not its place, which differs between checkouts.
    With ``session_manager`` addresses are ids of instances, and nothing of SSH is used.
    """

    user: str
    known_hosts: str
    key_file: str | None = None
    session_manager: SessionManager | None = None


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Hosts that are to be alike, and what they are to have; ``keys`` is text by file name."""

    name: str
    hosts: tuple[Host, ...]
    access: Access
    lock: HostLock
    settings: HostSettings
    keys: Mapping[str, str]
    kubeconfig: str

    @property
    def failure_domains(self) -> tuple[tuple[Host, ...], ...]:
        """Hosts by failure domain, in the order in which the domains are first named."""
        domains: dict[str, list[Host]] = {}
        for host in self.hosts:
            domains.setdefault(host.failure_domain, []).append(host)
        return tuple(tuple(hosts) for hosts in domains.values())

    @property
    def prepare_timeout_seconds(self) -> int:
        """How long a run that changes may take: its failure domains come one after the other."""
        return self.settings.turn_timeout_seconds * len(self.failure_domains)


def inventory(pool: Pool, hosts: Sequence[Host]) -> dict[str, Any]:
    """Return Ansible's inventory of some hosts of a pool, as data; there is no secret in it."""
    return {
        "all": {
            "hosts": {
                host.name: {
                    "ansible_host": host.address,
                    "host_failure_domain": host.failure_domain,
                }
                for host in hosts
            },
            "vars": {
                **_way(pool.access),
                "ansible_python_interpreter": INTERPRETER,
                "host_pool": pool.name,
                "host_lock": pool.lock.model_dump(mode="json"),
                "host_settings": pool.settings.model_dump(mode="json"),
                "host_keys": dict(sorted(pool.keys.items())),
                "host_kubeconfig": pool.kubeconfig,
                **role_variables(pool.settings),
            },
        }
    }


def role_variables(settings: HostSettings) -> dict[str, Any]:
    """Return the variables of roles that are settings of hosts, by their names in the roles."""
    return {
        "base_lock_timeout_seconds": settings.package_lock_timeout_seconds,
        "gpu_driver_reboot_timeout_seconds": settings.reboot_timeout_seconds,
        "storage_client_modules": list(settings.storage_modules),
    }


def _way(access: Access) -> dict[str, Any]:
    """How Ansible gets to the hosts, and whether it has to become root there."""
    manager = access.session_manager
    if manager is None:
        return {"ansible_user": access.user, "ansible_become": access.user != "root"}
    return {
        "ansible_connection": SESSION_MANAGER_PLUGIN,
        "ansible_become": True,  # sessions are of ssm-user, whatever is asked for
        "ansible_aws_ssm_region": manager.region,
        "ansible_aws_ssm_bucket_name": manager.bucket,
        "ansible_aws_ssm_bucket_sse_mode": "aws:kms",
        "ansible_aws_ssm_bucket_sse_kms_key_id": manager.key_alias,
        # Presigned addresses of other styles lead to another region (community.aws#1190).
        "ansible_aws_ssm_s3_addressing_style": "virtual",
        "ansible_aws_ssm_timeout": PATIENCE_SECONDS * 15,
    }


def ssh_config(access: Access, hosts: Sequence[Host], known_hosts: Path) -> str:
    """Return OpenSSH's configuration for one run; ``known_hosts`` is where their keys were written.

    It is a file, since ssh hands ``-F`` on to the connection to a jump host, and no other option:
    the jump host's key is checked as well.
    """
    lines = []
    for host in hosts:
        if host.jump_host is not None:
            lines += [f"Host {host.address}", f"  ProxyJump {host.jump_host}"]
    lines += [
        "Host *",
        "  BatchMode yes",
        "  StrictHostKeyChecking yes",
        f'  UserKnownHostsFile "{known_hosts}"',
        "  GlobalKnownHostsFile none",
        f"  ConnectTimeout {PATIENCE_SECONDS}",
        "  ServerAliveInterval 10",
        "  ServerAliveCountMax 6",
    ]
    if access.key_file is not None:
        lines += [f'  IdentityFile "{access.key_file}"', "  IdentitiesOnly yes"]
    return "\n".join(lines) + "\n"


def digest(pool: Pool, checkout: Path) -> str:
    """Return a digest of everything that decides what a run does, wherever the checkout lies.

    That is code, playbooks and templates, lock, settings and keys, the hosts and the way to them.
    """
    told = inventory(pool, pool.hosts)
    way = ssh_config(pool.access, pool.hosts, Path("known_hosts"))
    parts = (
        sources_digest(checkout),
        json.dumps(told, sort_keys=True),
        way,
        pool.access.known_hosts,
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
