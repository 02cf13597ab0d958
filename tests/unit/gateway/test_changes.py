"""Changes of jobs and nodes that a gateway is asked for: what they cost, what comes of them, and that each is made once."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import placement, submitted
from tests.harness.waiting import until
from tests.unit.gateway.in_memory import append, log_of, served_pool

from steepest.clock import SystemClock
from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.gateway.access import AccessRole, Caller, Grants
from steepest.gateway.answers import ChangeRequest
from steepest.gateway.asking import Asking
from steepest.read_models.changes.job_changes import ChangeKind

CALLER = Caller("o" * 20, AccessRole.OPERATE, has_token=True)


def door() -> Asking:
    """The door to a pool."""
    return Asking(SystemClock(), Grants({}))


def running(job: str, mode: CheckpointMode = CheckpointMode.ON_REQUEST) -> list[c.ClusterEvent]:
    """A job that runs on n1 and has come to step 30."""
    request = submitted(job, mode=mode)
    return [
        request,
        c.JobAdmitted(job=job, request=request.request),
        placement(job, "n1", plan=f"p-{job}"),
        c.StepBegun(plan=f"p-{job}", step=c.Step.START, attempt=1, job=job, incarnation=1, node="n1"),
        c.JobPlaced(plan=f"p-{job}", attempt=1, job=job, incarnation=1, node="n1"),
        c.ReplicaStarted(job=job, incarnation=1, node="n1"),
        c.NodeUsage(node="n1", used=submitted("x").spec.requests, jobs={}),
    ]


async def test_the_question_says_the_price_and_changes_nothing() -> None:
    """What a job has not saved, whether it saves first, and whom a drained node still has."""
    async with served_pool(await log_of(*running("a"), *running("b", CheckpointMode.NONE), submitted("w"))) as pool:
        end = await pool.log.end(pool.feed.at)

        async def price(kind: ChangeKind, *jobs: str, node: str | None = None) -> str:
            asked = ChangeRequest(change=kind, jobs=jobs, node=node, dry=True)
            return (await door().change(pool, asked, CALLER)).answers[0].price

        assert "saves first" in await price(ChangeKind.SUSPEND, "a")
        assert "unknown" in await price(ChangeKind.CANCEL, "a")
        assert "no step is lost" in await price(ChangeKind.CANCEL, "w")
        assert "keeps its place" in await price(ChangeKind.HOLD, "w")
        assert "2 jobs run on" in await price(ChangeKind.DRAIN, node="n1")
        with pytest.raises(InputError, match="cannot save"):
            await price(ChangeKind.SUSPEND, "b")
        with pytest.raises(InputError, match="no other node"):
            await price(ChangeKind.MOVE, "a")
        assert await pool.log.end(pool.feed.at) == end


async def test_a_change_is_read_once_it_is_answered_and_made_once() -> None:
    """The same request twice, also at the same time, appends once and is answered alike."""
    async with served_pool(await log_of(*(submitted(f"s-{n}") for n in range(3)), submitted("t"))) as pool:
        at, asked = door(), ChangeRequest(change=ChangeKind.HOLD, jobs=("s-*",), request="once")
        answers = await asyncio.gather(*(at.change(pool, asked, CALLER) for _ in range(2)))
        end = await pool.log.end(pool.feed.at)
        answers.append(await at.change(pool, asked, CALLER))

        assert answers[0] == answers[1] == answers[2]
        assert [one.name for one in answers[0].answers] == ["s-0", "s-1", "s-2"]
        assert answers[0].answers[0].said == "is held as soon as a system runs on the pool"
        assert [job.name for job in pool.feed.view.jobs if job.hold] == ["s-0", "s-1", "s-2"]
        assert await pool.log.end(pool.feed.at) == end == answers[0].offset

        drain = ChangeRequest(change=ChangeKind.DRAIN, node="n1")
        await at.change(pool, drain, CALLER)
        assert pool.feed.view.nodes["n1"].drained
        with pytest.raises(InputError, match="drained already"):
            await at.change(pool, drain, CALLER)


async def test_a_move_is_a_plan_that_the_log_judges() -> None:
    """It names no node and gets the one with the most free CPU; a second one for the same job is refused."""
    others = [
        c.NodeJoined(node=name, capacity=Resources(cpu_m=cpu_m)) for name, cpu_m in (("n2", 2_000), ("n3", 3_000))
    ]
    async with served_pool(await log_of(*others, *running("a"), *running("b", CheckpointMode.NONE))) as pool:
        move = ChangeRequest(change=ChangeKind.MOVE, jobs=("a",))
        dry = await door().change(pool, msgspec.structs.replace(move, dry=True), CALLER)
        assert dry.answers[0].price.startswith("It saves first, so no step is lost. It goes on on n3.")
        assert [job.name for job in pool.feed.view.jobs if job.plan] == []

        (answer,) = (await door().change(pool, move, CALLER)).answers
        assert answer.said.startswith("moves from n1 to n3")
        assert [job.name for job in pool.feed.view.jobs if job.plan] == ["a"]
        with pytest.raises(InputError, match="is in flight"):
            await door().change(pool, move, CALLER)
        with pytest.raises(InputError, match="cannot be checkpointed"):
            await door().change(pool, ChangeRequest(change=ChangeKind.MOVE, jobs=("b",)), CALLER)


async def test_jobs_that_move_together_find_room_beside_each_other() -> None:
    """Each goes where most is free once those before it are there; one that finds no room says so."""
    others = [c.NodeJoined(node=name, capacity=Resources(cpu_m=cpu_m)) for name, cpu_m in (("n2", 100), ("n3", 150))]
    jobs = [event for name in ("a", "b", "d") for event in running(name)]
    async with served_pool(await log_of(*others, *jobs)) as pool:
        found = await door().change(
            pool, ChangeRequest(change=ChangeKind.MOVE, node="n1", jobs=("a", "b", "d")), CALLER
        )
        assert [one.said.partition(" as soon")[0] for one in found.answers] == [
            "moves from n1 to n3",
            "moves from n1 to n2",
            "node n3 has no room for it beside the others that move there",
        ]
        assert [job.node for job in pool.feed.view.jobs] == ["n1", "n1", "n1"]
        assert [job.name for job in pool.feed.view.jobs if job.plan] == ["a", "b"]


async def test_a_job_runs_again_under_the_next_name() -> None:
    """With what it was submitted with; one that was rejected so may be asked for again."""
    first = submitted("a", env={"SEED": "7"})
    async with served_pool(await log_of(first)) as pool:
        await append(pool.log, c.JobRejected(job="a", request=first.request, reason="no room"))  # type: ignore[arg-type]
        await until(lambda: pool.feed.view.jobs["a"].outcome is not None)
        answer = await door().change(pool, ChangeRequest(change=ChangeKind.RETRY, jobs=("a",)), CALLER)
        await until(lambda: "a.2" in pool.feed.view.jobs)

        assert answer.answers[0].again == "a.2"
        assert pool.feed.view.jobs["a.2"].spec.env == {"SEED": "7"}


async def test_of_several_the_error_of_one_is_its_own_answer() -> None:
    """One that the door does not take is named with the reason; the others run again."""
    gone = submitted("b", env={"STEEPEST_POOL": "x"})  # which this door takes from nobody
    async with served_pool(await log_of(submitted("a"), gone)) as pool:
        for request in (submitted("a"), gone):
            rejected = c.JobRejected(job=request.job, request=request.request, reason="no room")
            await append(pool.log, rejected)  # type: ignore[arg-type]
        await until(lambda: pool.feed.view.jobs["b"].outcome is not None)
        answer = await door().change(pool, ChangeRequest(change=ChangeKind.RETRY, jobs=("a", "b")), CALLER)

        assert [(one.name, one.done, one.again) for one in answer.answers] == [("a", True, "a.2"), ("b", False, "")]
        assert "STEEPEST_POOL" in answer.answers[1].said


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (ChangeRequest(change=ChangeKind.HOLD), "bad-input"),
        (ChangeRequest(change=ChangeKind.HOLD, jobs=("nosuch",)), "no-such-job"),
        (ChangeRequest(change=ChangeKind.DRAIN, node="n9"), "no-such-node"),
        (ChangeRequest(change=ChangeKind.HOLD, node="n1"), "no-such-job"),
        (ChangeRequest(change=ChangeKind.DRAIN, jobs=("a",)), "not-changed"),
        (ChangeRequest(change=ChangeKind.PRIORITY, jobs=("a",), to="hihg"), "bad-input"),
        (ChangeRequest(change=ChangeKind.PRIORITY, jobs=("a",), to="9" * 30), "unreadable"),
    ],
)
async def test_what_cannot_be_is_an_error_of_the_caller(asked: ChangeRequest, code: str) -> None:
    """Nothing is appended, and the next request is served."""
    async with served_pool(await log_of(submitted("a"))) as pool:
        end = await pool.log.end(pool.feed.at)
        with pytest.raises(InputError) as refused:
            await door().change(pool, asked, CALLER)
        assert refused.value.code == code
        assert await pool.log.end(pool.feed.at) == end
