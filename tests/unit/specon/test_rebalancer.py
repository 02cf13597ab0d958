"""SpeCon Algorithm 5, case by case; the thesis's 904.5 s example number by number."""

from __future__ import annotations

import pytest
from tests.harness.call_count import count_calls
from tests.harness.scenarios.folded_pool import submitted
from tests.harness.scenarios.scenario import act, check, read, spell
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.policies.specon.rebalancer import Rebalancer, balance_factor

CC = c.Category.CONVERGED

BEFORE_904_S = """
    node w1 1000
    node w2 1000
    node w3 1000
    node w4 1000
    run job-1  w1 CC
    run job-2  w1 CC
    run job-4  w1 CC
    run job-5  w1 CC
    run job-6  w2 CC
    run job-7  w2 CC
    run job-8  w2 CC
    run job-9  w2 CC
    run job-10 w3 CC
    run job-11 w3 CC
    run job-12 w3 CC
    run job-13 w3 CC
    run last   w4 PC
    tick
    run job-3  w2 CC            # the four that converged most recently, one a second
    tick
    run job-25 w3 CC
    tick
    run job-27 w2 CC
    tick
    run job-23 w3 CC
    tick 100000                             ->
"""

SCENARIOS = {
    "the thesis's example (§6.2.3): at 904.5 s the last job of Worker-4 ends, and two jobs each of W3 and W2 take over": (
        BEFORE_904_S
        + """
    exit last                               ->
    tick                                    -> rebalance job-23 w3->w4 | rebalance job-27 w2->w4 | rebalance job-25 w3->w4 | rebalance job-3 w2->w4
    tick                                    ->
    """  # noqa: E501
    ),
    "a node that only reports is no idle worker, and counts for no balance": """
        node w1 1000
        node w2 1000
        device d1 9000
        run a w1 CC
        run b w1 CC
        run c w2 CC
        tick 100000                         ->
        node d1 9000                        -> rebalance a w1->d1
    """,
    "while a job still grows and is not decided, nothing is moved": """
        node w1 1000
        node w2 1000
        node w3 1000
        run a w1 CC
        run b w1 CC
        run c w1 CC
        run d w2 WC
        tick                                    ->
        category d CC
        tick                                    -> rebalance a w1->w3
    """,
    "the most recently converged job goes first; of two at the same time the first by name": """
        node w1 1000
        node w2 1000
        run e w1 WC
        run d w1 WC
        run c w1 CC
        run b w1 CC
        tick                                    ->
        category e CC
        category d CC
        tick                                    -> rebalance d w1->w2 | rebalance e w1->w2
    """,
    "a job that converged, grew and converged again counts from the second time": """
        node w1 1000
        node w2 1000
        run a w1 CC
        tick
        run b w1 WC
        category b CC
        run c w1 PC
        category a PC
        category a CC
        tick 1000
        category a PC
        category a CC
        category c CC
        tick                                    -> rebalance a w1->w2
    """,
    "bf rounds down, and no less than one: an idle worker gets work though jobs are fewer than workers": """
        node w1 1000
        node w2 1000
        node w3 1000
        run a w1 CC
        run b w1 CC
        tick                                    -> rebalance a w1->w2
    """,
    "with bf as printed (0 here) an idle worker gets nothing": """
        set balance_rule=floor
        node w1 1000
        node w2 1000
        node w3 1000
        run a w1 CC
        run b w1 CC
        tick                                    ->
        set balance_rule=at-least-one
        tick                                    -> rebalance a w1->w2
    """,
    "a donor keeps bf jobs": """
        node w1 1000
        node w2 1000
        run a w1 CC
        run b w1 CC
        tick                                    -> rebalance a w1->w2
        carry a
        tick                                    ->
    """,
    "where no worker is idle, one with less than bf - 1 jobs is filled up": """
        node w1 2000
        node w2 2000
        run a1 w1 CC
        run a2 w1 CC
        run a3 w1 CC
        run a4 w1 CC
        run a5 w1 CC
        run b1 w2 CC                # bf 3, w2 has 1 < 2
        tick                                    -> rebalance a1 w1->w2 | rebalance a2 w1->w2
    """,
    "an imbalance of one below bf is left alone": """
        node w1 2000
        node w2 2000
        run a1 w1 CC
        run a2 w1 CC
        run a3 w1 CC
        run a4 w1 CC
        run b1 w2 CC
        run b2 w2 CC                # bf 3, w2 has 2
        tick                                    ->
    """,
    "idle workers go first: another below bf - 1 waits until none is idle": """
        node w1 4000
        node w2 4000
        node w3 4000
        run a1 w1 CC
        run a2 w1 CC
        run a3 w1 CC
        run a4 w1 CC
        run a5 w1 CC
        run a6 w1 CC
        run a7 w1 CC
        run a8 w1 CC
        run b1 w2 CC                # bf 3
        tick                                    -> rebalance a1 w1->w3 | rebalance a2 w1->w3 | rebalance a3 w1->w3
        carry a1                                -> rebalance a4 w1->w2 | rebalance a5 w1->w2
    """,
    "a job is rebalanced at most once": """
        node w1 1000
        node w2 1000
        run a w1 CC
        run b w1 CC
        tick                                    -> rebalance a w1->w2
        carry a
        run c w2 CC mode=none
        run d w2 CC mode=none
        exit b
        tick                                    ->      # w1 is idle, and only a on w2 could be moved
    """,
    "a job that cannot be saved is passed over": """
        node w1 1000
        node w2 1000
        run a w1 CC mode=none
        run b w1 CC
        tick                                    -> rebalance b w1->w2
    """,
    "a job for which the idle worker has no room is passed over": """
        node w1 1000
        node w2 100
        run a w1 CC cpu=200
        run b w1 CC
        tick                                    -> rebalance b w1->w2
    """,
    "nothing is moved off a lost node or onto one, and its jobs do not count in bf": """
        node w1 1000
        node w2 1000
        node w3 1000
        node w4 1000
        run a1 w1 CC
        run a2 w1 CC
        run a3 w1 CC
        run b1 w2 CC
        run b2 w2 CC                # bf would be 2 with the lost node's jobs
        lost w1
        lost w4
        tick                                    -> rebalance b1 w2->w3
    """,
    "a job of which nothing was measured holds rebalancing up, but not without end": """
        node w1 1000
        node w2 1000
        run a w1 CC
        run b w1 CC
        run mute w1
        tick 119000                             ->
        grow a
        grow b
        tick 1000                               -> rebalance a w1->w2
    """,
    "without SpeCon's moves nothing is rebalanced": """
        set moves=false
        node w1 1000
        node w2 1000
        run a w1 CC
        run b w1 CC
        tick                                    ->
    """,
    "a new node is idle immediately": """
        node w1 1000
        run a w1 CC
        run b w1 CC
        tick                                    ->
        node w2 1000                            -> rebalance a w1->w2
    """,
    "a rebalancing that failed is undone, and tried once more": """
        node w1 1000
        node w2 1000
        run a w1 CC
        run b w1 CC
        tick                                    -> rebalance a w1->w2
        fail a refused
        fail a refused
        carry a
        tick                                    -> rebalance a w1->w2
        fail a refused
        fail a refused
        carry a
        tick                                    -> rebalance b w1->w2
    """,
    "a job that is cancelled is passed over": """
        node w1 1000
        node w2 1000
        run a w1 CC
        run b w1 CC
        cancel a
        tick                                    -> rebalance b w1->w2
    """,
}


@pytest.mark.parametrize("text", SCENARIOS.values(), ids=SCENARIOS)
@pytest.mark.parametrize("delay", [0, 1])
def test_scenario(text: str, delay: int) -> None:
    """What each scenario says, also where a decision comes back only after the next record."""
    check(text, Rebalancer(), delay=delay)


def test_the_balance_factor_of_the_thesis_example_is_four() -> None:
    """Sixteen jobs on four workers: Worker-4 is filled up to four, and W2 and W3 keep four of six."""
    driver = DeciderDriver(Rebalancer())
    for line in read(BEFORE_904_S):
        act(driver, line.words)
    driver.end("last")
    assert balance_factor(driver.view) == 4
    for job in ("job-23", "job-25", "job-27", "job-3"):
        driver.carry_out(job)
    assert {node.name: node.count for node in driver.view.nodes} == {"w1": 4, "w2": 4, "w3": 4, "w4": 4}


def test_moves_under_way_are_not_made_again_at_the_next_tick() -> None:
    """Until its plans are read back the rebalancer counts them, so later ticks add nothing."""
    driver = DeciderDriver(Rebalancer(), delay=10, w1=1_000, w2=1_000)
    for name in ("a", "b", "c", "d"):
        driver.run(name, "w1", CC)
    driver.tick()
    driver.tick()
    driver.tick()
    assert [spell(event) for event in driver.decided] == ["rebalance a w1->w2", "rebalance b w1->w2"]


def test_a_rebalancing_that_turns_out_void_is_forgotten_and_asked_again() -> None:
    """Somebody else takes the idle worker's room first; once it is free again the job is moved."""
    driver = DeciderDriver(Rebalancer(), delay=4, w1=1_000, w2=150)
    for name in ("a", "b"):
        driver.run(name, "w1", CC)
    driver.tick()
    driver.run("thief", "w2")
    driver.deliver(everything=True)
    assert driver.job("a").plan is None
    assert not driver.job("a").rebalanced
    driver.end("thief")
    driver.tick()
    assert [spell(event) for event in driver.decided] == ["rebalance a w1->w2", "rebalance a w1->w2"]


def test_a_stay_marks_the_job_and_only_rebalancing_moves_it_afterwards() -> None:
    """As the authors' log of 2020-01-04 shows for its jobs 10, 11 and 13: first a stay, later a move."""
    check(
        """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job-10 w1 CC
        run d w2 PC
        run e w2 PC
        run f w2 CC
        request job-10          -> stay job-10
        exit d
        exit e
        request job-10          ->
        exit f
        category a CC
        category b CC
        tick                    -> rebalance a w1->w2
        """,
        NodeScorer(),
        Rebalancer(),
    )


def test_a_job_is_moved_once_by_each_algorithm() -> None:
    """Algorithm 4 moves it, then Algorithm 5 may; then neither does."""
    check(
        """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC
        request job             -> move job w1->w2
        carry job
        run d w2 CC mode=none
        run e w2 CC mode=none
        exit a
        exit b
        tick                    -> rebalance job w2->w1
        carry job
        exit d
        run f w1 CC mode=none
        exit e
        request job             ->
        tick                    ->
        """,
        NodeScorer(),
        Rebalancer(),
    )


def test_a_decision_tells_what_it_was_made_from() -> None:
    """The receiver and the donor as they were, the balance factor, and how long ago the job converged."""
    driver = DeciderDriver(Rebalancer(), w1=1_000, w2=1_000)
    driver.run("a", "w1", CC)
    driver.run("b", "w1", CC)
    driver.tick(5_000)
    (plan,) = driver.decided
    assert isinstance(plan, c.MigrationPlanned)
    assert [(node.node, node.replicas) for node in plan.because.nodes] == [("w2", 0), ("w1", 2)]
    assert (plan.because.balance_factor, plan.because.converged_ms) == (1, 2_000)


def calls_of_a_tick(jobs: int) -> int:
    """How many functions the rebalancer calls at a tick, with one converged job each on some of 40 workers."""
    driver = DeciderDriver(**{f"n{number:03}": 1_000 for number in range(40)})
    for number in range(jobs):
        driver.run(f"job-{number}", f"n{number:03}", CC)
    tick = driver.append(c.Tick(counted_ms=1_000))
    driver.take_in(tick)
    counted, made = count_calls(lambda: Rebalancer().step(driver.view, tick))
    assert made == ()
    return counted


def test_a_tick_costs_the_same_however_many_jobs_cannot_be_moved() -> None:
    """Converged jobs that cannot be checkpointed are no donors: thousands of them, and idle workers beside."""

    def calls(jobs: int) -> int:
        driver = DeciderDriver(**{f"n{number}": 1_000 for number in range(jobs // 20)}, idle_1=1_000, idle_2=1_000)
        for number in range(jobs):
            driver.run(f"job-{number}", f"n{number % (jobs // 20)}", CC, cpu_m=10, mode=None)
        tick = driver.append(c.Tick(counted_ms=1_000))
        driver.take_in(tick)
        counted, made = count_calls(lambda: Rebalancer().step(driver.view, tick))
        assert made == ()
        return counted

    assert calls(10_000) <= 1.5 * calls(100)


def test_where_nobody_can_spare_a_job_none_is_looked_for() -> None:
    """Many idle workers and one job on each of the others: no look at every job for each of the idle ones."""
    assert calls_of_a_tick(20) == calls_of_a_tick(2)


def test_a_job_that_waits_is_not_active() -> None:
    """Algorithm 5 asks for every active job to be decided; one in the queue is not active."""
    driver = DeciderDriver(Rebalancer(), w1=1_000, w2=1_000)
    driver.run("a", "w1", CC)
    driver.run("b", "w1", CC)
    driver.fold(submitted("huge", 5_000))
    driver.tick()
    assert [spell(event) for event in driver.decided] == ["rebalance a w1->w2"]
