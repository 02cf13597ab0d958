"""Messages about findings: each target learns what holds, seldom enough, and no other part waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import FoldedPool
from tests.harness.virtual_time import VirtualClock, run_virtually

from steepest.events import cluster as c
from steepest.events.growth import FindingKind
from steepest.events.received import Received
from steepest.notify import news
from steepest.notify.notifier import Channel, Notifier
from steepest.notify.targets import Target

HUNG, IDLE, SPIKE, PLATEAU = FindingKind.HUNG, FindingKind.IDLE, FindingKind.SPIKE, FindingKind.PLATEAU
OPS = {"ops": Target(url="json://localhost")}


class WatchedPool(FoldedPool):
    """A pool with the jobs a and b, and a notifier that follows it once there is one.

    Attributes:
        messages: Title and text of each that arrived, with its target and time.
        messages_counted: What was counted: a target, an outcome and how many more.
        takes: Whether a message is taken, by target.
    """

    def __init__(self) -> None:
        self.notifier: Notifier | None = None
        self.messages: list[tuple[str, str, str, float]] = []
        self.messages_counted: list[tuple[str, str, int]] = []
        self.takes: Callable[[str], bool] = lambda _: True
        super().__init__(w1=4_000)
        self.run("a", "w1")
        self.run("b", "w1", queue="paper")

    def take_in(self, received: Received[c.ClusterEvent]) -> bool:
        """Fold a record, and show it to the notifier."""
        accepted = super().take_in(received)
        if self.notifier is not None:
            self.notifier.observe(self.view, received, accepted=accepted)
        return accepted

    def opens(self, kind: FindingKind = HUNG, job: str = "a") -> None:
        """Something is found."""
        self.fold(c.FindingOpened(job=job, incarnation=self.job(job).incarnation, kind=kind, why="no step for 70 s"))

    def ends(self, kind: FindingKind = HUNG, job: str = "a") -> None:
        """It is over."""
        self.fold(c.FindingEnded(job=job, incarnation=self.job(job).incarnation, kind=kind, why="it makes steps again"))

    @asynccontextmanager
    async def notifies(self, targets: dict[str, Target] = OPS, page: str = "") -> AsyncIterator[None]:
        """Run a notifier meanwhile, as the worker-monitor does."""
        clock = VirtualClock()

        def channel(name: str) -> Channel:
            async def send(title: str, body: str) -> bool:
                await asyncio.sleep(1)
                if self.takes(name):
                    self.messages.append((name, title, body, clock.monotonic()))
                return self.takes(name)

            return send

        async def append(*events: msgspec.Struct, **_: Any) -> None:
            self.feed(*events)  # type: ignore[arg-type]

        self.notifier = Notifier(
            targets,
            {name: channel(name) for name in targets},
            pool="p",
            clock=clock,
            page=page,
            count=lambda *counted: self.messages_counted.append(counted),
        )
        self.notifier.caught_up(self.view)
        task = asyncio.ensure_future(self.notifier.run(append))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.notifier = None

    @property
    def titles(self) -> list[str]:
        """Those of all messages."""
        return [title for _, title, _, _ in self.messages]


async def test_a_finding_and_its_end_are_sent_with_the_page_of_the_job() -> None:
    """One message each; the log says that they were sent, and the view who has heard of what."""
    pool = WatchedPool()
    async with pool.notifies(page="https://steepest.example/"):
        pool.opens()
        await asyncio.sleep(100)
        assert pool.job("a").notified == {HUNG: ("ops",)}
        pool.ends()
        await asyncio.sleep(100)
    assert pool.titles == ["a hangs: no step for 70 s (on w1)", "a hangs no longer: it makes steps again"]
    assert pool.messages_counted == [("ops", "sent", 0), ("ops", "failed", 0), ("ops", "sent", 1), ("ops", "sent", 1)]
    assert pool.messages[0][2].endswith("\nhttps://steepest.example/#/job/a")
    assert pool.job("a").notified == {}


async def test_each_target_gets_what_it_asks_for() -> None:
    """By queue, by user, by job and by kind; a spike only where it is named, a plateau of a job without a total never."""
    pool = WatchedPool()
    pool.job("b").user = "alice"
    targets = {
        "all": Target(url="json://a"),
        "paper": Target(url="json://b", queues=("paper",)),
        "alice": Target(url="json://d", users=("alice",)),
        "mine": Target(url="json://c", jobs=("a*",), kinds=(SPIKE, PLATEAU)),
    }
    async with pool.notifies(targets):
        for job in "ab":
            for kind in (HUNG, SPIKE, PLATEAU):
                pool.opens(kind, job)
        await asyncio.sleep(10)
    texts = {target: body.count("no step") for target, _, body, _ in pool.messages}
    assert texts == {"all": 2, "paper": 1, "alice": 1, "mine": 1}


async def test_what_was_found_while_no_process_ran_is_sent_once() -> None:
    """The next one finds in the view what was not sent, and sends nothing twice."""
    pool = WatchedPool()
    pool.opens()
    for _ in range(2):
        async with pool.notifies():
            await asyncio.sleep(100)
    assert len(pool.messages) == 1
    pool.ends()
    for _ in range(2):
        async with pool.notifies():
            await asyncio.sleep(100)
    assert pool.titles[1:] == ["a hangs no longer: its process was started again"]


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_finding_ends_with_its_process(restarts: bool) -> None:  # noqa: FBT001 - a case
    """Also where nothing in the log says so; the message says what became of the job."""
    pool = WatchedPool()
    async with pool.notifies():
        pool.opens()
        await asyncio.sleep(100)
        reason = "hung: no step for 70 s"
        pool.fold(c.ReactionPlanned(job="a", incarnation=1, kind=HUNG, restarts=restarts, reason=reason))
        pool.carry_out("a")
        if restarts:
            pool.fold(c.RetryPlanned(job="a", incarnation=1, charged=False, not_before_ms=0, reason=reason))
        else:
            pool.fold(c.JobEnded(job="a", outcome=c.Outcome.FAILED, reason=reason))
        await asyncio.sleep(100)
    why = "its process was stopped" if restarts else "the job is over: failed, hung: no step for 70 s"
    assert pool.titles[1:] == [f"a hangs no longer: {why}"]
    assert pool.job("a").notified == {}


async def test_a_target_that_takes_nothing_holds_up_no_other() -> None:
    """It is tried again each minute, and gets what still holds then."""
    pool = WatchedPool()
    pool.takes = lambda name: name == "good"
    async with pool.notifies({"bad": OPS["ops"], "good": OPS["ops"]}):
        pool.opens(HUNG, "a")
        pool.opens(IDLE, "b")
        await asyncio.sleep(300)
        pool.ends(IDLE, "b")
        pool.takes = lambda _: True
        await asyncio.sleep(100)
    assert [(to, title) for to, title, *_ in pool.messages if to == "bad"] == [
        ("bad", "a hangs: no step for 70 s (on w1)")
    ]
    assert [to for to, *_ in pool.messages].count("good") == 2


async def test_a_job_that_hangs_and_goes_on_by_turns_is_seven_messages_an_hour() -> None:
    """The pause doubles with each message of the last hour."""
    pool = WatchedPool()
    async with pool.notifies():
        for _ in range(3 * 60):
            pool.opens()
            await asyncio.sleep(30)
            pool.ends()
            await asyncio.sleep(30)
    assert len(pool.messages) <= 3 * 7


async def test_many_findings_are_one_message_of_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster whose storage hangs is one message; what does not fit is counted."""
    monkeypatch.setattr(news, "WAITING_MOST", 30)
    pool = WatchedPool()
    async with pool.notifies():
        for number in range(40):
            pool.run(f"j{number}", "w1", cpu_m=10)
            pool.opens(HUNG, f"j{number}")
        await asyncio.sleep(10)
    ((_, title, body, _),) = pool.messages
    assert title == "30 hung in pool p"
    assert (body.count("no step"), body.endswith("and 20 more")) == (20, True)


ACT = st.sampled_from(["opens", "ends", "fails", "works", "dies", "waits"])
ACTS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([HUNG, IDLE]), ACT), max_size=30)


@given(acts=ACTS)
def test_in_the_end_a_target_knows_what_holds(acts: list[tuple[str, FindingKind, str]]) -> None:
    """Whatever opens, ends, fails and dies in between: of each finding it was sent the newest state, and none twice."""

    async def play() -> None:
        pool = WatchedPool()
        heard: dict[tuple[str, FindingKind], bool] = {}
        rest = list(acts)
        while rest:
            async with pool.notifies():
                while rest:
                    job, kind, act = rest.pop(0)
                    if act in {"opens", "ends"}:
                        getattr(pool, act)(kind, job)
                    elif act in {"fails", "works"}:
                        pool.takes = lambda _, works=act == "works": works  # type: ignore[misc]
                    elif act == "dies":
                        break
                    await asyncio.sleep(7 if act == "waits" else 0)
        pool.takes = lambda _: True
        async with pool.notifies():
            await asyncio.sleep(10_000)
        for event in (received.event for received in pool.log):
            if isinstance(event, c.TargetNotified):
                assert heard.get((event.job, event.kind), False) is event.over
                heard[event.job, event.kind] = not event.over
        holds = {(job, kind): True for job in "ab" for kind in pool.job(job).findings}
        assert {key: True for key, is_open in heard.items() if is_open} == holds

    run_virtually(play())
