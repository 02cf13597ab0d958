"""The placer, case by case: admission, the queue, retries, and when a job is over."""

from __future__ import annotations

import pytest
from tests.harness.call_count import count_calls
from tests.harness.scenarios.folded_pool import cancelled, checkpoint, submitted, success
from tests.harness.scenarios.scenario import check, spell
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.requests import Role
from steepest.policies.placement.placer import Placer
from steepest.view.state import Phase

SCENARIOS = {
    "a job is admitted and placed immediately": """
        node w1 1000
        submit a                        -> admit a | place a w1
    """,
    "a job that is submitted twice is placed once": """
        node w1 1000
        submit a                        -> admit a | place a w1
        submit a                        ->
    """,
    "a second job of a name is rejected, and the first is left alone": """
        node w1 1000
        submit a                        -> admit a | place a w1
        submit a request=other          -> reject a: a job named a is there already; choose another name
        carry a
        exit a 0                        -> finished a
        submit a request=third          -> reject a: a job named a is there already; choose another name
    """,
    "a job without replicas is rejected": """
        node w1 1000
        submit b replicas=0             -> reject b: a job has at least one replica
    """,
    "jobs are spread over the nodes": """
        node w1 1000
        node w2 1000
        submit a                        -> admit a | place a w1
        submit b                        -> admit b | place b w2
        submit c cpu=200                -> admit c | place c w1
        submit d                        -> admit d | place d w2
    """,
    "a node that only reports gets no job, however large it is": """
        node w1 1000
        device d1 9000
        submit a                        -> admit a | place a w1
        submit b cpu=950                -> admit b
        submit c cpu=2000               -> admit c
        submit d first_node=d1          -> admit d
        tick 60000                      -> reject c: it asks for 2000m CPU, more than any node has; the largest, w1, has 1000m CPU | reject d: it must start on node d1, which only reports and takes no jobs
        node d1 9000                    -> place b d1
        set placement flowcon2          ->
        device d2 9000                  ->
        submit e cpu=8500               -> admit e
    """,  # noqa: E501
    "a job waits until there is a node": """
        submit a                        -> admit a
        tick 60000                      ->
        node w1 1000                    -> place a w1
    """,
    "the queue is gone through in order, and passes over what does not fit": """
        node w1 1000
        submit fat cpu=900              -> admit fat | place fat w1
        submit big cpu=500              -> admit big
        submit small cpu=100            -> admit small | place small w1
        submit big-2 cpu=500            -> admit big-2
        submit small-2 cpu=100          -> admit small-2
        carry fat
        carry small
        exit small                      -> finished small | place small-2 w1
        exit fat                        -> finished fat | place big w1
        tick                            ->
    """,
    "a move that fails makes room where it was to go": """
        node w1 1000
        node w2 200
        submit a cpu=150                -> admit a | place a w1
        carry a
        move a w1->w2
        submit b cpu=900                -> admit b
        submit d cpu=100                -> admit d | place d w1
        submit e cpu=150 first_node=w2  -> admit e
        fail a refused
        fail a refused
        carry a                         -> place e w2
    """,
    "a job that no node can ever hold is rejected, once nodes had time to join": """
        node w1 1000
        node w2 2000
        submit huge cpu=3000            -> admit huge
        tick 4999                       ->
        tick 1                          -> reject huge: it asks for 3000m CPU, more than any node has; the largest, w2, has 2000m CPU
        tick                            ->
    """,  # noqa: E501
    "a job that only a full node can hold waits": """
        node w1 1000
        submit fat cpu=900              -> admit fat | place fat w1
        submit big cpu=500              -> admit big
        tick 60000                      ->
    """,
    "a job that only a lost node can hold waits": """
        node w1 1000
        node w2 100
        lost w1
        submit big cpu=500              -> admit big
        tick 60000                      ->
        use w1 0
        tick                            -> place big w1
    """,
    "a job starts where its user says, however full that is": """
        node w1 1000
        node w2 1000
        submit a first_node=w2          -> admit a | place a w2
        submit b first_node=w2          -> admit b | place b w2
    """,
    "a job waits for the node on which it must start": """
        node w1 1000
        node w2 1000
        submit fat cpu=950 first_node=w2 -> admit fat | place fat w2
        submit a first_node=w2          -> admit a
        tick 60000                      ->
        carry fat
        exit fat                        -> finished fat | place a w2
    """,
    "a job whose first node never comes, or is too small, is rejected": """
        node w1 1000
        node w2 100
        submit a first_node=w9          -> admit a
        submit b cpu=500 first_node=w2  -> admit b
        tick 5000                       -> reject a: it must start on node w9, and there is no such node | reject b: it asks for 500m CPU, and its first node w2 has 100m CPU
    """,  # noqa: E501
    "only the first start is bound to a node": """
        node w1 1000
        node w2 1000
        submit a first_node=w2 retries=1 -> admit a | place a w2
        carry a
        lost w2
        exit a 1                        -> retry a at 1000 charged
        tick 1000                       -> place a w1
    """,
    "a job that fails is tried again as often as its user allows": """
        node w1 1000
        submit a retries=2              -> admit a | place a w1
        carry a
        exit a 1                        -> retry a at 1000 charged
        tick 999                        ->
        tick 1                          -> place a w1
        carry a
        exit a 1                        -> retry a at 3000 charged
        tick 2000                       -> place a w1
        carry a
        exit a 1                        -> failed a: it exited with status 1
    """,
    "the hold before a retry doubles, and is counted time": """
        node w1 1000
        set retry_hold_ms=100
        submit a retries=9              -> admit a | place a w1
        carry a
        exit a ?                        -> retry a at 100
        tick 100                        -> place a w1
        carry a
        exit a ?                        -> retry a at 300
        tick 200                        -> place a w1
        carry a
        exit a ?                        -> retry a at 700
        tick 400                        -> place a w1
        carry a
        exit a -9                       -> retry a at 1500 charged
        tick 800                        -> place a w1
        carry a
        exit a ?                        -> retry a at 3100
        tick 1600                       -> place a w1
        carry a
        exit a ?                        -> retry a at 6300
        tick 3200                       -> place a w1
        carry a
        exit a ?                        -> retry a at 12700
        tick 6400                       -> place a w1
        carry a
        exit a ?                        -> retry a at 19100
    """,
    "a job without retries fails at its first failure": """
        node w1 1000
        submit a                        -> admit a | place a w1
        carry a
        exit a -9                       -> failed a: it was killed by signal 9
    """,
    "a process that is gone costs no retry": """
        node w1 1000
        submit a                        -> admit a | place a w1
        carry a
        exit a ?                        -> retry a at 1000
        tick                            -> place a w1
        carry a
        exit a 0                        -> finished a
    """,
    "a process that is gone after it has run goes on at once, at its rank": """
        node w1 1000
        submit a cpu=600                -> admit a | place a w1
        carry a
        submit b cpu=600                -> admit b
        tick 60000                      ->
        exit a ?                        -> retry a at 60000 | place a w1
        carry a
        tick 500                        ->
        exit a ?                        -> retry a at 62000 | place b w1
    """,
    "leaving with 85 outside a plan is free with a new checkpoint to show, and else charged": """
        node w1 1000
        submit a                        -> admit a | place a w1
        carry a
        save a 100
        exit a 85                       -> retry a at 1000
        tick                            -> place a w1
        carry a
        exit a 85                       -> failed a: it left with status 85 outside a plan
    """,
    "a job that cannot be started is tried again, and costs no retry": """
        node w1 1000
        submit a                        -> admit a | place a w1
        fail a refused
        fail a refused
        carry a                         -> retry a at 1000
        tick                            -> place a w1
        carry a
        exit a 0                        -> finished a
    """,
    "a program that is not there is hopeless": """
        node w1 1000
        submit a retries=5              -> admit a | place a w1
        fail a no-such-program
        carry a                         -> failed a: it could not be started: no-such-program it was
    """,
    "a cancel of a job that waits ends it": """
        submit a                        -> admit a
        cancel a                        -> cancelled a
        node w1 1000                    ->
    """,
    "a cancel of a job that waits to be tried again ends it": """
        node w1 1000
        submit a retries=1              -> admit a | place a w1
        carry a
        exit a 1                        -> retry a at 1000 charged
        cancel a                        -> cancelled a
        tick 5000                       ->
    """,
    "a cancel of a running job ends it once it has stopped": """
        node w1 1000
        submit a retries=1              -> admit a | place a w1
        carry a
        cancel a                        ->
        carry a                         -> cancelled a
    """,
    "a job that finishes while it is being cancelled has finished": """
        node w1 1000
        submit a                        -> admit a | place a w1
        carry a
        cancel a                        ->
        exit a 0                        ->
        carry a                         -> finished a
    """,
}


@pytest.mark.parametrize("text", SCENARIOS.values(), ids=SCENARIOS)
def test_scenario(text: str) -> None:
    """What each scenario says."""
    check(text, Placer())


def test_two_jobs_at_neighbouring_positions_do_not_take_the_same_place() -> None:
    """A placement under way holds its place for this decider, until it is read back."""
    driver = DeciderDriver(Placer(), delay=10, w1=100, w2=100)
    made = driver.ask(submitted("a"), submitted("b"), submitted("d"))
    assert [spell(event) for event in made] == ["admit a", "place a w1", "admit b", "place b w2", "admit d"]


def test_what_a_void_plan_had_taken_is_found_again() -> None:
    """A job that had no room beside a plan under way is placed once that plan stands in the log and is void."""
    driver = DeciderDriver(Placer(), delay=6, w1=500)
    driver.feed(submitted("a", 300), submitted("b", 300), cancelled("a"))
    driver.deliver(everything=True)
    assert [spell(event) for event in driver.decided] == [
        "admit a",
        "place a w1",
        "admit b",
        "cancelled a",
        "place b w1",
    ]


def test_placements_under_way_count_in_the_spread() -> None:
    """A node to which a job is on its way is fuller by it already, so the next goes elsewhere."""
    driver = DeciderDriver(Placer(), delay=10, w1=1_000, w2=1_000, w3=2_000)
    made = driver.ask(*(submitted(name, 200) for name in ("a", "b", "d", "e", "f")))
    assert [event.nodes[0] for event in made if isinstance(event, c.PlacementPlanned)] == ["w3", "w1", "w2", "w3", "w3"]


@pytest.mark.parametrize("event", [c.Tick(counted_ms=9_000_000), submitted("small", 150)], ids=["tick", "submission"])
def test_a_record_costs_the_same_however_many_wishes_wait(event: c.ClusterEvent) -> None:
    """What found no room is not searched for again before something became free: 10,000 jobs, 1,000 different wishes."""

    def calls(waiting: int) -> int:
        driver = DeciderDriver(Placer(), large=2_000, **{f"n{number:03}": 50 for number in range(40)})
        driver.fold(c.NodeLost(node="large", silent_ms=1))
        for number in range(waiting):
            driver.fold(submitted(f"job-{number}", 100 + number % 1_000))
        driver.tick()
        assert len(list(driver.view.jobs.queue)) == waiting
        received = driver.append(event)
        counts = driver.view.fold(received)
        assert counts
        return count_calls(lambda: driver.deciders[0].step(driver.view, received))[0]

    assert calls(10_000) <= 1.5 * calls(100)


def calls_of_a_tick(waiting: int) -> int:
    """How many functions the placer calls at a tick, with that many equal jobs for which no node has room."""
    driver = DeciderDriver(**{f"n{number:03}": 50 for number in range(40)})
    driver.feed(*(submitted(f"job-{number}", 100) for number in range(waiting)))
    tick = driver.append(c.Tick(counted_ms=1_000))
    driver.take_in(tick)
    counted, made = count_calls(lambda: Placer().step(driver.view, tick))
    assert made == []
    return counted


def test_a_job_without_a_program_is_rejected() -> None:
    """A log may hold such a job; it is never placed."""
    driver = DeciderDriver(Placer(), w1=1_000)
    nothing = c.JobSubmitted(job="a", request="r", spec=c.JobSpec(command=()))
    assert [spell(event) for event in driver.ask(nothing)] == [
        "reject a: a job has a command; this one names no program"
    ]
    driver.tick()
    assert driver.job("a").phase is Phase.ENDED


def test_nodes_are_looked_at_once_for_all_jobs_that_ask_for_the_same() -> None:
    """Where one of them does not fit, none does: each more in the queue costs its place in the order, and no look at a node.

    The placer is a new one, which puts all of them in order.
    """
    assert calls_of_a_tick(102) - calls_of_a_tick(2) <= 100 * 100


def test_room_is_given_away_as_soon_as_a_process_has_ended() -> None:
    """In the queue's order: a job submitted before the end is judged must not get the room first."""
    driver = DeciderDriver(Placer(), w1=1_000)
    driver.run("fat", "w1", cpu_m=900)
    driver.fold(submitted("first", 500))
    driver._delay = lambda: 5
    made = driver.ask(driver.stopped("fat", 0), submitted("second", 500), submitted("third", 600))
    assert [spell(event) for event in made] == [
        "finished fat",
        "place first w1",
        "admit second",
        "place second w1",
        "admit third",
    ]


def test_a_placement_that_turns_out_void_is_forgotten_and_made_anew() -> None:
    """The node is lost before the placement stands in the log."""
    driver = DeciderDriver(Placer(), delay=2, w1=1_000, w2=500)
    driver.ask(submitted("a"))
    driver.fold(c.NodeLost(node="w1", silent_ms=1))
    driver.deliver(everything=True)
    driver.tick()
    driver.deliver(everything=True)
    assert [spell(event) for event in driver.decided] == ["admit a", "place a w1", "place a w2"]
    assert driver.plan_of("a").targets == ("w2",)


def test_a_verdict_is_given_once() -> None:
    """However much is said of the job before the verdict stands in the log."""
    driver = DeciderDriver(Placer(), w1=1_000)
    driver.fold(submitted("a"))
    driver.carry_out("a")
    driver._delay = lambda: 5
    driver.feed(driver.stopped("a", 1), driver_category("a"), driver_category("a"), cancelled("a"))
    driver.tick()
    driver.deliver(everything=True)
    assert [spell(event) for event in driver.decided] == ["admit a", "place a w1", "failed a: it exited with status 1"]


def driver_category(job: str) -> c.CategoryChanged:
    """Something is said of the job."""
    return c.CategoryChanged(job=job, before=c.Category.PROGRESSING, after=c.Category.WATCHED, growth=0.0)


def test_a_rejection_is_given_once() -> None:
    """However often room is made before it stands in the log."""
    driver = DeciderDriver(Placer(), delay=5, w1=1_000)
    driver.fold(submitted("huge", 5_000))
    for _ in range(4):
        driver.tick(5_000)
    driver.deliver(everything=True)
    assert [spell(event).split(":")[0] for event in driver.decided] == ["admit huge", "reject huge"]


def test_a_cancel_between_a_retry_and_its_place_in_the_log_is_not_missed() -> None:
    """The retry is read back first, and the job is over then."""
    driver = DeciderDriver(Placer(), w1=1_000)
    driver.fold(submitted("a", retries=1))
    driver.carry_out("a")
    driver._delay = lambda: 3
    driver.feed(driver.stopped("a", 1), cancelled("a"))
    driver.deliver(everything=True)
    assert [spell(event) for event in driver.decided][2:] == ["retry a at 1000 charged", "cancelled a"]
    assert driver.job("a").outcome is c.Outcome.CANCELLED


def test_a_move_that_fails_on_both_nodes_costs_no_retry() -> None:
    """Its job was stopped with 85 by the plan, not by itself: it waits for a place again, uncharged."""
    driver = DeciderDriver(Placer(), w1=1_000)
    driver.run("a", "w1")
    driver.fold(c.NodeJoined(node="w2", capacity=driver.node("w1").capacity))
    driver.fold(
        c.MigrationPlanned(
            plan="m",
            job="a",
            incarnation=1,
            source="w1",
            target="w2",
            kind=c.MoveKind.REALLOCATION,
            because=c.Because(rule="test"),
        )
    )
    driver.carry_out("a", before=c.Step.START)
    for _ in range(4):
        driver.fail("a", "refused")
    driver.carry_out("a")
    assert spell(driver.decided[-1]) == "retry a at 1000"
    retry = driver.decided[-1]
    assert isinstance(retry, c.RetryPlanned)
    assert retry.reason == "it could not be started: refused it was"


def test_a_job_that_saved_something_new_when_it_left_is_not_charged() -> None:
    """The newest checkpoint on its volume, reported with its end, is the proof."""
    driver = DeciderDriver(Placer(), w1=1_000)
    driver.fold(submitted("a"))
    driver.carry_out("a")
    driver.fold(driver.stopped("a", 85, saved=checkpoint(10)))
    assert spell(driver.decided[-1]) == "retry a at 1000"


def test_a_burst_of_submissions_is_placed_without_reading_any_back() -> None:
    """Five hundred jobs in one batch: each is placed once, and no node is filled beyond what it has."""
    driver = DeciderDriver(Placer(), delay=10_000, **{f"w{number}": 1_000 for number in range(10)})
    made = driver.ask(*(submitted(f"job-{number}", 25) for number in range(500)))
    placed = [event for event in made if isinstance(event, c.PlacementPlanned)]
    assert len({plan.job for plan in placed}) == len(placed) == 400
    driver.deliver(everything=True)
    assert set(driver.allocated().values()) == {1_000}


def test_a_job_whose_only_role_has_one_replica_is_placed_by_what_that_requests() -> None:
    """Half a core more is less on the larger node, and the requests of jobs without roles are not asked."""
    driver = DeciderDriver(Placer(), w1=1_000, w2=2_000)
    driver.feed(submitted("small", 500, first_node="w1"), submitted("large", 1_100, first_node="w2"))
    role = Role(name="only", requests=Resources(cpu_m=500))
    made = driver.ask(submitted("a", roles=(role,)))

    assert [spell(event) for event in made] == ["admit a", "place a w2"]


PLACE_LOST = "its place ended: EvictionByEvictionAPI: Eviction API: evicting"


@pytest.mark.parametrize(
    "order", ["the peer fails first", "the place ends first", "the stop says so", "its node is gone"]
)
def test_a_gang_that_lost_a_place_is_not_charged_for_its_peers(order: str) -> None:
    """They fail as soon as one of them is gone, and any of these ends may be seen first."""
    driver = DeciderDriver(Placer(), w1=1_000, w2=1_000)
    driver.feed(submitted("a", roles=(Role(name="worker", replicas=2, requests=Resources(600)),), retries=1))
    driver.deliver(everything=True)
    driver.carry_out("a")
    ends = [driver.stopped("a", 1, replica=1), driver.stopped("a", None, replica=0, reason=PLACE_LOST)]
    if order == "the stop says so":
        driver.fold(ends[0])
        begun = driver.begin("a")
        driver.fold(success(begun, driver.job("a"), exit_status=None))
    elif order == "its node is gone":
        driver.feed(ends[0], c.NodeLost(node="w1", silent_ms=9_000), c.NodeGone(node="w1"))
        driver.carry_out("a")
    else:
        driver.feed(*(ends if order == "the peer fails first" else ends[::-1]))
        driver.carry_out("a")
    driver.deliver(everything=True)
    retry = driver.decided[-1]

    assert isinstance(retry, c.RetryPlanned)
    assert not retry.charged
    assert "status" not in retry.reason


def test_a_job_whose_object_is_over_has_failed() -> None:
    """Its pod was evicted, of which its own controller has made the object's failure: there is nothing to start again."""
    driver = DeciderDriver(Placer(), w1=1_000)
    driver.feed(submitted("a"))
    driver.carry_out("a")
    driver.feed(driver.stopped("a", None, reason=PLACE_LOST))
    driver.tick(10_000)
    driver.deliver(everything=True)
    for _ in range(2):
        driver.fail("a", "no-such-job")
    driver.carry_out("a")
    driver.deliver(everything=True)

    assert spell(driver.decided[-1]).split()[0] == "failed"


def test_jobs_that_are_lost_together_keep_their_ranks() -> None:
    """The room of them all is given away only once each waits again: one that was submitted later overtakes none."""
    driver = DeciderDriver(Placer(), w1=1_000)
    for name, cpu_m in (("a", 200), ("b", 200), ("old", 500)):
        driver.feed(submitted(name, cpu_m))
        driver.deliver(everything=True)
        driver.carry_out(name)
    driver.feed(submitted("late", 500))
    driver.tick(60_000)
    driver._delay = lambda: 3
    driver.feed(*(driver.stopped(name, None) for name in ("a", "b", "old")))
    driver.deliver(everything=True)
    made = [spell(event) for event in driver.decided][-6:]
    assert made == [
        *(f"retry {name} at 60000" for name in ("a", "b", "old")),
        *(f"place {name} w1" for name in ("a", "b", "old")),
    ]
