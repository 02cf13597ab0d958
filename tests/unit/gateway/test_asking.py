"""What callers may ask of a pool, how much of it, and how soon they have an answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import Rig
from tests.harness.virtual_time import run_virtually
from tests.harness.waiting import until
from tests.unit.gateway.in_memory import append, log_of, served_pool

from steepest.clock import SystemClock
from steepest.errors import SteepestError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.gateway import asking
from steepest.gateway.access import AccessRole, Caller, Grants
from steepest.gateway.answers import Answer, Submission
from steepest.gateway.asking import SPEC_MOST, Asking
from steepest.gateway.pools import ServedPool

SUBMITTER = Caller("s" * 20, AccessRole.SUBMIT, has_token=True)
OTHER = Caller("t" * 20, AccessRole.SUBMIT, has_token=True)
OPERATOR = Caller("o" * 20, AccessRole.OPERATE, has_token=True)


def asked(job: str, **spec: Any) -> Submission:
    """A submission with a request of its own name."""
    described = {"command": ("true",), "requests": Resources(cpu_m=10), **spec}
    return Submission(job=job, request=f"of-{job}", spec=c.JobSpec(**described))


def door(priority_most: int = 0) -> Asking:
    """The door to a pool."""
    return Asking(SystemClock(), Grants({}, priority_most=priority_most))


async def refusal(
    pool: ServedPool, submission: Submission, caller: Caller = SUBMITTER, at: Asking | None = None
) -> str:
    """The code with which a submission is refused; empty if it is taken."""
    try:
        await (at or door()).submit(pool, submission, caller)
    except SteepestError as error:
        return error.code
    return ""


@contextlib.asynccontextmanager
async def system(folder: Path) -> AsyncIterator[ServedPool]:
    """A pool that a whole system works on, in virtual time."""
    async with contextlib.aclosing(Rig(folder, {"n": 1000})) as rig:
        rig.start("placer", "migrator", "worker-monitor", "log-collector")
        await rig.configure(PoolParameters())
        async with served_pool(rig.log.reopen(), is_up=True) as pool:
            await until(lambda: pool.feed.view.is_configured)
            yield pool


def test_a_request_that_is_sent_again_is_answered_at_once(tmp_path: Path) -> None:
    """As before, while its job waits, runs or is over, and where it was rejected; nothing is appended for it."""

    async def play() -> list[tuple[str, float, int]]:
        loop, found = asyncio.get_running_loop(), []
        async with system(tmp_path) as pool:
            works = asked("a", command=(PROGRAM, "--steps", "5"))
            never = asked("b", first_node="nowhere")

            async def again(submission: Submission) -> Answer:
                began, end = loop.time(), await pool.log.end(pool.feed.at)
                answer = await door().submit(pool, submission, SUBMITTER)
                found.append((answer.state, loop.time() - began, await pool.log.end(pool.feed.at) - end))
                return answer

            first = await door().submit(pool, works, SUBMITTER)
            assert first == await again(works)
            await until(lambda: pool.feed.view.jobs["a"].outcome is not None)
            await again(works)
            await door().submit(pool, never, SUBMITTER)
            await until(lambda: pool.feed.view.jobs["b"].outcome is not None)
            assert (await again(never)).reason == pool.feed.view.jobs["b"].stop_reason
        return found

    assert run_virtually(play()) == [("admitted", 0.0, 0), ("ended", 0.0, 0), ("ended", 0.0, 0)]


def test_who_submits_is_whose_token_it_is(tmp_path: Path) -> None:
    """The log and the view have the caller's name; a description that says another one is refused."""
    plain = msgspec.to_builtins(asked("a"))
    for lie in ({**plain, "user": "root"}, {**plain, "spec": {**plain["spec"], "user": "root"}}):
        with contextlib.suppress(msgspec.ValidationError):
            assert msgspec.convert(lie, Submission) == asked("a")

    async def play() -> list[str]:
        async with system(tmp_path) as pool:
            await door().submit(pool, asked("a"), msgspec.structs.replace(SUBMITTER, user="alice"))
            await door().submit(pool, asked("b"), SUBMITTER)
            return [pool.feed.view.jobs[name].user for name in "ab"]

    assert run_virtually(play()) == ["alice", ""]


def test_a_request_that_was_rejected_is_rejected_again(tmp_path: Path) -> None:
    """At once, with the same reason."""

    async def play() -> list[Answer]:
        async with system(tmp_path) as pool:
            event = c.JobSubmitted(job="a", request="of-a", spec=c.JobSpec(command=()))
            await append(pool.log, event)  # type: ignore[arg-type]  # what another door has let through
            await until(lambda: "a" in pool.feed.view.jobs and pool.feed.view.jobs["a"].outcome)
            return [await door().submit(pool, asked("a"), SUBMITTER) for _ in range(2)]

    first, again = run_virtually(play())
    assert first == again
    assert (first.state, first.reason) == ("rejected", "a job has a command; this one names no program")


async def test_a_caller_has_so_many_jobs_open_and_so_much_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that are over count no more; other callers' count only where they are in the same queue."""
    monkeypatch.setattr(asking, "OPEN_MOST", 3)
    at = door()
    async with served_pool(await log_of()) as pool:
        one_by_one = [await refusal(pool, asked(f"a{number}", queue=f"q{number % 2}"), at=at) for number in range(4)]
        assert one_by_one == ["", "", "", "too-many-jobs"]
        for number in range(3):
            assert await refusal(pool, asked(f"b{number}", queue="q2"), OTHER, at) == ""
        await until(lambda: len(pool.feed.view.jobs) == 6)
        third = Caller("u" * 20, AccessRole.SUBMIT)
        assert await refusal(pool, asked("c", queue="q2"), third, at) == "too-many-jobs"
        assert await refusal(pool, asked("c", queue="q1"), third, at) == ""
        await append(pool.log, c.JobRejected(job="a0", request="of-a0", reason="it may not"))  # type: ignore[arg-type]
        await until(lambda: pool.feed.view.jobs["a0"].outcome)
        assert await refusal(pool, asked("a3", queue="q3"), at=at) == ""
        assert await refusal(pool, asked("a4", queue="q3"), at=at) == "too-many-jobs"


async def test_what_is_asked_at_the_same_time_is_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before the pool's log was read again, and where it can not be appended to."""
    monkeypatch.setattr(asking, "OPEN_BYTES", 1_000)
    at = door()
    async with served_pool(await log_of()) as pool:
        many = [refusal(pool, asked(f"a{number}", env={"X": "x" * 300}), at=at) for number in range(9)]
        assert sorted(await asyncio.gather(*many)) == [""] * 3 + ["too-many-jobs"] * 6
        await until(lambda: len(pool.feed.view.jobs) == 3)
        await pool.log.close()
        assert await refusal(pool, asked("b", env={"X": "x" * 900}, queue="q"), OTHER, at) == "log-unavailable"
        assert await refusal(pool, asked("b", env={"X": "x" * 900}, queue="q"), OTHER, at) == "log-unavailable"


async def test_a_long_description_is_refused() -> None:
    """Of a command, of variables, and of anything else: everybody who follows the pool keeps it in memory."""
    async with served_pool(await log_of()) as pool:
        long = "x" * SPEC_MOST
        parts: list[dict[str, Any]] = [{"command": ("true", long)}, {"env": {"X": long}}, {"working_dir": long}]
        assert [await refusal(pool, asked("a", **part)) for part in parts] == ["too-large"] * 3
        assert await refusal(pool, asked("a", command=("true", "x" * (SPEC_MOST - 200)))) == ""


async def test_only_operators_exceed_the_highest_priority() -> None:
    """Others are suspended for an urgent job: who may not stop them may not ask for that, by a class either."""
    async with served_pool(await log_of()) as pool:
        urgent = asked("a", priority_class="high")
        found = [
            await refusal(pool, one) for one in (asked("b", priority=1), urgent, asked("c", priority=-1), asked("d"))
        ]
        assert found == ["forbidden", "forbidden", "", ""]
        assert await refusal(pool, urgent, at=door(priority_most=100)) == ""
        assert await refusal(pool, asked("e", priority=101), at=door(priority_most=100)) == "forbidden"
        assert await refusal(pool, asked("f", priority=101), OPERATOR) == ""


async def test_the_names_of_users_objects_are_theirs() -> None:
    """Where there are such objects: on Kubernetes. Elsewhere a name may end in a date."""
    taken = asked("victim.0a1b2c3d")
    async with served_pool(await log_of(), on_kubernetes=True) as pool:
        assert await refusal(pool, taken) == "bad-input"
        assert [await refusal(pool, asked(name)) for name in ("victim", "victim.0a1b2c3", "a.0a1b2c3g")] == [""] * 3
    async with served_pool(await log_of()) as pool:
        assert await refusal(pool, taken) == ""
