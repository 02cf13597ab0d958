"""Which nodes a user's pod template allows, as a rule of its job.

It owns the reading of tolerations, node selectors and required node affinity. An object is a user's word: what cannot be
read, or is longer than a job may say, is refused, and concerns that object alone. Preferences do not count, because Steepest
chooses among the nodes that are allowed; what pods say of each other (``podAffinity``, ``topologySpreadConstraints``) is the
scheduler's alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from steepest.cluster.kubernetes.objects import ObjectPart
from steepest.errors import InputError
from steepest.events.common import (
    NAME_FIELD,
    LabelOperator,
    LabelRequirement,
    NodeRule,
    Toleration,
    TolerationOperator,
)

RULE_BYTES_MOST = 16_384
"""The most that a rule may have: each of its job's records, and the state of every reader, hold it."""

PARTS_MOST = 1_000
"""Tolerations, terms and requirements together, also those that say the same."""

_TOO_LONG = "its tolerations, node selector and node affinity are too long"
_NAME = "metadata.name"
_HINT = "leave what it needs: at most 1,000 parts and 16 KiB in all"


class _Toleration(ObjectPart, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class _Expression(ObjectPart, frozen=True):
    key: str
    operator: LabelOperator
    values: tuple[str, ...] = ()


class _Term(ObjectPart, frozen=True):
    match_expressions: tuple[_Expression, ...] | None = None
    match_fields: tuple[_Expression, ...] | None = None

    @property
    def parts(self) -> tuple[_Expression, ...]:
        """All of its expressions."""
        return (*(self.match_expressions or ()), *(self.match_fields or ()))


class _Terms(ObjectPart, frozen=True):
    node_selector_terms: tuple[_Term, ...] = ()


class _NodeAffinity(ObjectPart, frozen=True):
    required_during_scheduling_ignored_during_execution: _Terms | None = None


class _Affinity(ObjectPart, frozen=True):
    node_affinity: _NodeAffinity | None = None


class NodeChoice(ObjectPart, frozen=True):
    """The parts of a pod's spec that say where it may run, as they were found: nothing of them is checked yet."""

    tolerations: Any = None
    node_selector: Any = None
    affinity: Any = None


def node_rule(pod: NodeChoice) -> NodeRule | None:
    """Which nodes a pod allows; None: all without taints.

    Raises:
        InputError: It cannot be read, or is longer than :data:`RULE_BYTES_MOST`; the message says so to its user.
    """
    selector: dict[str, str] = _read("nodeSelector", pod.node_selector, dict[str, str]) or {}
    affinity: _Affinity = _read("affinity", pod.affinity, _Affinity) or _Affinity()
    tolerations: tuple[_Toleration, ...] = _read("tolerations", pod.tolerations, tuple[_Toleration, ...]) or ()
    required = (affinity.node_affinity or _NodeAffinity()).required_during_scheduling_ignored_during_execution
    terms = (required or _Terms()).node_selector_terms
    parts = len(selector) + len(tolerations) + sum(1 + len(term.parts) for term in terms)
    if parts > PARTS_MOST:  # before anything is made of them: a Job is looked at again with each change of another
        raise InputError(_TOO_LONG, hint=_HINT)
    rule = NodeRule(
        requires=tuple(
            LabelRequirement(key=key, operator=LabelOperator.IN, values=(value,))
            for key, value in sorted(selector.items())
        ),
        any_of=_distinct(tuple(_requirements(term)) for term in terms),
        tolerates=_distinct(_tolerated(tolerations)),
    )
    if len(msgspec.json.encode(rule)) > RULE_BYTES_MOST:
        raise InputError(_TOO_LONG, hint=_HINT)
    return None if rule == NodeRule() else rule


def common_rule(rules: Sequence[NodeRule | None]) -> NodeRule | None:
    """The rule of a job, which holds for each of its pods, from those of their templates.

    Raises:
        InputError: They say different things; in another order they say the same.
    """
    if len({None if rule is None else _meaning(rule) for rule in rules}) > 1:
        raise InputError(
            "its pods' templates differ in the nodes that they may run on, and all of its pods are placed by one rule",
            hint="give all of them the same nodeSelector, required node affinity and tolerations",
        )
    return rules[0]


def _meaning(rule: NodeRule) -> Hashable:
    return (
        frozenset(rule.requires),
        frozenset(map(frozenset, rule.any_of)),
        frozenset(rule.tolerates),
    )


def _read(field: str, found: Any, kind: Any) -> Any:
    if found is None:
        return None
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"its {field} cannot be read: {error}"[:500], hint="correct the field") from error


_T = TypeVar("_T")


def _distinct(found: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(found))


def _tolerated(found: Sequence[_Toleration]) -> Iterator[Toleration]:
    """The tolerations that can be understood: one with a future operator tolerates nothing here."""
    operators = {each.value: each for each in TolerationOperator} | {"": TolerationOperator.EQUAL}
    for one in found:
        if one.operator in operators:
            yield Toleration(key=one.key, operator=operators[one.operator], value=one.value, effect=one.effect)


def _requirements(term: _Term) -> Iterator[LabelRequirement]:
    for one in term.match_expressions or ():
        yield LabelRequirement(key=one.key, operator=one.operator, values=one.values)
    for one in term.match_fields or ():
        if one.key != _NAME:
            raise InputError(f"its node affinity names the field {one.key[:50]!r}", hint=f"only {_NAME} is a field")
        yield LabelRequirement(key=NAME_FIELD, operator=one.operator, values=one.values)
