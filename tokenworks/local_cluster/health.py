"""Whether a cluster is well: each component is asked, as a kubelet's probe would ask it."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import Final

from tokenworks.local_cluster.layout import COMPONENTS, Component, Layout

ANSWER_SECONDS: Final = 2.0
"""A component on loopback that needs longer hangs."""
FIRST_ACCOUNT: Final = "/api/v1/namespaces/default/serviceaccounts/default"
"""What the controller manager makes first; without it no pod can be created."""


def unwell(layout: Layout, component: Component, ports: Mapping[str, int]) -> str:
    """Why a component is not well, or nothing when it is.

    Examples: ``does not listen on port 20002``, ``answers 500 on /readyz``.
    """
    return _ask(layout, component, ports[component.port], component.health)


def not_ready(layout: Layout, ports: Mapping[str, int]) -> str:
    """The first reason why the cluster is not ready for work, or nothing when it is."""
    for component in COMPONENTS:
        reason = unwell(layout, component, ports)
        if reason:
            return f"{component.name} {reason}"
    server = next(each for each in COMPONENTS if each.name == "kube-apiserver")
    if _ask(layout, server, ports[server.port], FIRST_ACCOUNT):
        return "kube-controller-manager has made no service account yet"
    return ""


def _ask(layout: Layout, component: Component, port: int, path: str) -> str:
    try:
        connection = _connect(layout, component, port)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
        finally:
            connection.close()
    except ConnectionRefusedError:
        return f"does not listen on port {port}"
    except (OSError, http.client.HTTPException) as error:
        return f"does not answer on port {port}: {error or type(error).__name__}"
    return "" if answer.status == http.client.OK else f"answers {answer.status} on {path}"


def _connect(layout: Layout, component: Component, port: int) -> http.client.HTTPConnection:
    if component.scheme == "http":
        return http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    return http.client.HTTPSConnection(
        "127.0.0.1", port, timeout=ANSWER_SECONDS, context=_trust(layout, component)
    )


def _trust(layout: Layout, component: Component) -> ssl.SSLContext:
    if component.signed:
        trust = ssl.create_default_context(cafile=layout.pki / "ca.crt")
        trust.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
        return trust
    # Its certificate exists in its memory alone: there is nothing to check it against. Nothing is
    # sent to it but the question whether it is well.
    trust = ssl.create_default_context()
    trust.check_hostname = False
    trust.verify_mode = ssl.CERT_NONE
    return trust
