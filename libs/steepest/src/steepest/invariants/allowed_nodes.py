"""Folds which nodes jobs may run on: the labels and taints of nodes, and the rules of jobs, of one replica or of several.

It owns Kubernetes' rules as the checkers understand them, and must never ask the view, which it is to check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from steepest.events import cluster as c
from steepest.events.common import (
    NAME_FIELD,
    LabelOperator,
    LabelRequirement,
    NodeRule,
    Taint,
    Toleration,
    TolerationOperator,
)

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT64 = range(-(2**63), 2**63)


class NodeTraits(msgspec.Struct, frozen=True):
    """What a node said of itself last; ``labels`` is None where it has not said them."""

    labels: Mapping[str, str] | None = None
    taints: tuple[Taint, ...] = ()


class AllowedNodes:
    """The newest traits of each node, and the rule of each job that has one."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeTraits] = {}
        self._rules: dict[str, NodeRule | None] = {}

    def feed(self, event: c.ClusterEvent) -> None:
        """Process an event."""
        match event:
            case c.NodeJoined():
                self._nodes[event.node] = NodeTraits(event.labels, event.taints)
            case c.NodeGone():
                self._nodes.pop(event.node, None)
            case c.JobSubmitted():
                self._rules.setdefault(event.job, event.spec.node_rule)
            case c.JobEnded():
                self._rules.pop(event.job, None)

    def refused(self, plan: c.PlacementPlanned | c.MigrationPlanned | c.TransitionPlanned) -> str | None:
        """The first node of a plan on which its job may not run; None where it may run on all of them.

        Where replicas of a gang are already, they may stay, also after a restart: such nodes are passed over.
        """
        match plan:
            case c.MigrationPlanned(target=target):
                nodes: Iterable[str] = (target,)
            case c.TransitionPlanned(nodes=targets, sources=sources):
                nodes = [node for node in targets if node not in sources]
            case c.PlacementPlanned(nodes=targets):
                nodes = targets
        rule = self._rules.get(plan.job)
        known = ((node, self._nodes[node]) for node in dict.fromkeys(nodes) if node in self._nodes)
        return next((node for node, traits in known if not _allows(rule or NodeRule(), node, traits)), None)


def _allows(rule: NodeRule, name: str, node: NodeTraits) -> bool:
    if not all(any(_tolerates(one, taint) for one in rule.tolerates) for taint in node.taints):
        return False
    if not rule.requires and not rule.any_of:
        return True
    if node.labels is None:
        return False
    labels = {**node.labels, NAME_FIELD: name}
    terms = [bool(term) and all(_holds(one, labels) for one in term) for term in rule.any_of]
    return all(_holds(one, labels) for one in rule.requires) and (not terms or any(terms))


def _tolerates(one: Toleration, taint: Taint) -> bool:
    if one.key and one.key != taint.key:
        return False
    if one.effect and one.effect != taint.effect:
        return False
    return one.operator is TolerationOperator.EXISTS or one.value == taint.value


def _holds(one: LabelRequirement, labels: Mapping[str, str]) -> bool:
    found = labels.get(one.key)
    match one.operator:
        case LabelOperator.EXISTS | LabelOperator.DOES_NOT_EXIST:
            return (found is not None) is (one.operator is LabelOperator.EXISTS)
        case LabelOperator.IN | LabelOperator.NOT_IN:
            return (found in one.values) is (one.operator is LabelOperator.IN)
        case LabelOperator.GT | LabelOperator.LT:
            return _is_beyond(found or "", one)


def _is_beyond(found: str, one: LabelRequirement) -> bool:
    number = _integer(found)
    bound = _integer(one.values[0]) if len(one.values) == 1 else None
    if number is None or bound is None:
        return False
    return number > bound if one.operator is LabelOperator.GT else number < bound


def _integer(text: str) -> int | None:
    if _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None
