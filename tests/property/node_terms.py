"""What nodes say of themselves and what jobs say of nodes, drawn from so few words that they often concern each other."""

from __future__ import annotations

from hypothesis import strategies as st

from steepest.events import cluster as c
from steepest.events.common import (
    NAME_FIELD,
    LabelOperator,
    LabelRequirement,
    NodeRule,
    Resources,
    Taint,
    Toleration,
    TolerationOperator,
)
from steepest.view.state import Node

KEYS = st.sampled_from(["disk", "zone"])
VALUES = st.sampled_from(["", "a", "b", "2", "-7", "10"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute"])

LABELS = st.none() | st.dictionaries(KEYS, VALUES, max_size=2)
TAINTS = st.lists(st.builds(Taint, key=KEYS, value=VALUES, effect=EFFECTS), max_size=2).map(tuple)

TOLERATIONS = st.builds(
    Toleration,
    key=KEYS | st.just(""),
    operator=st.sampled_from(TolerationOperator),
    value=VALUES,
    effect=EFFECTS | st.just(""),
)
REQUIREMENTS = st.builds(
    LabelRequirement,
    key=KEYS | st.just(NAME_FIELD),
    operator=st.sampled_from(LabelOperator),
    values=st.lists(VALUES | st.sampled_from(["w1", "w2", "9" * 19, "x1"]), max_size=2).map(tuple),
)
RULES = st.none() | st.builds(
    NodeRule,
    requires=st.lists(REQUIREMENTS, max_size=1).map(tuple),
    any_of=st.lists(st.lists(REQUIREMENTS, max_size=2).map(tuple), max_size=2).map(tuple),
    tolerates=st.lists(TOLERATIONS, max_size=2).map(tuple),
)


def said(node: Node | None, name: str, labels: dict[str, str] | None, taints: tuple[Taint, ...]) -> c.NodeJoined:
    """A node says this of itself; all else is as it was."""
    capacity = Resources(cpu_m=1_000) if node is None else node.capacity
    return c.NodeJoined(node=name, capacity=capacity, labels=labels, taints=taints)
