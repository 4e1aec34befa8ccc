"""What kwokctl and kubectl are told about a cluster: text from templates and plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tokenworks.local_cluster.layout import Layout

TEMPLATES: Final = Path(__file__).resolve().parents[2] / "templates" / "kwok"
PROGRAMS: Final = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
)
"""The tools that the settings name; kwokctl itself reads them."""


def settings(
    layout: Layout,
    ports: Mapping[str, int],
    programs: Mapping[str, Path],
    api_server_arguments: Mapping[str, str],
) -> str:
    """The file that kwokctl creates the cluster from: the control plane, and what is simulated."""
    # It writes YAML and JSON, no page: there is nothing to escape but what `tojson` does.
    templates = Environment(  # noqa: S701
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    cluster = templates.get_template("cluster.yaml.j2").render(
        ports=ports,
        programs={name: str(path) for name, path in programs.items()},
        pki=str(layout.pki),
        api_server_arguments=api_server_arguments,
    )
    return f"{cluster}---\n{(TEMPLATES / 'stages.yaml').read_text()}"


def egress(proxy: Path) -> str:
    """How the API server reaches kubelets and pods: through a socket that somebody else serves.

    The format is ``EgressSelectorConfiguration`` of k8s.io/apiserver v0.35, pkg/apis/apiserver.
    """
    connection = {
        "proxyProtocol": "HTTPConnect",
        "transport": {"uds": {"udsName": str(proxy)}},
    }
    content = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }
    return f"{json.dumps(content, indent=2)}\n"


def kubeconfig(layout: Layout, port: int) -> str:
    """A kubeconfig for the cluster's administrator.

    It names the files of the key and certificates instead of holding them: no key gets into a
    Pulumi state that way.
    """
    name = layout.name
    user = {
        "client-certificate": str(layout.pki / "admin.crt"),
        "client-key": str(layout.pki / "admin.key"),
    }
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority": str(layout.pki / "ca.crt"),
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
    }
    return f"{json.dumps(content, indent=2)}\n"
