"""The runtime over several loops: restarting, waiting for an unavailable log, and stopping."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.harness.system.fake_cluster import When
from tests.harness.system.rig import Rig
from tests.harness.waiting import until

from steepest.errors import LogUnavailableError
from steepest.events import cluster as c
from steepest.log.base import NewRecord
from steepest.runtime.effector import Effector, Send
from steepest.runtime.outbox import LONGEST_WAIT_S
from steepest.runtime.service import Service


class Outage:
    """A hook: while it lasts the log takes and gives nothing."""

    def __init__(self) -> None:
        self.lasts = True
        self.calls = 0

    async def __call__(self, call: str, when: When, _records: Sequence[NewRecord]) -> None:
        """Refuse every call."""
        if self.lasts and when is When.BEFORE:
            self.calls += 1
            raise LogUnavailableError(f"no {call}: the log is away")


class Reporter(Effector):
    """Reports one thing."""

    name = "reporter"

    def __init__(self) -> None:
        self.done = False

    async def run(self, send: Send) -> None:
        """Report it."""
        await send(c.NodeLost(node="n1", silent_ms=7), c.NodeLost(node="n2", silent_ms=8), times=(3, 4))
        self.done = True


async def test_a_process_waits_for_a_log_that_is_away(rig: Rig) -> None:
    """Whether the log is away at the start or later, the process waits, is not ready, lives, and goes on."""
    process = rig.start("placer", "categorizer")
    for outage in (Outage(), Outage()):
        process.log.hook = outage
        await rig.submit(f"j{id(outage)}")
        await rig.clock.sleep(600)
        assert not process.runtime.health.is_ready()
        assert process.runtime.health.is_alive()
        outage.lasts = False
        await until(process.runtime.health.is_ready)
        await until(lambda: all(job.admitted for job in process.view.jobs))

    assert len(await rig.of_type(c.JobAdmitted)) == 2


async def test_attempts_become_rare_but_never_stop(rig: Rig) -> None:
    """The waits between two attempts grow, up to a few seconds and no further."""
    process = rig.start("placer")
    await until(process.runtime.health.is_ready)
    process.log.hook = outage = Outage()
    await rig.clock.sleep(100)
    first = outage.calls
    await rig.clock.sleep(1_000)

    assert 1_000 / LONGEST_WAIT_S - 5 <= outage.calls - first <= 1_000 / LONGEST_WAIT_S + 5


async def test_after_a_time_of_peace_attempts_are_quick_again(rig: Rig) -> None:
    """A loop that has worked for a while is not made to wait for what went wrong last week."""
    process = rig.start("placer")
    process.log.hook = long = Outage()
    await rig.clock.sleep(600)
    long.lasts = False
    await until(process.runtime.health.is_ready)
    await rig.clock.sleep(2 * LONGEST_WAIT_S)
    process.log.hook = short = Outage()
    await until(lambda: not process.runtime.health.is_ready())
    short.lasts = False
    began = rig.clock.monotonic()
    await until(process.runtime.health.is_ready)

    assert rig.clock.monotonic() - began < LONGEST_WAIT_S / 2


async def test_a_process_can_be_stopped_while_its_log_is_away(rig: Rig) -> None:
    """Nothing is lost by giving up: what is in the log stays there."""
    process = rig.start("placer", "categorizer")
    await until(process.runtime.health.is_ready)
    process.log.hook = Outage()
    await rig.clock.sleep(60)
    await process.stop()


async def test_reports_of_effectors_wait_for_the_log(rig: Rig) -> None:
    """An effector's events are appended in one go, with their own times, once the log takes them."""
    reporter = Reporter()
    process = rig.start(Service(name="reporter", effectors=lambda _: (reporter,)))
    await until(process.runtime.health.is_ready)
    process.log.hook = outage = Outage()
    await rig.clock.sleep(0)
    outage.lasts = False
    await until(lambda: reporter.done)
    lost = [(one.event.node, one.at_ms) for one in await rig.events() if isinstance(one.event, c.NodeLost)]

    assert lost == [("n1", 3), ("n2", 4)]
    assert process.runtime.metrics.reports.labels("NodeLost")._value.get() == 2


async def test_a_bug_ends_the_process(rig: Rig) -> None:
    """Only failures of the log are retried: after a bug the process must be restarted, from the log."""

    class Broken(Effector):
        name = "broken"

        async def run(self, send: Send) -> None:
            raise ZeroDivisionError(f"a bug, with {send}")

    process = rig.start(Service(name="broken", effectors=lambda _: (Broken(),)))
    with pytest.raises(ExceptionGroup):
        await process.task
