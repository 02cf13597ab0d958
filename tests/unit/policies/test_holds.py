"""Jobs that are held, come after others, run in arrays with a limit, or have a time limit, in a whole system."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import migration, submitted
from tests.harness.system.driver import DeciderDriver
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import Rig
from tests.harness.virtual_time import run_virtually
from tests.harness.waiting import until
from tests.unit.steepest.test_in_a_system import SERVICES

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.requests import Hold
from steepest.policies.named import under
from steepest.policies.placement.placer import Placer
from steepest.policies.placement.standing import Waits, standings
from steepest.replay.replay import Replay
from steepest.view.state import Phase


def spec_of(steps: int, *, fails: bool = False, **fields: object) -> c.JobSpec:
    """A job whose steps take half a second each."""
    ending = ("--exit", "7") if fails else ()
    command = (PROGRAM, "--burn", "--step-s", "0.5", "--steps", str(steps), *ending)
    return c.JobSpec(command=command, requests=Resources(cpu_m=100), **fields)  # type: ignore[arg-type]


class Played(msgspec.Struct):
    """What became of all jobs, how many ran at once at most, the breaches, and how much a replay differs by."""

    ends: Mapping[str, c.JobEnded]
    most: int
    broken: list[str]
    differences: int
    placed: list[str]


async def played(folder: Path, jobs: Mapping[str, c.JobSpec]) -> Played:
    """Submit jobs in this order and wait for their ends."""
    async with contextlib.aclosing(Rig(folder, {"n1": 1000, "n2": 1000})) as rig:
        process = rig.start(*SERVICES)
        await rig.configure(under("steepest", PoolParameters()))
        for name, spec in jobs.items():
            await rig.append(c.JobSubmitted(job=name, request=f"submit-{name}", spec=spec))
        await until(lambda: len(process.view.jobs) == len(jobs), within_s=120)
        await until(lambda: all(job.phase is Phase.ENDED for job in process.view.jobs), "the ends", within_s=20_000)
        await process.stop()
        report = await Replay(rig.log).run()
        events = [one.event for one in await rig.events()]
        running, most = 0, 0
        for event in events:
            running += isinstance(event, c.JobPlaced)
            running -= isinstance(event, c.ReplicaStopped)
            most = max(most, running)
        return Played(
            ends={event.job: event for event in events if isinstance(event, c.JobEnded)},
            most=most,
            broken=list(await rig.broken()),
            differences=report.differences,
            placed=[event.job for event in events if isinstance(event, c.JobPlaced)],
        )


def test_of_an_array_so_many_run_at_a_time(tmp_path: Path) -> None:
    """The next one takes the place of one that is over, however many would have room."""
    jobs = {f"a-{n}": spec_of(5 + 5 * (n % 2), array="a", array_most=2) for n in range(6)}
    found = run_virtually(played(tmp_path, jobs))

    assert (found.broken, found.differences) == ([], 0)
    assert {end.outcome for end in found.ends.values()} == {c.Outcome.FINISHED}
    assert len(found.ends) == 6
    assert found.most == 2


def test_a_job_starts_after_those_that_it_names(tmp_path: Path) -> None:
    """Once all have finished; where one has failed it is cancelled, and so are those behind it."""
    jobs = {
        "first": spec_of(5),
        "second": spec_of(20),
        "bad": spec_of(5, fails=True),
        "then": spec_of(5, after=("first", "second")),
        "told": spec_of(5, after=("bad", "first"), after_any=True),
        "never": spec_of(5, after=("bad",)),
        "nor-this": spec_of(5, after=("never", "first")),
    }
    found = run_virtually(played(tmp_path, jobs))

    assert (found.broken, found.differences) == ([], 0)
    assert found.placed[-1] == "then"
    assert {name for name, end in found.ends.items() if end.outcome is c.Outcome.FINISHED} == {
        "first",
        "second",
        "then",
        "told",
    }
    assert found.ends["never"].outcome is c.Outcome.CANCELLED
    assert found.ends["never"].reason == "bad, which it comes after, has not finished"
    assert found.ends["nor-this"].outcome is c.Outcome.CANCELLED


def test_a_job_ends_when_its_time_is_over(tmp_path: Path) -> None:
    """With that reason; one that is done before is not touched."""
    jobs = {"long": spec_of(1_000, time_limit_ms=20_000), "short": spec_of(5, time_limit_ms=20_000)}
    found = run_virtually(played(tmp_path, jobs))

    assert (found.broken, found.differences) == ([], 0)
    assert found.ends["short"].outcome is c.Outcome.FINISHED
    assert found.ends["long"].outcome is c.Outcome.CANCELLED
    assert found.ends["long"].reason == "it has run for 20 s, its time limit"


def test_a_time_limit_counts_the_time_with_a_place() -> None:
    """Neither the pool's age while the first process starts, nor a suspension; the time before a move counts."""
    pool = DeciderDriver(Placer(), n1=150, n2=150)
    pool.tick(60_000)
    pool.feed(submitted("a", time_limit_ms=20_000))
    pool.deliver(everything=True)
    assert pool.job("a").plan is not None
    pool.tick()
    assert pool.job("a").cancel is None

    pool.carry_out("a")
    pool.tick(9_000)
    pool.feed(c.JobChangeRequested(job="a", request="suspend", held=True))
    pool.tick()
    pool.deliver(everything=True)
    pool.carry_out("a")
    assert pool.job("a").phase is Phase.SUSPENDED
    pool.tick(60_000)
    pool.feed(c.JobChangeRequested(job="a", request="resume", held=False))
    pool.deliver(everything=True)
    pool.tick()
    assert pool.job("a").cancel is None

    pool.carry_out("a")
    pool.tick(5_000)
    source = pool.job("a").nodes[0]
    target = "n1" if source == "n2" else "n2"
    pool.feed(migration("a", source, target, incarnation=2))
    pool.carry_out("a")
    assert pool.job("a").nodes == (target,)
    pool.tick(5_000)
    pool.deliver(everything=True)
    assert pool.job("a").cancel is not None


async def held(folder: Path) -> tuple[list[c.ClusterEvent], list[str]]:
    """A job that runs is suspended by its user, and goes on once it is released."""
    async with contextlib.aclosing(Rig(folder, {"n1": 1000})) as rig:
        process = rig.start(*SERVICES)
        await rig.configure(under("steepest", PoolParameters()))
        await rig.append(c.JobSubmitted(job="a", request="a", spec=spec_of(60)))
        await until(lambda: "a" in process.view.jobs and process.view.jobs["a"].alive, within_s=120)
        await rig.append(c.JobChangeRequested(job="a", request="suspend", held=True))
        await until(lambda: process.view.jobs["a"].phase is Phase.SUSPENDED, within_s=120)
        standing = standings(process.view)["a"]
        assert standing.waits_for is Waits.HOLD
        assert "`steepest release a`" in standing.reason
        await until(lambda: process.view.counted_ms > 120_000, within_s=600)
        assert process.view.jobs["a"].phase is Phase.SUSPENDED
        await rig.append(c.JobChangeRequested(job="a", request="release", held=False))
        await until(lambda: process.view.jobs["a"].phase is Phase.ENDED, within_s=2_000)
        await process.stop()
        return [one.event for one in await rig.events()], list(await rig.broken())


def test_a_user_suspends_a_job_that_then_goes_on(tmp_path: Path) -> None:
    """Also before it has run for as long as policies leave a job alone; no step is done twice."""
    events, broken = run_virtually(held(tmp_path))

    assert broken == []
    assert [event.steps_lost for event in events if isinstance(event, c.JobSuspended)] == [0]
    assert [event.outcome for event in events if isinstance(event, c.JobEnded)] == [c.Outcome.FINISHED]


def test_a_job_that_is_held_is_not_placed() -> None:
    """It keeps its place in the queue, and gets a node in the moment in which it is released."""
    pool = DeciderDriver(Placer(), n1=150)
    pool.feed(submitted("runs"), submitted("a"), submitted("b"))
    pool.feed(c.JobChangeRequested(job="a", request="hold", held=True))
    pool.deliver(everything=True)
    pool.carry_out("runs")
    pool.feed(pool.stopped("runs", 0))
    assert pool.job("b").plan is not None
    pool.carry_out("b")
    pool.feed(pool.stopped("b", 0))
    assert pool.job("a").plan is None

    pool.feed(c.JobChangeRequested(job="a", request="release", held=False))
    assert pool.job("a").plan is not None


def test_another_priority_is_another_place_in_the_queue() -> None:
    """Of jobs that wait, from the next look on."""
    pool = DeciderDriver(Placer(), n1=150)
    queueing = msgspec.structs.replace(pool.view.parameters.queueing, policy="priority")
    pool.feed(c.PoolConfigured(parameters=msgspec.structs.replace(pool.view.parameters, queueing=queueing)))
    pool.feed(submitted("runs"), submitted("a"), submitted("b"))
    pool.feed(c.JobChangeRequested(job="b", request="more", priority=5))
    pool.deliver(everything=True)
    pool.carry_out("runs")
    pool.feed(pool.stopped("runs", 0))

    assert pool.job("b").plan is not None
    assert pool.job("a").plan is None


def test_no_job_comes_to_a_node_that_is_drained() -> None:
    """What runs there goes on, also when the node says again what it has; undrained, it takes jobs."""
    pool = DeciderDriver(Placer(), n1=1_000)
    pool.run("there", "n1")
    pool.feed(c.NodeDrainRequested(node="n1", request="d", drained=True), submitted("a"))
    joined = c.NodeJoined(node="n1", capacity=Resources(2_000))
    pool.feed(joined)
    pool.tick()
    assert pool.job("a").plan is None
    assert pool.job("there").alive

    pool.feed(c.NodeDrainRequested(node="n1", request="u", drained=False))
    assert pool.job("a").plan is not None


def test_a_decision_that_was_lost_is_made_again() -> None:
    """The end of one job releases the next also where the log has something else in the place of that decision."""
    pool = DeciderDriver(Placer(), n1=1_000)
    pool.run("a", "n1", array="x", array_most=1)
    pool.feed(submitted("b", array="x", array_most=1))
    assert pool.job("b").hold is Hold.OTHERS
    placer = pool.deciders[0]
    placer.reconsider(c.JobChangeRequested(job="b", request="lost", held=False))
    pool.feed(pool.stopped("a", 0))
    pool.deliver(everything=True)

    assert pool.job("b").hold is Hold.NONE
    assert pool.job("b").plan is not None


def test_a_job_after_any_end_finds_what_became_of_the_others() -> None:
    """In its variables, once it is let go; a job that was rejected has no end, and cancels it."""
    driver = DeciderDriver(Placer(), w1=1_000)
    driver.fold(submitted("bad", 100, user="alice"))
    driver.fold(c.JobSubmitted(job="odd", request="odd", spec=c.JobSpec(command=())))
    for after in ("bad", "odd"):
        driver.fold(submitted(f"{after}-end", 10, after=(after,), after_any=True))
    driver.carry_out("bad")
    driver.fold(driver.stopped("bad", 3))
    driver.tick(10_000)
    driver.tick()
    told = driver.job("bad-end")
    assert told.phase is Phase.RUNNING
    assert told.spec.env == {
        "STEEPEST_AFTER": "bad",
        "STEEPEST_OUTCOMES": "failed",
        "STEEPEST_EXIT_STATUSES": "3",
    }
    assert driver.job("odd-end").cancel_reason == "odd, which it comes after, has not finished"


def test_a_user_s_hold_lifts_no_other() -> None:
    """Held and let go on, an array's jobs still run so many at a time, and a job still waits for the one before it."""
    pool = DeciderDriver(Placer(), n1=2_000)
    pool.feed(*(submitted(f"a-{n}", array="a", array_most=2) for n in range(5)), submitted("then", after=("a-0",)))
    pool.deliver(everything=True)
    waiting = ["a-2", "a-3", "a-4", "then"]
    for held in (True, False):
        pool.feed(*(c.JobChangeRequested(job=name, request=f"{held}-{name}", held=held) for name in waiting))
        pool.deliver(everything=True)
    pool.tick()
    assert [name for name in waiting if pool.job(name).hold is not Hold.OTHERS] == []

    pool.carry_out("a-0")
    pool.feed(pool.stopped("a-0", 0))
    pool.deliver(everything=True)
    assert [name for name in waiting if pool.job(name).plan] == ["a-2", "then"]


def test_a_job_that_is_let_go_on_starts_if_nothing_else_holds_it() -> None:
    """The one before it has finished meanwhile, and its array has room."""
    pool = DeciderDriver(Placer(), n1=2_000)
    pool.feed(submitted("first"), submitted("then", array="a", array_most=1, after=("first",)))
    pool.feed(c.JobChangeRequested(job="then", request="hold", held=True))
    pool.deliver(everything=True)
    pool.carry_out("first")
    pool.feed(pool.stopped("first", 0))
    pool.deliver(everything=True)
    assert pool.job("then").hold is Hold.USER

    pool.feed(c.JobChangeRequested(job="then", request="release", held=False))
    pool.deliver(everything=True)
    assert pool.job("then").plan


@pytest.mark.parametrize("now", ["waits", "runs", "fails"])
def test_a_job_that_is_held_gives_up_its_turn_in_its_array(now: str) -> None:
    """The next one has it then; the job that is let go on waits until there is one again."""
    pool = DeciderDriver(Placer(), n1=1_000)
    pool.fold(submitted("other", 900 if now == "waits" else 100))
    pool.feed(*(submitted(f"a-{n}", 800, retries=1, array="a", array_most=1) for n in range(2)))
    pool.deliver(everything=True)
    if now != "waits":
        pool.carry_out("a-0")
    pool.fold(c.JobChangeRequested(job="a-0", request="hold", held=True))
    if now == "fails":
        pool.fold(pool.stopped("a-0", 1))
    elif now == "runs":
        assert pool.job("a-1").hold is Hold.OTHERS, "it has not stopped yet"
        pool.tick()
        pool.carry_out("a-0")
    pool.deliver(everything=True)
    assert pool.job("a-0").is_queued
    assert pool.job("a-1").hold is Hold.NONE

    pool.fold(c.JobChangeRequested(job="a-0", request="release", held=False))
    pool.deliver(everything=True)
    assert pool.job("a-0").hold is Hold.OTHERS
