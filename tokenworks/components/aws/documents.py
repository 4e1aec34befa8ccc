"""Policy documents and texts of the plan, with what is known only after deployment filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import pulumi

from tokenworks.errors import OperationError

# IAM's own variables have a colon in them, ``${aws:PrincipalTag/team}``, and are left alone.
_LATE: Final = re.compile(r"\$\{([a-z][a-z0-9_]*)\}")

Late = Mapping[str, pulumi.Input[str]]
"""Values by the name under which the plan's documents ask for them."""


def document(body: Mapping[str, Any], late: Late | None = None) -> pulumi.Input[str]:
    """The document as JSON; one text for one meaning, so that nothing differs without a reason.

    Raises:
        OperationError: the document asks for a value that is not among ``late``.
    """
    return filled(json.dumps(body, sort_keys=True, separators=(",", ":")), late)


def filled(text: str, late: Late | None = None) -> pulumi.Input[str]:
    """The text with each ``${name}`` replaced; what asks for nothing is known at preview.

    Raises:
        OperationError: the text asks for a value that is not among ``late``.
    """
    asked, given = sorted(set(_LATE.findall(text))), late or {}
    if missing := [name for name in asked if name not in given]:
        raise OperationError(
            f"${{{missing[0]}}} in a document of the plan",
            reason=f"is none of the values known here: {', '.join(sorted(given)) or 'none'}",
            remedy="correct the document in tokenworks/plan/aws",
        )
    if not asked:
        return text
    values = pulumi.Output.all(**{name: given[name] for name in asked})
    return values.apply(lambda known: _LATE.sub(lambda match: str(known[match[1]]), text))
