"""What a move is predicted to take decides which job moves, and whether one does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool

from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.moves import BALANCE, MoveChoice, MoveSearch
from steepest.policies.steepest.node_plan import JobOnNode
from steepest.policies.steepest.residences import Residence, Residences

LEFT_S = 300.0
CHEAP_S, DEAR_S = 6.0, 120.0


def resident(name: str, due_s: float | None) -> JobOnNode:
    """A job that waits for CPU: it has half of what it can use."""
    return JobOnNode(name=name, left=LEFT_S, demand=1.0, elsewhere=1.0, rate=0.4, due_s=due_s, free=True)


def chosen(takes_s: Mapping[tuple[str, str], float], due_s: float | None = None) -> list[MoveChoice]:
    """The moves from a full node to two empty ones, where moves take these times by job and target."""
    jobs = [resident(name, due_s) for name in ("light", "heavy", "third")]
    return searched(jobs, lambda job, _, target: takes_s[job, target])


def searched(jobs: list[JobOnNode], takes_s: Callable[[str, str, str], float]) -> list[MoveChoice]:
    """The moves from a full node with these jobs to two empty ones."""
    pool = FoldedPool(full=1_000, near=1_000, far=1_000)
    residences = {"full": Residence("full", 1.0, jobs)}
    residences |= {name: Residence(name, 1.0, []) for name in ("near", "far")}
    nodes = Residences(residences)
    nodes.look(pool.view.nodes)
    return list(MoveSearch(nodes, SteepestParameters(on=True), lambda *_: True, takes_s, 0.0).moves())


def times(**jobs: float) -> dict[tuple[str, str], float]:
    """What moves of these jobs take, whichever their target."""
    return {(job, target): took_s for job, took_s in jobs.items() for target in ("near", "far")}


@pytest.mark.parametrize("dear", ["light", "heavy"])
def test_the_job_whose_move_is_cheaper_moves(dear: str) -> None:
    """Of equal jobs, not the one moves whose checkpoint takes long."""
    moves = chosen(times(light=CHEAP_S, heavy=CHEAP_S, third=DEAR_S) | times(**{dear: DEAR_S}))

    assert moves
    assert dear not in {move.job.name for move in moves}


def test_no_job_moves_where_the_transfer_costs_more_than_it_gains() -> None:
    """What pays at six seconds does not at two minutes."""
    assert chosen(times(light=CHEAP_S, heavy=CHEAP_S, third=CHEAP_S))
    assert not chosen(times(light=DEAR_S, heavy=DEAR_S, third=DEAR_S))


def test_a_job_moves_only_if_it_can_still_wait_for_half_of_the_time_that_it_then_needs() -> None:
    """Where it is due sooner, a job that comes to its new node later would make it late."""
    takes_s = times(light=CHEAP_S, heavy=CHEAP_S, third=CHEAP_S)
    needs_s = CHEAP_S + LEFT_S

    assert not {move.reason for move in chosen(takes_s, 1.45 * needs_s)} & {BALANCE}
    assert {move.reason for move in chosen(takes_s, 1.55 * needs_s)} & {BALANCE}
