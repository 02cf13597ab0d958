"""What else could have been decided: each option says why it lost, and what would have to be different."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, placement, submitted

from steepest.events import cluster as c
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.read_models.alternatives import Alternative, Explained, explained


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


FULL = c.FairStanding("full", 800, 800, 0, 20_000, 130_000, 135_000, 0.05)
LATE = c.FairStanding("late", 200, 800, 200, 90_000, 100_000, 104_000, 0.01)
MINE = c.FairStanding("mine", 200, 800, 100, 50_000, 120_000, 125_000, 0.02)
UNKNOWN = c.FairStanding("unknown", 100, 400)


def limit(job: str, *standing: c.FairStanding, cpu_m: int | None = None, **priorities: int) -> Alternative:
    """What else the policy ``steepest`` could have planned for a job on a node where jobs stand so."""
    pool = FoldedPool(n1=1_000)
    for one in standing:
        pool.fold(submitted(one.job, priority=priorities.get(one.job, 0)))
    because = c.LimitsBecause(rule="what is to spare goes where it is worth most", standing=standing)
    planned = c.LimitsPlanned(plan="l", node="n1", limits=(c.JobLimit(job, 1, cpu_m=cpu_m),), because=because)
    pool.fold(planned)
    found = explained(pool.view, planned, job)
    sound(found)
    assert "index" in found.formula
    (alternative,) = found.alternatives
    return alternative


def test_a_limited_job_could_have_had_no_limit() -> None:
    """What came before it: a job that is worth more, one that is due, and one of unknown size; and what would change it."""
    found = limit("mine", FULL, LATE, MINE, UNKNOWN, cpu_m=200)

    assert (found.option, found.score) == ("no limit", 20)
    assert found.lost_because == (
        "what is to spare goes first to full (index 50), and its own index is 20; "
        "cannot wait: 200m CPU of late, due 21 s before it; of unknown size, and kept up with fair sharing: unknown"
    )
    assert found.wins_if == (
        "its index were above 50, that of full, or the work of late could wait, "
        "or it were due so soon that none of its own work could wait"
    )


def test_a_more_urgent_job_comes_before_one_that_is_worth_more() -> None:
    """Its index alone would not change that."""
    cheap = c.FairStanding("cheap", 800, 800, 0, 20_000, 130_000, 135_000, 0.001)
    found = limit("mine", cheap, MINE, cpu_m=200, cheap=5)

    assert "goes first to cheap (index 1)" in found.lost_because
    assert found.wins_if.startswith("it were as urgent as cheap, and its index were above 1")


def test_a_limited_job_of_unknown_size_keeps_up_with_fair_sharing() -> None:
    """It has no index by which it could come before another one."""
    found = limit("unknown", FULL, UNKNOWN, cpu_m=100)

    assert found.score is None
    assert "unknown how much of it is left" in found.lost_because
    assert "announced its total" in found.wins_if


@pytest.mark.parametrize(
    ("job", "standing", "lost", "wins"),
    [
        ("full", (FULL, MINE), "before mine (index 20); its own index is 50", "its index fell below 20, that of mine"),
        ("full", (FULL,), "all jobs on n1 have the CPU that they can use", "more than there is"),
        ("mine", (FULL, MINE), "it is moved, or a limit of it was refused lately", "neither were so"),
        ("unknown", (UNKNOWN,), "unknown of all jobs on n1 how much is left", "known of one of them"),
        (
            "due",
            (c.FairStanding("due", 800, 800, 790, 20_000, 30_000, 31_000, 0.01), MINE),
            "it needs the 800m CPU that it can use to end when it is due",
            "it were due later",
        ),
    ],
)
def test_an_unlimited_job_could_have_had_a_limit(
    job: str, standing: tuple[c.FairStanding, ...], lost: str, wins: str
) -> None:
    """Where it comes first, all is needed for its promise, all have what they can use, or nothing is known."""
    found = limit(job, *standing)

    assert found.option == "a limit"
    assert lost in found.lost_because
    assert wins in found.wins_if


def test_of_many_jobs_a_few_are_named() -> None:
    """The rest is a number."""
    others = [c.FairStanding(f"j{number}", 10, 800, 0, 20_000, index=1 + number / 10) for number in range(9)]
    found = limit("mine", *others, MINE, cpu_m=200)

    assert "j8 (index 1.8e+03), j7" in found.lost_because
    assert "5 more, and its own index" in found.lost_because


def test_a_limit_that_is_lifted_has_no_alternatives() -> None:
    """Its rule says why: the job moves, or the policy is off."""
    pool = FoldedPool(n1=1_000)
    pool.fold(submitted("a"))
    because = c.LimitsBecause(rule="it moves, and saves after its next step")
    lifted = c.LimitsPlanned(plan="l", node="n1", limits=(c.JobLimit("a", 1),), because=because)
    pool.fold(lifted)

    assert explained(pool.view, lifted, "a").alternatives == ()
