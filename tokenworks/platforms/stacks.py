"""What other programs of an environment exported, each asked once in a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi

from tokenworks.workspace import PROJECT, stack_name


@dataclass(frozen=True)
class Stacks:
    """References to the stacks of one environment."""

    environment: str
    _made: dict[str, pulumi.StackReference] = field(default_factory=dict)

    def name(self, program: str) -> str:
        """The full name of a program's stack."""
        return f"organization/{PROJECT}/{stack_name(self.environment, program)}"

    def of(self, program: str) -> pulumi.StackReference:
        """The outputs of a program."""
        if program not in self._made:
            self._made[program] = pulumi.StackReference(self.name(program))
        return self._made[program]
