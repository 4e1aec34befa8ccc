"""Label selectors: what they may select, and what they certainly do.

A value that is not known narrows nothing: a selector may match whatever its known part matches,
and certainly matches only what nothing unknown can take away.
"""

from __future__ import annotations

from dataclasses import dataclass

from policy.resources import UNKNOWN, Value, elements, is_body, peek


@dataclass(frozen=True)
class Requirement:
    """One condition on a label: key, operator (In, NotIn, Exists, DoesNotExist) and values."""

    key: str
    operator: str
    values: tuple[Value, ...] = ()

    def may_hold(self, label: Value) -> bool:
        """Return whether a label's value, None where absent, can satisfy the condition."""
        unknown = label is UNKNOWN or UNKNOWN in self.values
        return unknown or self._holds(label)

    def must_hold(self, label: Value) -> bool:
        """Return whether a label's value satisfies the condition, whatever is not known."""
        return label is not UNKNOWN and UNKNOWN not in self.values and self._holds(label)

    @property
    def is_narrow(self) -> bool:
        """Return whether the condition names the values that it admits."""
        return self.operator == "In"

    def _holds(self, label: Value) -> bool:
        if self.operator == "In":
            return label is not None and label in self.values
        if self.operator == "NotIn":
            return label is None or label not in self.values
        return (label is not None) is (self.operator == "Exists")


Requirements = tuple[Requirement, ...]


def of_labels(labels: Value) -> Requirements:
    """Return the conditions of a plain map, as a Service's selector and ``matchLabels`` are."""
    if not is_body(labels):
        return ()
    return tuple(Requirement(key, "In", (value,)) for key, value in labels.items())


def of_selector(selector: Value) -> Requirements:
    """Return the conditions of a LabelSelector; an empty one has none and selects everything."""
    expressions = tuple(
        Requirement(
            key=str(peek(expression, "key")),
            operator=str(peek(expression, "operator")),
            values=_values(peek(expression, "values")),
        )
        for _, expression in elements(peek(selector, "matchExpressions"))
        if is_body(expression)
    )
    return of_labels(peek(selector, "matchLabels")) + expressions


def may_match(requirements: Requirements, labels: Value) -> bool:
    """Return whether labels can satisfy every condition."""
    return labels is UNKNOWN or all(one.may_hold(_label(labels, one.key)) for one in requirements)


def must_match(requirements: Requirements, labels: Value) -> bool:
    """Return whether labels satisfy every condition, whatever is not known."""
    if labels is UNKNOWN:
        return not requirements
    return all(one.must_hold(_label(labels, one.key)) for one in requirements)


def named_values(requirements: Requirements) -> tuple[tuple[str, str], ...]:
    """Return key and value of everything that the conditions name as admitted."""
    return tuple(
        (one.key, value)
        for one in requirements
        if one.is_narrow
        for value in one.values
        if isinstance(value, str)
    )


def _values(values: Value) -> tuple[Value, ...]:
    return (UNKNOWN,) if values is UNKNOWN else tuple(value for _, value in elements(values))


def _label(labels: Value, key: str) -> Value:
    return labels.get(key) if is_body(labels) else None
