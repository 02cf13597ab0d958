"""Where promises cannot be kept on a node, the move that is chosen makes nodes more like those of the virtual pool."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tests.unit.steepest.test_move_costs import searched

from steepest.policies.steepest.moves import MoveChoice, MoveTerms, Reason
from steepest.policies.steepest.residences import Resident

LEFT_S = 300.0
DUE_S = 400.0
"""Three jobs that need the whole node for 300 s each cannot all be in time; each can on an empty one."""

MOVE_S = 6.0


def resident(name: str, left_s: float = LEFT_S) -> Resident:
    """A job that does not wait, so that nothing but its promise moves it."""
    return Resident(name=name, left=left_s, demand=1.0, rate=1.0, due_s=DUE_S, free=True)


def rescued(copies: Mapping[str, Collection[str]], *jobs: Resident) -> MoveChoice:
    """The move from a full node to one of two empty ones, where nodes have these jobs under fair sharing."""
    terms = MoveTerms(lambda *_: True, lambda *_: MOVE_S, lambda node: copies.get(node, ()))
    first, *_ = searched(list(jobs) or [resident(name) for name in ("a", "b", "c")], terms)
    assert first.reason is Reason.RESCUE
    return first


def test_a_job_goes_to_the_node_of_its_copy() -> None:
    """Of equal jobs and equal nodes."""
    for node in ("near", "far"):
        for job in ("a", "b", "c"):
            move = rescued({node: [job], "full": ["x"]})
            assert (move.job.name, move.target) == (job, node)


def test_else_to_the_node_that_lacks_most_of_its_jobs() -> None:
    """The next job that comes is placed by what that node has, really and under fair sharing."""
    for node, other in (("near", "far"), ("far", "near")):
        assert rescued({node: ["x", "y"], other: ["z"], "full": ["a", "b", "c"]}).target == node


def test_a_rescue_that_lessens_little_of_what_is_late_is_not_preferred() -> None:
    """It would leave the node late."""
    small, large = resident("small", LEFT_S / 4), [resident("b"), resident("c")]
    assert rescued({"near": ["small"]}, small, *large).job.name != "small"
