"""The queue: its policies, what blocks, the limits of queues, gangs, and who gives way to whom."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from tests.harness.call_count import count_calls
from tests.harness.scenarios.folded_pool import joined, submitted
from tests.harness.scenarios.scenario import check, spell
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.parameters import PoolParameters, QueueLimits, QueueParameters
from steepest.policies.names import QueuePolicyName
from steepest.policies.placement.placer import Placer
from steepest.policies.queueing.ranks import QUEUE_POLICIES, queue_policy
from steepest.view.state import Phase

SCENARIOS = {
    "under fifo the first that was submitted is placed first, with any priority": """
        node w1 100
        submit fat                      -> admit fat | place fat w1
        submit a                        -> admit a
        submit b priority=10            -> admit b
        carry fat
        exit fat                        -> finished fat | place a w1
    """,
    "under priority the most urgent is placed first, then the one submitted first": """
        node w1 100
        set policy=priority
        submit fat                      -> admit fat | place fat w1
        submit low priority=-1          -> admit low
        submit a priority=10            -> admit a
        submit b priority=10            -> admit b
        carry fat
        exit fat                        -> finished fat | place a w1
        carry a
        exit a                          -> finished a | place b w1
        carry b
        exit b                          -> finished b | place low w1
    """,
    "another policy is in force for those that wait already": """
        node w1 100
        submit fat                      -> admit fat | place fat w1
        submit a                        -> admit a
        submit b priority=10            -> admit b
        set policy=priority
        carry fat
        exit fat                        -> finished fat | place b w1
    """,
    "under fair the user who has used less is next, and of one user the most urgent": """
        node w1 100
        set policy=fair
        submit a1 user=alice            -> admit a1 | place a1 w1
        submit a2 user=alice            -> admit a2
        submit a3 user=alice priority=1 -> admit a3
        submit b1 user=bob              -> admit b1
        carry a1
        tick                            ->
        exit a1                         -> finished a1 | place b1 w1
        carry b1
        exit b1                         -> finished b1 | place a3 w1
        carry a3
        submit b2 user=bob              -> admit b2
        exit a3                         -> finished a3 | place b2 w1
    """,
    "under fair jobs of unknown users are one user, in all queues": """
        node w1 100
        set policy=fair
        submit u1 queue=one             -> admit u1 | place u1 w1
        submit u2 queue=two             -> admit u2
        submit b1 user=bob              -> admit b1
        carry u1
        tick                            ->
        exit u1                         -> finished u1 | place b1 w1
        carry b1
        exit b1                         -> finished b1 | place u2 w1
    """,
    "a user at a limit of its own keeps others of its queue from nothing": """
        node w1 1000
        set blocking=true
        limit user=alice replicas=1
        submit a1 user=alice            -> admit a1 | place a1 w1
        submit a2 user=alice            -> admit a2
        submit b1 user=bob              -> admit b1 | place b1 w1
        carry a1
        exit a1                         -> finished a1 | place a2 w1
    """,
    "a user has no more unfinished jobs than its limit": """
        node w1 100
        limit user=* jobs=2
        submit a1 user=alice            -> admit a1 | place a1 w1
        submit a2 user=alice            -> admit a2
        submit a3 user=alice            -> reject a3: user alice has 2 unfinished jobs of the 2 that it may have
        submit b1 user=bob              -> admit b1
        submit unknown                  -> admit unknown
        carry a1
        exit a1                         -> finished a1 | place a2 w1
        submit a4 user=alice            -> admit a4
    """,
    "under srtf fewer announced steps come first, and unknown lengths last": """
        node w1 100
        set policy=srtf
        submit fat                      -> admit fat | place fat w1
        submit unknown                  -> admit unknown
        submit long steps=900           -> admit long
        submit short steps=20           -> admit short
        carry fat
        exit fat                        -> finished fat | place short w1
        carry short
        exit short                      -> finished short | place long w1
    """,
    "under tiresias a job that had little service comes before one that had more": """
        node w1 1000
        set policy=tiresias
        submit old cpu=1000 retries=9   -> admit old | place old w1
        carry old
        tick 3000                       ->
        submit new cpu=1000             -> admit new
        tick 3600000                    ->
        exit old 1                      -> retry old at 3604000 charged | place new w1
        carry new
        tick 1000                       ->
        submit newer cpu=1000           -> admit newer
        exit new                        -> finished new | place newer w1
        carry newer
        exit newer                      -> finished newer | place old w1
    """,
    "a queue that blocks lets none pass the first one without room": """
        node w1 1000
        set blocking=true
        submit fat cpu=900              -> admit fat | place fat w1
        submit big cpu=500              -> admit big
        submit small                    -> admit small
        tick                            ->
        carry fat
        exit fat                        -> finished fat | place big w1 | place small w1
    """,
    "a job that can never be placed blocks none": """
        node w1 1000
        set blocking=true
        submit huge cpu=5000            -> admit huge
        submit small                    -> admit small | place small w1
        tick 5000                       -> reject huge: it asks for 5000m CPU, more than any node has; the largest, w1, has 1000m CPU
    """,  # noqa: E501
    "a queue holds at most its limit, and others pass": """
        node w1 1000
        limit paper replicas=1
        submit a queue=paper            -> admit a | place a w1
        submit b queue=paper            -> admit b
        submit d                        -> admit d | place d w1
        tick                            ->
        carry a
        exit a                          -> finished a | place b w1
    """,
    "a raised limit counts at the next tick": """
        node w1 1000
        limit paper cpu_m=150
        submit a queue=paper            -> admit a | place a w1
        submit b queue=paper            -> admit b
        limit paper cpu_m=200           ->
        tick                            -> place b w1
    """,
    "a queue at its limit blocks itself only": """
        node w1 1000
        set blocking=true
        limit paper replicas=1
        submit a queue=paper            -> admit a | place a w1
        submit b queue=paper            -> admit b
        submit d                        -> admit d | place d w1
    """,
    "a gang is placed whole, on one node if that has room": """
        node w1 300
        node w2 500
        submit g replicas=4             -> admit g | place g w2 w2 w2 w2
    """,
    "else on the fewest nodes, or not at all": """
        node w1 300
        node w2 500
        submit g replicas=7             -> admit g | place g w2 w2 w2 w2 w2 w1 w1
        submit h replicas=2             -> admit h
        tick 60000                      ->
        carry g
        exit g                          -> place h w1 w2
    """,
    "an elastic gang starts with as many as there is room for": """
        node w1 500
        submit a cpu=200                -> admit a | place a w1
        submit g replicas=8 min=2       -> admit g | place g w1 w1 w1
        submit h replicas=3 min=2       -> admit h
    """,
    "a gang larger than the pool is rejected, once nodes had time to join": """
        node w1 500
        node w2 150
        submit g replicas=7             -> admit g
        submit h replicas=2 cpu=600     -> admit h
        tick 5000                       -> reject g: it asks for at least 7 replicas of role worker, 100m CPU each, and all nodes together, empty, hold 6 | reject h: each replica of role worker asks for 600m CPU, more than any node has; the largest, w1, has 500m CPU
    """,  # noqa: E501
    "an elastic gang is kept within its queue's limit": """
        node w1 1000
        limit paper replicas=5
        submit g replicas=8 min=2 queue=paper -> admit g | place g w1 w1 w1 w1 w1
    """,
    "an urgent job has the fewest less urgent ones suspended, and starts when they are": """
        node w1 500
        node w2 500
        set policy=priority preempt=true min_run_ms=0
        submit a cpu=200                -> admit a | place a w1
        submit b cpu=500                -> admit b | place b w2
        submit d cpu=200                -> admit d | place d w1
        carry a
        carry b
        carry d
        submit u cpu=400 priority=1000  -> admit u
        tick                            -> suspend b | place u w2 later
        tick                            ->
    """,
    "jobs as urgent, and jobs that cannot be checkpointed, stay": """
        node w1 500
        set policy=priority preempt=true min_run_ms=0
        submit a cpu=200 priority=5     -> admit a | place a w1
        submit b cpu=300 mode=none      -> admit b | place b w1
        carry a
        carry b
        submit u cpu=400 priority=5     -> admit u
        tick                            ->
    """,
    "a job that has just started stays, until it has run long enough": """
        node w1 500
        set policy=priority preempt=true min_run_ms=5000
        submit a cpu=500                -> admit a | place a w1
        carry a
        submit u cpu=400 priority=5     -> admit u
        tick 4000                       ->
        tick 1000                       -> suspend a | place u w1 later
    """,
    "a gang is suspended for a job, and a job for a gang": """
        node w1 400
        node w2 400
        set policy=priority preempt=true min_run_ms=0
        submit g replicas=6             -> admit g | place g w1 w1 w1 w1 w2 w2
        submit a cpu=200 priority=1     -> admit a | place a w2
        carry g
        carry a
        submit u replicas=8 priority=9  -> admit u
        tick                            -> suspend g | suspend a | place u w1 w1 w1 w1 w2 w2 w2 w2 later
    """,
    "no room is made where it is not asked for": """
        node w1 500
        set policy=priority min_run_ms=0
        submit a cpu=500                -> admit a | place a w1
        carry a
        submit u cpu=400 priority=5     -> admit u
        tick                            ->
    """,
}


HEADS = {
    "a job that its queue's limit holds back ends preemption for no other queue": """
        node w1 1000
        set policy=priority preempt=true min_run_ms=0
        limit paper cpu_m=100
        submit a queue=paper priority=90 -> admit a | place a w1
        submit low cpu=900               -> admit low | place low w1
        carry a
        carry low
        submit b queue=paper priority=90 -> admit b
        submit u cpu=800 priority=80     -> admit u
        tick                             -> suspend low | place u w1 later
    """,
    "a job that no suspension helps ends preemption for none behind it": """
        node w1 400
        set policy=priority preempt=true min_run_ms=0
        submit fixed mode=none           -> admit fixed | place fixed w1
        submit low cpu=300               -> admit low | place low w1
        carry fixed
        carry low
        submit large cpu=400 priority=9  -> admit large
        submit fits cpu=300 priority=8   -> admit fits
        tick                             -> suspend low | place fits w1 later
    """,
    "in a queue that blocks, it ends preemption for its own queue alone": """
        node w1 400
        set policy=priority preempt=true min_run_ms=0 blocking=true
        submit fixed mode=none           -> admit fixed | place fixed w1
        submit low cpu=300               -> admit low | place low w1
        carry fixed
        carry low
        submit large cpu=400 priority=9  -> admit large
        submit fits cpu=300 priority=8   -> admit fits
        tick                             ->
        submit u cpu=300 priority=7 queue=other -> admit u
        tick                             -> suspend low | place u w1 later
    """,
    "in a queue that blocks, a job that has room is not given another one's place": """
        node w1 400
        node w2 300
        set policy=priority preempt=true min_run_ms=0 blocking=true
        submit low cpu=300               -> admit low | place low w1
        carry low
        submit fixed cpu=50 mode=none    -> admit fixed | place fixed w2
        carry fixed
        submit large cpu=800 priority=9  -> admit large
        node w3 900                      -> place large w3
        carry large
        submit next cpu=850 priority=9 mode=none -> admit next
        submit u cpu=250 priority=8 queue=other -> admit u
        tick                             ->
    """,
    "a job that no node has room for now holds back none, whether its node is lost or never was there": """
        node w1 500
        node w2 1000
        set blocking=true
        lost w2
        submit large cpu=900             -> admit large
        submit small                     -> admit small | place small w1
        use w2 0
        tick                             -> place large w2
    """,
    "an elastic gang has others suspended for as many replicas as its queue's limit leaves": """
        node w1 400
        node w2 400
        set policy=priority preempt=true min_run_ms=0
        limit paper replicas=2
        submit a cpu=400                 -> admit a | place a w1
        submit b cpu=400                 -> admit b | place b w2
        carry a
        carry b
        submit g cpu=200 replicas=4 min=1 queue=paper priority=9 -> admit g
        tick                             -> suspend a | place g w1 w1 later
    """,
}


@pytest.mark.parametrize("text", (SCENARIOS | HEADS).values(), ids=SCENARIOS | HEADS)
def test_scenario(text: str) -> None:
    """What each scenario says."""
    check(text, Placer())


LIMITS = {
    "a job that exceeds its queue's limit alone is rejected with both amounts": """
        node w1 4000
        limit paper cpu_m=1000
        submit a cpu=2000 queue=paper   -> reject a: it asks for at least 2000m CPU, and queue paper may hold 1000m CPU
        submit b cpu=1000 queue=paper   -> admit b | place b w1
    """,
    "of an elastic gang the smallest size counts": """
        node w1 4000
        limit paper replicas=2
        submit g replicas=4 min=3 queue=paper -> reject g: it asks for at least 3 replicas, and queue paper may hold 2 replicas
        submit h replicas=4 min=2 queue=paper -> admit h | place h w1 w1
    """,  # noqa: E501
    "one that was admitted waits where the limit is lowered, holds back none, and starts where it is raised": """
        node w1 4000
        set blocking=true
        limit paper cpu_m=1000
        submit a cpu=600 queue=paper    -> admit a | place a w1
        submit b cpu=600 queue=paper    -> admit b
        submit d cpu=100 queue=paper    -> admit d
        limit paper cpu_m=500           ->
        tick                            ->
        carry a
        exit a                          -> finished a | place d w1
        limit paper cpu_m=700           ->
        tick                            -> place b w1
    """,
    "a job that asks for nothing of what is limited is not held back": """
        node w1 1000
        limit paper cpu_m=100
        submit a queue=paper            -> admit a | place a w1
        limit paper gpu_m=0             ->
        submit b queue=paper            -> admit b | place b w1
    """,
    "a replica that asks for nothing is refused": """
        node w1 1000
        submit a cpu=0                  -> reject a: requests.cpu_m: a replica asks for at least 1m CPU, a GPU or a device
        submit b cpu=1                  -> admit b | place b w1
    """,
    "a node takes a limited number of replicas, however little they ask for": """
        node w1 4000
        submit a cpu=1 replicas=200     -> admit a | place a W1_200
        submit b cpu=1 replicas=100     -> admit b
        submit d cpu=1 replicas=300     -> admit d
        tick 5000                       -> reject d: it asks for at least 300 replicas of role worker, 1m CPU each, and all nodes together, empty, hold 250
        carry a
        exit a                          ->
    """,  # noqa: E501
}


@pytest.mark.parametrize("text", LIMITS.values(), ids=LIMITS)
def test_what_limits_do(text: str) -> None:
    """What each scenario says."""
    check(text.replace("W1_200", " ".join(["w1"] * 200)), Placer())


def test_of_many_jobs_that_nothing_helps_none_keeps_others_from_preemption_for_ever() -> None:
    """Forty urgent jobs that ask for different things and cannot be helped stand before one that can."""
    driver = DeciderDriver(Placer(), w1=400)
    parameters = {"queueing": {"policy": "priority", "preempt": True}, "preemption": {"min_run_ms": 0}}
    driver.fold(c.PoolConfigured(parameters=convert(parameters)))
    driver.feed(submitted("fixed", 100, CheckpointMode.NONE), submitted("low", 300))
    driver.carry_out("fixed")
    driver.carry_out("low")
    for number in range(40):
        driver.fold(submitted(f"large-{number}", 301 + number, priority=9))
    driver.fold(submitted("fits", 300, priority=8))
    for _ in range(10):
        driver.tick()
    assert [spell(event) for event in driver.decided][-2:] == ["suspend low", "place fits w1 later"]


def test_a_suspended_job_waits_at_its_own_rank_and_is_resumed_by_a_placement() -> None:
    """It made room; when the urgent job is over, it comes before one that was submitted later."""
    driver = DeciderDriver(Placer(), w1=500)
    parameters = {"queueing": {"policy": "priority", "preempt": True}, "preemption": {"min_run_ms": 0}}
    driver.fold(c.PoolConfigured(parameters=convert(parameters)))
    driver.fold(submitted("a", 500))
    driver.carry_out("a")
    driver.feed(submitted("u", 500, priority=9), submitted("later", 500))
    driver.tick()
    driver.carry_out("a")
    assert driver.job("a").phase is Phase.SUSPENDED
    driver.carry_out("u")
    assert driver.job("u").alive
    driver.fold(driver.stopped("u", 0))
    driver.carry_out("a")
    assert [spell(event) for event in driver.decided][-2:] == ["finished u", "place a w1"]
    assert (driver.job("a").resumptions, driver.job("later").phase) == (1, Phase.WAITING)


def convert(parameters: dict[str, object]) -> PoolParameters:
    """Parameters as a log has them."""
    return msgspec.convert(parameters, PoolParameters)


def test_an_unknown_policy_is_fifo_and_says_so() -> None:
    """Parameters come from outside: the queue goes on."""
    assert queue_policy("lottery").rule == "fifo: in the order of submission (no queue policy is named 'lottery')"


def test_the_command_line_offers_what_there_is() -> None:
    """The names that a command shows without importing a policy are all of them."""
    assert set(get_args(QueuePolicyName)) == set(QUEUE_POLICIES)


@pytest.mark.parametrize("event", [c.Tick(counted_ms=9_000_000), submitted("small", 150)], ids=["tick", "submission"])
def test_a_record_costs_the_same_however_many_gangs_wait(event: c.ClusterEvent) -> None:
    """Gangs that are short of slots are not looked at before there are more slots: 10,000 of them, 1,000 different ones."""

    def calls(waiting: int) -> int:
        driver = DeciderDriver(Placer(), large=20_000, **{f"n{number:03}": 50 for number in range(40)})
        driver.fold(c.PoolConfigured(parameters=convert({"settle_ms": 10**9})))
        driver.fold(c.NodeLost(node="large", silent_ms=1))
        for number in range(waiting):
            driver.fold(submitted(f"job-{number}", 100 + number % 500, replicas=2 + number % 2))
        driver.tick()
        assert len(driver.view.jobs.queue) == waiting
        received = driver.append(event)
        assert driver.view.fold(received)
        return count_calls(lambda: driver.deciders[0].step(driver.view, received))[0]

    assert calls(10_000) <= 1.5 * calls(100)


def test_a_job_within_limits_is_placed_with_as_much_work_beside_many_as_beside_few() -> None:
    """Nodes join, and all that waited for them start in one tick, before any plan is read back."""
    limits = (QueueLimits(queue="default", replicas=10_000),)

    def calls(waiting: int) -> float:
        driver = DeciderDriver(Placer())
        driver.fold(c.PoolConfigured(parameters=PoolParameters(queueing=QueueParameters(limits=limits))))
        driver.feed(*(submitted(f"job-{number}") for number in range(waiting)))
        events: list[c.ClusterEvent] = [
            *(joined(f"w{number}", 50_000) for number in range(8)),
            c.Tick(counted_ms=1_000),
        ]
        for event in events:
            received = driver.append(event)
            assert driver.view.fold(received)
        made, plans = count_calls(lambda: driver.deciders[0].step(driver.view, received))
        assert len(plans) == waiting
        return made / waiting

    assert calls(1_000) <= 1.5 * calls(100)


def test_what_a_lost_node_takes_with_it_is_asked_for_again() -> None:
    """A gang's plan is void because its nodes are lost; other nodes had room for it all the time, and it gets that."""
    driver = DeciderDriver(Placer(), delay=2, w1=1_000, w2=500)
    driver.fold(c.PoolConfigured())
    driver.ask(submitted("g", 200, replicas=2))
    driver.fold(c.NodeLost(node="w1", silent_ms=1))
    driver.deliver(everything=True)
    driver.tick()
    driver.deliver(everything=True)
    assert [spell(event) for event in driver.decided] == ["admit g", "place g w1 w1", "place g w2 w2"]
