"""The machine of lists: the table that stands at its top is the one that it has."""

from __future__ import annotations

from steepest.events.cluster import GrowthList
from steepest.policies.flowcon import list_machine
from steepest.policies.flowcon.list_machine import MOVES, Judgement, judge, move


def test_the_table_is_the_one_that_is_told() -> None:
    """A line of the docstring for each move, in the table's order."""
    drawn = [
        f"    {before} {judgement} {after}" for before, moves in MOVES.items() for judgement, after in moves.items()
    ]

    assert "\n".join(drawn) in (list_machine.__doc__ or "")


def test_every_pair_has_a_move() -> None:
    """The table has a move for each list and each judgement."""
    assert {(before, judgement) for before in GrowthList for judgement in Judgement} == {
        (before, judgement) for before, moves in MOVES.items() for judgement in moves
    }


def test_a_run_makes_one_transition() -> None:
    """From NL to CL it takes two runs below α."""
    assert move(GrowthList.NEW, Judgement.BELOW) is GrowthList.WATCHED
    assert move(GrowthList.WATCHED, Judgement.BELOW) is GrowthList.COMPLETING


def test_alpha_itself_is_enough() -> None:
    """G ≥ α is not below."""
    assert (judge(0.03, 0.03), judge(0.029999999, 0.03)) == (Judgement.REACHED, Judgement.BELOW)
