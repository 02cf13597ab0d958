"""Which job moves where promises cannot be kept on a node."""

from __future__ import annotations

from tests.unit.steepest.test_move_costs import searched

from steepest.policies.steepest.moves import RESCUE
from steepest.policies.steepest.node_plan import JobOnNode

LEFT_S = 300.0
DUE_S = 400.0
"""Three jobs that need the whole node for 300 s each cannot all be in time; each can on an empty one."""

MOVE_S = 6.0


def resident(name: str, left_s: float = LEFT_S) -> JobOnNode:
    """A job that does not wait, so that nothing but its promise moves it."""
    return JobOnNode(name=name, left=left_s, demand=1.0, elsewhere=1.0, rate=1.0, due_s=DUE_S, free=True)


def test_a_rescue_lessens_what_is_late_most() -> None:
    """A small job would leave the node late."""
    small, large = resident("small", LEFT_S / 4), [resident("b"), resident("c")]
    first, *_ = searched([small, *large], lambda *_: MOVE_S)
    assert first.reason == RESCUE
    assert first.job.name != "small"
