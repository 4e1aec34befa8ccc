"""Each task's result as a line of JSON, and failures as text."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: as_json
type: stdout
short_description: Write each result as a line of JSON to $TESTS_RESULTS
description:
  - For tests.
"""


class CallbackModule(CallbackBase):
    """The callback."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "as_json"

    def _write(self, result: Any, **more: Any) -> None:
        returned = result._return_data if hasattr(result, "_return_data") else result._result
        row = {
            "host": result._host.get_name(),
            "task": result._task.get_name(),
            "result": {**returned, **more},
        }
        with open(os.environ["TESTS_RESULTS"], "a") as file:
            file.write(json.dumps(row, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task went well."""
        self._write(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A task failed."""
        self._write(result, failed=True)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """A host did not answer."""
        self._write(result, failed=True)
