"""The gate's checks on a host, read as data: bad GPUs are not a check that could not be made."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from tokenworks.errors import UndecidableError
from tokenworks.hosts.checks import Check, judge, read_report


class ActionModule(ActionBase):
    """The action; ``command`` is the gate as it is called on the host."""

    _VALID_ARGS = frozenset({"command"})
    TRANSFERS_FILES = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the task's result."""
        super().run(tmp, task_vars)
        done = self._execute_module(
            module_name="ansible.legacy.command",
            module_args={"argv": self._task.args["command"]},
            task_vars=task_vars,
        )
        try:
            report = read_report(str(done.get("stdout", "")))
        except UndecidableError as error:
            said = done.get("stderr") or done.get("msg", "")
            return {"failed": True, "changed": False, "msg": f"{error}: {said}"}
        verdict = judge(report)
        kept = {
            "exit_status": verdict.exit_status,
            "checks": [c.model_dump(mode="json") for c in report.checks],
        }
        result = {"changed": False, "tokenworks": {"proof": kept}}
        if verdict.exit_status == 0:
            return result
        return {**result, "failed": True, "msg": _words(verdict.failed, verdict.broke)}


def _words(failed: tuple[Check, ...], broke: tuple[Check, ...]) -> str:
    bad = [
        f"{c.group}/{c.name} failed: {c.measured}, expected {c.expected}; {c.message}"
        for c in failed
    ]
    unknown = [f"{c.group}/{c.name} could not be told: {c.message}" for c in broke]
    return "\n".join(["The GPUs are not proven, and the node stays out.", *bad, *unknown])
