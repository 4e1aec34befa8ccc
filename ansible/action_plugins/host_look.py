"""One look at a host and what follows from it: ``tokenworks.hosts`` decides, on the controller.

With ``expect: plan`` the facts ``host_now``, ``host_changes``, ``host_texts`` and ``host_refused``
are set, and the task fails where something speaks against a run. With ``expect: lock`` it fails
where the host is not as locked; ``role`` asks only for what is one role's business. ``node`` is the
host's node as the API server has it, empty where it has none; its labels belong to both. With
``expect: idle`` it fails where something computes on the GPUs, in pods as well if ``pods`` says so.
The result's key ``tokenworks`` is what callers keep.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from pydantic import ValidationError

from tokenworks.errors import TokenworksError
from tokenworks.hosts.judged import Judged, node_labels_of, read_wanted
from tokenworks.hosts.preflight import gpu_work
from tokenworks.hosts.state import HostState


class ActionModule(ActionBase):
    """The action."""

    _VALID_ARGS = frozenset({"expect", "role", "node", "pods"})
    TRANSFERS_FILES = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the task's result."""
        super().run(tmp, task_vars)
        given = self._task.args
        variables = {
            name: self._templar.template((task_vars or {}).get(name))
            for name in ("host_lock", "host_settings", "host_keys", "host_kubeconfig")
        }
        try:
            wanted = read_wanted(variables)
            read = self._execute_module(
                module_name="host_state", module_args=wanted.question, task_vars=task_vars
            )
            if read.get("failed") or "state" not in read:
                return {**read, "failed": True}
            labels = node_labels_of(given.get("node") or {})
            state = HostState.model_validate(read["state"])
            judged = Judged(wanted=wanted, state=state, node_labels=labels)
            if given.get("expect") == "idle":
                return _idle(judged, pods=bool(given.get("pods")))
            if given.get("expect") == "plan":
                return _planned(judged, read["state"], drains=bool(variables["host_kubeconfig"]))
            return _verified(judged, given.get("role"))
        except (TokenworksError, ValidationError) as error:
            return {"failed": True, "msg": str(error)}


def _planned(judged: Judged, state: dict[str, Any], *, drains: bool) -> dict[str, Any]:
    refused = judged.refused(drains=drains)
    facts = {
        "host_now": state,
        "host_changes": judged.changes,
        "host_texts": judged.texts,
        "host_refused": refused,
    }
    messages = [message for listed in refused.values() for message in listed]
    kept = {"changes": judged.changes, "observed": judged.observed, "refused": messages}
    result = {"changed": False, "ansible_facts": facts, "tokenworks": kept}
    return {**result, "failed": True, "msg": "\n".join(messages)} if messages else result


def _idle(judged: Judged, *, pods: bool) -> dict[str, Any]:
    work = gpu_work(judged.state, pods=pods)
    if not work:
        return {"changed": False}
    message = (
        f"{', '.join(work)} still computes on the GPUs of the drained node, and this run would "
        "stop it. Nothing on the host was changed. Stop these processes, then run again; to give "
        "up, run: kubectl uncordon"
    )
    return {"changed": False, "failed": True, "msg": message}


def _verified(judged: Judged, role: str | None) -> dict[str, Any]:
    found = judged.found
    messages = [m for owner, listed in found.items() if role in (None, owner) for m in listed]
    result = {
        "changed": False,
        "tokenworks": {"observed": judged.observed, "differences": messages},
    }
    return {**result, "failed": True, "msg": "\n".join(messages)} if messages else result
