"""What else could have been decided: each option says why it lost, and what would have to be different."""

from __future__ import annotations

import pytest

from steepest.events import cluster as c
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.read_models.alternatives import Explained, explained
from steepest.testing.scenarios.folded_pool import FoldedPool, placement, submitted


@pytest.fixture
def pool() -> FoldedPool:
    """A node whose jobs grow, and an empty one."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    for job in "bc":
        pool.run(job, "w1", c.Category.PROGRESSING)
    pool.run("a", "w1", c.Category.CONVERGED)
    return pool


def sound(found: Explained) -> None:
    """What must hold of every explanation."""
    assert found.rule
    assert all(one.option and one.lost_because and one.wins_if for one in found.alternatives)


def test_a_move_names_the_nodes_that_it_did_not_take(pool: FoldedPool) -> None:
    """With their scores: its own node has more than the target, which is no alternative to itself."""
    asked = pool.append(c.ReallocationRequested(job="a", growth=0.001, interval=9))
    pool.take_in(asked)
    (planned,) = NodeScorer().step(pool.view, asked)
    assert isinstance(planned, c.MigrationPlanned)
    pool.fold(planned)
    found = explained(pool.view, planned, "a")

    sound(found)
    assert planned.target == "w2"
    assert "w2" not in {one.option for one in found.alternatives}
    assert found.alternatives
    assert "score(n)" in found.formula


def test_a_void_plan_is_an_alternative_to_nothing(pool: FoldedPool) -> None:
    """It says why it did not hold, which is what would have to be different."""
    pool.fold(placement("a", "w2"))
    found = explained(pool.view, placement("a", "w2"), "a", "a runs already")

    sound(found)
    assert "a runs already" in found.alternatives[0].lost_because


@pytest.mark.parametrize("growth", [0.0, 0.5])
def test_a_category_follows_from_alpha(pool: FoldedPool, growth: float) -> None:
    """The other category has the threshold in what would have to be different."""
    changed = c.CategoryChanged(job="b", before=c.Category.PROGRESSING, after=c.Category.WATCHED, growth=growth)
    pool.fold(changed)
    found = explained(pool.view, changed, "b")

    sound(found)
    assert len(found.alternatives) == 1
    assert found.inputs["alpha"] == pool.view.parameters.specon.alpha


def test_a_fact_has_no_alternatives(pool: FoldedPool) -> None:
    """What was not decided is not explained."""
    assert explained(pool.view, submitted("d"), "d") == Explained()
