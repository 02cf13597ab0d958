"""Taints keep jobs away that do not tolerate them, and labels are as a job requires: Kubernetes' rules, in the view."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import FoldedPool, migration, placement, submitted, transition
from tests.property.node_terms import LABELS, REQUIREMENTS, RULES, TAINTS, said

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
from steepest.events.requests import Role
from steepest.view.places.node_rules import holds, is_allowed, why_not_allowed
from steepest.view.state import Node
from steepest.view.validity import NoRoom

GPU = Taint(key="gpu", value="yes", effect="NoSchedule")
TOLERATES = NodeRule(tolerates=(Toleration(key="gpu", operator=TolerationOperator.EXISTS),))
IN_ZONE_A = NodeRule(
    requires=(LabelRequirement(key="zone", operator=LabelOperator.IN, values=("a",)),), tolerates=TOLERATES.tolerates
)


def requirement(key: str, operator: str, *values: str) -> LabelRequirement:
    """One expression of a node affinity."""
    return LabelRequirement(key=key, operator=LabelOperator(operator), values=values)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", value="yes", effect="NoSchedule"), True),
        (Toleration(key="gpu", value="yes", effect="NoExecute"), False),
        (Toleration(key="gpu", value="no"), False),
        (Toleration(key="gpu"), False),
        (Toleration(key="gpu", operator=TolerationOperator.EXISTS), True),
        (Toleration(operator=TolerationOperator.EXISTS), True),
        (Toleration(key="other", operator=TolerationOperator.EXISTS), False),
    ],
)
def test_a_taint_is_tolerated_as_kubernetes_has_it(toleration: Toleration, tolerated: bool) -> None:  # noqa: FBT001
    """Key and effect of the toleration are the taint's or empty, and the values are equal unless any will do."""
    node = Node(name="w1", capacity=Resources(1), taints=(GPU,))
    assert is_allowed(NodeRule(tolerates=(toleration,)), node) is tolerated
    assert bool(why_not_allowed(NodeRule(tolerates=(toleration,)), node)) is not tolerated


@pytest.mark.parametrize(
    ("required", "labels", "found"),
    [
        (requirement("zone", "In", "a", "b"), {"zone": "b"}, True),
        (requirement("zone", "In", "a"), {"zone": "b"}, False),
        (requirement("zone", "In", "a"), {}, False),
        (requirement("zone", "NotIn", "a"), {"zone": "a"}, False),
        (requirement("zone", "NotIn", "a"), {}, True),
        (requirement("zone", "Exists"), {"zone": ""}, True),
        (requirement("zone", "Exists"), {}, False),
        (requirement("zone", "DoesNotExist"), {}, True),
        (requirement("zone", "DoesNotExist"), {"zone": "a"}, False),
        (requirement("cores", "Gt", "8"), {"cores": "16"}, True),
        (requirement("cores", "Gt", "8"), {"cores": "8"}, False),
        (requirement("cores", "Lt", "8"), {"cores": "-1"}, True),
        (requirement("cores", "Lt", "8"), {"cores": "few"}, False),
        (requirement("cores", "Gt", "few"), {"cores": "16"}, False),
        (requirement("cores", "Gt", "8"), {"cores": str(2**63)}, False),
        (requirement("cores", "Gt"), {"cores": "16"}, False),
        (requirement("cores", "Gt", "8"), {}, False),
        (requirement("cores", "Gt", "8"), {"cores": "1_6"}, False),
        (requirement("cores", "Gt", "8"), {"cores": "٩"}, False),
        (requirement(NAME_FIELD, "In", "w1"), {}, True),
        (requirement(NAME_FIELD, "NotIn", "w1"), {"metadata.name": "w2"}, False),
    ],
)
def test_a_label_is_compared_as_kubernetes_has_it(
    required: LabelRequirement,
    labels: dict[str, str],
    found: bool,  # noqa: FBT001
) -> None:
    """By each operator, also where there is no such label, or no number."""
    assert holds(required, "w1", labels) is found


def test_any_of_the_terms_is_enough_and_an_empty_one_holds_nowhere() -> None:
    """As for nodeSelectorTerms; the requirements beside them hold as well."""
    node = Node(name="w1", capacity=Resources(1), labels={"zone": "a"})
    in_a, in_b = requirement("zone", "In", "a"), requirement("zone", "In", "b")
    assert is_allowed(NodeRule(any_of=((in_b,), (in_a,))), node)
    assert not is_allowed(NodeRule(any_of=((in_b,), (in_a, in_b))), node)
    assert not is_allowed(NodeRule(any_of=((),)), node)
    assert not is_allowed(NodeRule(requires=(in_b,), any_of=((in_a,),)), node)


def test_labels_that_are_not_known_hold_nothing() -> None:
    """A rule that a label is absent does not hold either, until the node has reported its labels."""
    node = Node(name="w1", capacity=Resources(1))
    absent = NodeRule(requires=(requirement("zone", "DoesNotExist"),))
    assert not is_allowed(absent, node)
    assert "not known yet" in why_not_allowed(absent, node)
    assert is_allowed(TOLERATES, node)


@given(RULES, LABELS, TAINTS)
def test_there_is_a_reason_exactly_where_a_node_is_not_allowed(
    rule: NodeRule | None, labels: dict[str, str] | None, taints: tuple[Taint, ...]
) -> None:
    """For any rule and any node."""
    node = Node(name="w1", capacity=Resources(1), labels=labels, taints=taints)
    assert is_allowed(rule, node) is (why_not_allowed(rule, node) == "")


OPPOSITES = {
    LabelOperator.IN: LabelOperator.NOT_IN,
    LabelOperator.EXISTS: LabelOperator.DOES_NOT_EXIST,
}


@given(REQUIREMENTS, LABELS)
@example(requirement("zone", "NotIn"), None)
def test_an_operator_and_its_opposite_never_agree(required: LabelRequirement, labels: dict[str, str] | None) -> None:
    """Of In and NotIn, Exists and DoesNotExist exactly one holds; of Gt and Lt at most one."""
    both = {**OPPOSITES, **{after: before for before, after in OPPOSITES.items()}}
    other = both.get(required.operator)
    there = labels or {}
    if other is None:
        turned = LabelOperator.LT if required.operator is LabelOperator.GT else LabelOperator.GT
        opposite = LabelRequirement(key=required.key, operator=turned, values=required.values)
        assert not (holds(required, "w1", there) and holds(opposite, "w1", there))
        return
    opposite = LabelRequirement(key=required.key, operator=other, values=required.values)
    assert holds(required, "w1", there) is not holds(opposite, "w1", there)


# --- in the view ----------------------------------------------------------------------------------------------------


def pool() -> FoldedPool:
    """A pool with a plain node and a tainted one."""
    made = FoldedPool(w1=1_000)
    made.fold(said(None, "w2", {"zone": "a"}, (GPU,)))
    return made


@pytest.mark.parametrize(
    ("rule", "node", "refused"),
    [
        (None, "w1", None),
        (None, "w2", NoRoom.NOT_ALLOWED),
        (TOLERATES, "w2", None),
        (NodeRule(requires=(requirement("zone", "In", "a"),)), "w2", NoRoom.NOT_ALLOWED),
        (NodeRule(requires=(requirement("zone", "In", "a"),)), "w1", NoRoom.NOT_ALLOWED),
    ],
)
def test_a_plan_for_a_node_that_is_not_allowed_is_void(
    rule: NodeRule | None, node: str, refused: NoRoom | None
) -> None:
    """Also of a job that asks for nothing."""
    for cpu_m in (0, 100):
        made = pool()
        made.feed(submitted("a", cpu_m, node_rule=rule), placement("a", node))
        assert made.view.refused == refused


def test_a_move_to_a_tainted_node_is_void() -> None:
    """Unless the job tolerates it."""
    for rule, refused in ((None, NoRoom.NOT_ALLOWED), (TOLERATES, None)):
        made = pool()
        made.run("a", "w1", node_rule=rule)
        made.fold(migration("a", "w1", "w2"))
        assert made.view.refused == refused


def test_replicas_may_leave_a_node_that_was_tainted_meanwhile() -> None:
    """What becomes less needs no leave; what becomes more does."""
    made = FoldedPool(w1=1_000)
    made.fold(c.PoolConfigured())
    role = Role(name="worker", replicas=3, min=1, max=4, requests=Resources(100), may_leave=True)
    made.feed(submitted("g", roles=(role,), success=c.SuccessRule.CHIEF), placement("g", "w1", "w1", "w1"))
    made.carry_out("g")
    made.fold(said(made.node("w1"), "w1", None, (GPU,)))
    more = transition("g", c.Transition.SCALE, ["w1"] * 3, *["w1"] * 4, sizes=(4,), plan="more")
    made.fold(more)
    assert made.view.refused == NoRoom.NOT_ALLOWED
    made.fold(transition("g", c.Transition.SHED, ["w1"] * 3, "w1", "w1", sizes=(2,), leaving=(2,)))
    assert made.view.refused is None


@pytest.mark.parametrize(
    ("rule", "nodes", "refused"),
    [
        (None, ("w1", "w1"), None),
        (None, ("w1", "w2"), NoRoom.NOT_ALLOWED),
        (TOLERATES, ("w1", "w2"), None),
        (IN_ZONE_A, ("w1", "w2"), NoRoom.NOT_ALLOWED),
        (IN_ZONE_A, ("w2", "w2"), None),
    ],
)
def test_the_rule_of_a_gang_holds_for_each_replica(
    rule: NodeRule | None, nodes: tuple[str, ...], refused: NoRoom | None
) -> None:
    """One replica on a node that is not allowed makes the whole placement void."""
    made = pool()
    made.feed(submitted("g", replicas=2, node_rule=rule), placement("g", *nodes))
    assert made.view.refused == refused


@pytest.mark.parametrize(
    ("kind", "nodes", "sizes"),
    [
        (c.Transition.MOVE, ("w1", "w1"), (2,)),
        (c.Transition.MOVE, ("w2", "w1"), (2,)),
        (c.Transition.SCALE, ("w2", "w2", "w1"), (3,)),
    ],
)
def test_a_gang_is_neither_moved_nor_scaled_to_where_it_may_not_run(
    kind: c.Transition, nodes: tuple[str, ...], sizes: tuple[int, ...]
) -> None:
    """Also where other replicas of it stay on nodes that it may run on."""
    made = pool()
    role = Role(name="worker", replicas=2, min=1, max=4, requests=Resources(100))
    made.feed(submitted("g", roles=(role,), node_rule=IN_ZONE_A), placement("g", "w2", "w2"))
    made.carry_out("g")
    made.fold(transition("g", kind, ["w2", "w2"], *nodes, sizes=sizes))
    assert made.view.refused == NoRoom.NOT_ALLOWED
    more = transition("g", c.Transition.SCALE, ["w2", "w2"], "w2", "w2", "w2", sizes=(3,), plan="more")
    made.fold(more)
    assert made.view.refused is None


@given(st.lists(st.tuples(st.sampled_from(["w1", "w2"]), LABELS, TAINTS), max_size=5))
def test_a_node_has_what_it_said_last(acts: list[tuple[str, dict[str, str] | None, tuple[Taint, ...]]]) -> None:
    """All of it: labels and taints that it names no more are gone."""
    made = FoldedPool(w1=1_000, w2=1_000)
    made.fold(c.PoolConfigured())
    last: dict[str, tuple[dict[str, str] | None, tuple[Taint, ...]]] = {}
    for name, labels, taints in acts:
        made.fold(said(made.node(name), name, labels, taints))
        last[name] = (labels, taints)
    for name, found in last.items():
        assert (made.node(name).labels, made.node(name).taints) == found
