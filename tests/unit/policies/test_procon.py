"""ProCon: an arrival goes where least is left to do, by the progress of the jobs that run."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest_lab.sim.system.procon import Crowd, IterationProgress, procon, work


def crowd(name: str, *known: IterationProgress, jobs: int | None = None, capacity_m: int = 8_000) -> Crowd:
    """A node of eight cores."""
    return Crowd(name=name, capacity_m=capacity_m, jobs=len(known) if jobs is None else jobs, known=known)


def trains(cpu_m: float, iteration_s: float, left: float) -> IterationProgress:
    """A job that has reported."""
    return IterationProgress(cpu_m=cpu_m, iteration_s=iteration_s, left=left, iterations=2 * left + 1, age_s=100)


def test_what_is_left_by_hand() -> None:
    """U is 3/4 and 1/4: P = 2 / (3/4) · 10 = 26.7 s and 1 / (1/4) · 5 = 20 s, so C = 1 + 27 + 20."""
    assert work(crowd("a", trains(6_000, 2, 10), trains(2_000, 1, 5))) == 48


def test_who_has_not_reported_counts_by_age() -> None:
    """P = 4 s · 2 jobs · 50 iterations. Of the other, U = 2,000 / (2,000 · 2/1) = 1/2, and P = 1 / (1/2) · 5."""
    new = IterationProgress(iterations=50, age_s=4)

    assert work(crowd("a", new, trains(2_000, 1, 5))) == 1 + 400 + 10


def test_what_is_not_measured_counts_as_much_up_to_the_node() -> None:
    """One of three uses 4,000 of 8,000 millicores: all use 8,000, not 12,000, and U is 1/2."""
    assert work(crowd("a", trains(4_000, 1, 5), IterationProgress(), IterationProgress())) == 11


def test_a_job_that_uses_no_cpu_is_left_out() -> None:
    """Its share of the CPU is unknown."""
    assert work(crowd("a", trains(0, 1, 5), trains(1_000, 1, 3))) == 4


def test_an_arrival_goes_where_least_is_left() -> None:
    """One job with a minute left keeps an arrival off a node; two with a second each do not: C·n is 61 and 3 · 2."""
    long = crowd("a", trains(8_000, 1, 60))
    short = crowd("b", trains(4_000, 1, 0.5), trains(4_000, 1, 0.5))

    assert procon([long, short]) == short


def test_equal_nodes_go_by_name_and_an_idle_one_first() -> None:
    """C·n is 0 on an empty node; a job on its way counts before anything is known of it."""
    idle = [crowd("c"), crowd("b"), crowd("a", jobs=1)]

    assert procon(idle) == idle[1]
    assert procon([]) is None


def test_a_node_beyond_its_limit_is_avoided_while_there_is_another() -> None:
    """At α = 0.9, a full node is out; of full ones, all with U = 1/n, it is the one with least left."""
    full = crowd("a", trains(8_000, 1, 1))
    half = crowd("b", trains(4_000, 1, 1_000))
    fuller = crowd("c", trains(4_000, 1, 2), trains(4_000, 1, 2))

    assert procon([full, half], alpha=0.9) == half
    assert procon([full, half], alpha=1.0) == full
    assert procon([fuller, full], alpha=0.9) == full
    assert work(fuller, equal=True) == 1 + 2 * 4


SHARES = st.floats(0, 8_000).map(lambda cpu_m: round(cpu_m, 3))
KNOWN = st.builds(
    IterationProgress,
    cpu_m=SHARES,
    iteration_s=st.none() | st.floats(0, 1e4),
    left=st.floats(0, 1e6),
    iterations=st.floats(0, 1e6),
    age_s=st.floats(0, 1e5),
)
CROWDS = st.lists(st.lists(KNOWN, max_size=4), min_size=1, max_size=5).map(
    lambda nodes: [crowd(f"node-{number}", *known) for number, known in enumerate(nodes)]
)


@given(CROWDS, st.randoms(use_true_random=False), st.sampled_from((0.5, 1.0)))
def test_the_order_of_nodes_decides_nothing(crowds: list[Crowd], rng: object, alpha: float) -> None:
    """And an idle node is never passed over."""
    chosen = procon(crowds, alpha)
    assert chosen is not None
    if any(not one.jobs for one in crowds):
        assert not chosen.jobs
    shuffled = crowds[:]
    rng.shuffle(shuffled)  # type: ignore[attr-defined]

    assert procon(shuffled, alpha) == chosen


@given(CROWDS, st.floats(1, 1e6))
def test_more_left_to_do_attracts_nobody(crowds: list[Crowd], more: float) -> None:
    """If a job of another node than the chosen one had more left, the choice would be the same."""
    chosen = procon(crowds)
    assert chosen is not None
    longer = [one if one is chosen else _with_more(one, more) for one in crowds]

    assert procon(longer) == chosen


def _with_more(one: Crowd, more: float) -> Crowd:
    """The same node; a job with nothing left keeps 0, as more would count in its usage from then on."""
    known = [msgspec.structs.replace(job, left=job.left + more if job.left else 0.0) for job in one.known]
    return msgspec.structs.replace(one, known=known)


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_alpha_of_one_excludes_nobody(alpha: float) -> None:
    """What is used is never more than the node has: a limit of the whole node is none, as in the authors' manifests."""
    full = crowd("a", trains(8_000, 1, 1), trains(8_000, 1, 1))

    assert (procon([full, crowd("b", trains(10, 1, 5))], alpha) == full) is (alpha == 1.0)
