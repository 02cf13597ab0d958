"""The log-collector in a whole system: every report is counted once under any kills of its process."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.fake_cluster import When
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import POOL, Rig, RigProcess, events_of
from tests.harness.system.simulated_cluster import SimulatedCluster
from tests.harness.waiting import until

from steepest.cluster.port import MetricsPlace, ReplicaFiles, ReplicaId
from steepest.collector import feed, source
from steepest.collector.losses import LossCollector
from steepest.errors import ClusterError, RefusedError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.loss import JobUnwatched, JobWatched, LossDiverged, LossReported
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.events.received import SEQUENCE, SOURCE, Received
from steepest.log.base import NewRecord
from steepest.view.state import Phase
from steepest_lab.simulated.training import Training


async def losses(rig: Rig) -> list[Received[Any]]:
    """What the categorizer takes from the log: events in order, without those whose number is not new."""
    taken: list[Received[Any]] = []
    newest: dict[str, int] = {}
    for at in rig.layout.of_topic("loss"):
        for received in await events_of(rig.log, at):
            source, number = received.headers.get(SOURCE, ""), int(received.headers.get(SEQUENCE, "0"))
            if source and number <= newest.get(source, -1):
                continue
            newest[source] = number
            taken.append(received)
    return taken


async def steps(rig: Rig, job: str, incarnation: int = 1) -> list[int | None]:
    """The steps that count of an incarnation, in order."""
    found = [one.event for one in await losses(rig) if isinstance(one.event, LossReported)]
    return [one.step for one in found if (one.job, one.incarnation) == (job, incarnation)]


async def over(rig: Rig, process: RigProcess, *jobs: str) -> None:
    """Wait until jobs are over, and unwatched."""

    def are_over() -> bool:
        found = [process.view.jobs.get(job) for job in jobs]
        return all(job is not None and job.phase is Phase.ENDED for job in found)

    await until(are_over, "the jobs to be over", within_s=300)
    while not set(jobs) <= {one.event.job for one in await losses(rig) if isinstance(one.event, JobUnwatched)}:
        await rig.clock.sleep(0.1)


def training(rig: Rig, job: str = "a") -> Training:
    """The newest process of a job."""
    found = rig.nodes.newest(ReplicaId(job))
    assert found is not None
    return found


def files(rig: Rig, job: str = "a") -> ReplicaFiles:
    """Where the newest process of a job prints and reports."""
    return rig.nodes.witness.files(training(rig, job))


def output(rig: Rig, text: str, job: str = "a") -> None:
    """Let a job print something."""
    with files(rig, job).output.open("a") as file:
        file.write(text)


async def submit(rig: Rig, job: str, *arguments: str, **spec: Any) -> None:
    """Submit a training with more to its spec than the rig knows."""
    asked = c.JobSpec(command=(PROGRAM, *arguments), requests=Resources(cpu_m=100), **spec)
    await rig.append(c.JobSubmitted(job=job, request=f"submit-{job}", spec=asked))


async def begun(process: RigProcess, rig: Rig, job: str = "a") -> None:
    """Wait until a job trains."""
    await until(lambda: job in process.view.jobs and process.view.jobs[job].alive)
    await until(lambda: (training(rig, job).step or 0) > 0)


# --- from beginning to end --------------------------------------------------------------------------------------------


async def test_every_report_is_sent_once_between_watching_and_unwatching(rig: Rig) -> None:
    """First what is to be known of the job, then its reports in order, then that no more will come."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "12", "--step-s", "1", "--flat-after", "5")
    await over(rig, process, "a")
    kinds = [type(one.event) for one in await losses(rig) if getattr(one.event, "job", "") == "a"]

    assert kinds == [JobWatched, *[LossReported] * 12, JobUnwatched]
    assert await steps(rig, "a") == list(range(1, 13))


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_metrics_folder_is_read_if_the_cluster_has_it(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_refused: bool
) -> None:
    """One that the job could not read itself is passed over, and its reports count all the same."""

    def refuse(*_: object) -> MetricsPlace:
        raise RefusedError("another job's")

    if is_refused:
        monkeypatch.setattr(SimulatedCluster, "metrics_folder", refuse)
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "val_loss").write_text("1 0.97 30\n")
    process = rig.start("log-collector")
    await submit(rig, "a", "--steps", "3", "--step-s", "1", "--flat-after", "5", metrics_folder=str(tmp_path))
    await over(rig, process, "a")

    assert {*await steps(rig, "a")} == {1, 2, 3} | (set() if is_refused else {30})


async def test_reports_carry_the_time_of_the_job(rig: Rig) -> None:
    """A report's time is when it was made: a second after the one before it."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "5", "--step-s", "1", "--flat-after", "5")
    await over(rig, process, "a")
    times = [one.at_ms for one in await losses(rig) if isinstance(one.event, LossReported)]

    assert [time - times[0] for time in times] == [0, 1_000, 2_000, 3_000, 4_000]


async def watched_with(rig: Rig) -> list[tuple[int, SpeConParameters]]:
    """The incarnation and the parameters of each announcement."""
    events = [one.event for one in await losses(rig)]
    return [(event.incarnation, event.parameters) for event in events if isinstance(event, JobWatched)]


NEW = SpeConParameters(interval_ms=10_000, alpha=0.5)


async def test_parameters_put_in_force_reach_a_job_that_runs(rig: Rig) -> None:
    """They are announced once, before its next report, and its growth is measured in their intervals from there on."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "200", "--step-s", "1", "--flat-after", "5")
    await begun(process, rig)
    await rig.clock.sleep(20)
    await rig.configure(PoolParameters(specon=NEW))
    await rig.configure(PoolParameters(specon=NEW, moves=False))
    await over(rig, process, "a")
    measured = [one for one in await rig.of_type(c.GrowthMeasured) if one.first_ms]

    assert await watched_with(rig) == [(1, SpeConParameters(interval_ms=2_000)), (1, NEW)]
    assert [one.count for one in measured[-4:]] == [10] * 4


async def test_parameters_put_in_force_while_the_collector_is_down_are_announced_at_its_start(rig: Rig) -> None:
    """A job that runs on is judged by them from its next report on."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "60", "--step-s", "1", "--flat-after", "5")
    await begun(process, rig)
    await rig.clock.sleep(10)
    process.kill()
    await rig.configure(PoolParameters(specon=NEW))
    await over(rig, rig.start("log-collector"), "a")

    assert await watched_with(rig) == [(1, SpeConParameters(interval_ms=2_000)), (1, NEW)]
    assert await steps(rig, "a") == list(range(1, 61))


async def test_incarnations_are_told_one_after_the_other(rig: Rig) -> None:
    """All reports of an incarnation stand before the first of the next one."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "12", "--step-s", "1", "--flat-after", "5", node="n1")
    await begun(process, rig)
    await rig.migrate("a", "n1", "n2")
    await over(rig, process, "a")
    order = [one.event.incarnation for one in await losses(rig) if isinstance(one.event, LossReported | JobWatched)]

    assert order == sorted(order)
    assert [*await steps(rig, "a", 1), *await steps(rig, "a", 2)] == list(range(1, 13))


async def test_an_incarnation_waits_for_the_one_before_it(rig: Rig) -> None:
    """Also where the log is slow to take what the older one reported."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "12", "--step-s", "1", "--flat-after", "5", node="n1")
    await begun(process, rig)

    async def slow(call: str, when: When, records: Sequence[NewRecord]) -> None:
        is_old = any(b"LossReported" in one.value and b'"incarnation":1' in one.value for one in records)
        if (call, when) == ("append", When.BEFORE) and is_old:
            await rig.clock.sleep(3)

    process.log.hook = slow
    await rig.migrate("a", "n1", "n2")
    await over(rig, process, "a")
    order = [one.event.incarnation for one in await losses(rig) if isinstance(one.event, LossReported | JobWatched)]

    assert order == sorted(order)
    assert [*await steps(rig, "a", 1), *await steps(rig, "a", 2)] == list(range(1, 13))


async def test_an_end_that_only_the_migrator_saw_holds_up_nobody(rig: Rig) -> None:
    """A process that dies at its target is followed no longer than until the next one is placed."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "20", "--step-s", "1", "--flat-after", "5", node="n1")
    await begun(process, rig)
    await rig.migrate("a", "n1", "n2")
    await until(lambda: training(rig).incarnation == 2)
    training(rig).kill()
    await until(lambda: training(rig).incarnation == 3)
    while not await steps(rig, "a", 3):
        await rig.clock.sleep(0.1)

    assert rig.nodes.running("a")


async def test_a_job_that_ends_immediately_is_read(rig: Rig) -> None:
    """Also where its end is reported before its beginning."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "1", "--step-s", "0.001", "--flat-after", "5")
    await over(rig, process, "a")

    assert await steps(rig, "a") == [1]


# --- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill_s", [0.5, 6.5, 7.5, 11.5])
async def test_a_collector_that_was_killed_goes_on(rig: Rig, kill_s: float) -> None:
    """Killed at any time between sending and keeping its place, it loses no report, and none counts twice."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "15", "--step-s", "0.5", "--flat-after", "9")
    await begun(process, rig)
    await rig.clock.sleep(kill_s)
    process.kill()
    await rig.clock.sleep(2)
    again = rig.start("log-collector")
    await over(rig, again, "a")

    assert await steps(rig, "a") == list(range(1, 16))


async def test_a_job_that_ended_meanwhile_is_read_to_its_end(rig: Rig) -> None:
    """What a job reported while no collector was there is sent by the next one, and then it is unwatched."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "8", "--step-s", "1", "--flat-after", "5")
    await begun(process, rig)
    process.kill()
    await rig.clock.sleep(20)
    assert not rig.nodes.running("a")
    again = rig.start("log-collector")
    await over(rig, again, "a")

    assert await steps(rig, "a") == list(range(1, 9))


async def test_a_job_that_came_and_went_meanwhile_is_read(rig: Rig) -> None:
    """Also one that no collector has ever seen running."""
    process = rig.start("log-collector")
    await until(process.runtime.health.is_ready)
    process.kill()
    await rig.submit("a", "--steps", "3", "--step-s", "1", "--flat-after", "5")
    await rig.clock.sleep(20)
    again = rig.start("log-collector")
    await over(rig, again, "a")

    assert await steps(rig, "a") == [1, 2, 3]


async def test_what_was_read_is_not_read_again(rig: Rig) -> None:
    """A collector that starts after the job's end sends none of its reports again, and forgets its place in time."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "8", "--step-s", "1", "--flat-after", "5")
    await over(rig, process, "a")
    process.kill()
    sent = sum([await rig.log.end(at) for at in rig.layout.of_topic("loss")])
    again = rig.start("log-collector")
    await until(again.runtime.health.is_ready)
    await rig.clock.sleep(5)
    reports = [one for at in rig.layout.of_topic("loss") for one in (await events_of(rig.log, at))]

    assert len([one for one in reports if isinstance(one.event, LossReported)]) == 8
    assert len(reports) == sent + 1  # it is unwatched once more, which is harmless
    again.kill()
    await until(lambda: not rig.nodes.jobs, within_s=120)
    last = rig.start("log-collector")
    await until(last.runtime.health.is_ready)
    await until(lambda: not (rig.folder / "state" / "collector" / "a").exists())


# --- which source counts ------------------------------------------------------------------------------------------------


async def test_reports_go_before_printed_lines(rig: Rig) -> None:
    """What a job prints counts no more once it has reported through the SDK."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "8", "--step-s", "1", "--flat-after", "5")
    await begun(process, rig)
    for step in range(1, 6):
        output(rig, f"step {100 + step} loss: {1 / step:.4f}\n")
        await rig.clock.sleep(1)
    await over(rig, process, "a")

    assert await steps(rig, "a") == list(range(1, 9))


async def test_a_backlog_does_not_mix_sources(rig: Rig) -> None:
    """Read late, both files are complete; the reports still go first."""
    await rig.submit("a", "--steps", "60", "--step-s", "1", "--flat-after", "5")
    await rig.clock.sleep(5)
    output(rig, "".join(f"step {100 + step} loss: {1 / step:.4f}\n" for step in range(1, 60)))
    process = rig.start("log-collector")
    await over(rig, process, "a")

    assert await steps(rig, "a") == list(range(1, 61))


async def test_reports_are_looked_for_before_a_line_counts(rig: Rig) -> None:
    """A job that for long reported nothing but its steps has reported losses since; then what it printed counts no more."""
    await rig.submit("a", "--steps", "2", "--step-s", "5", "--flat-after", "5")
    await until(lambda: rig.nodes.newest(ReplicaId("a")) is not None)
    await until(files(rig).reports.exists)
    with files(rig).reports.open("a") as reports:
        reports.write('{"step": 0, "metrics": {}}\n' * 50_000)
    output(rig, "step 101 loss: 0.5\n")
    await rig.clock.sleep(6)
    process = rig.start("log-collector")
    await over(rig, process, "a")

    assert await steps(rig, "a") == [1, 2]


async def test_after_a_restart_reports_still_go_first(rig: Rig) -> None:
    """A restarted collector knows that the job has reported, also where its next report takes long."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "3", "--step-s", "10", "--flat-after", "5")
    await begun(process, rig)
    while await steps(rig, "a") != [1]:
        await rig.clock.sleep(0.1)
    await rig.clock.sleep(1)
    process.kill()
    output(rig, "step 101 loss: 0.5\n")
    again = rig.start("log-collector")
    await over(rig, again, "a")

    assert await steps(rig, "a") == [1, 2, 3]


async def test_printed_lines_count_where_nothing_is_reported(rig: Rig) -> None:
    """A job that only says how many steps are done, or nothing, is read from its output."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "8", "--step-s", "1")
    await begun(process, rig)
    for step in range(1, 6):
        output(rig, f"step {step} loss: {1 / step:.4f}\n")
        await rig.clock.sleep(0.5)
    await over(rig, process, "a")

    assert await steps(rig, "a") == [1, 2, 3, 4, 5]


async def test_what_is_no_number_is_told_apart(rig: Rig) -> None:
    """NaN and infinities become events of their own, in their place."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "8", "--step-s", "1")
    await begun(process, rig)
    output(rig, "step 1 loss: 0.5\nstep 2 loss: nan\nstep 3 loss: inf\nstep 4 loss: -inf\nstep 5 loss: 0.25\n")
    await over(rig, process, "a")
    reported = [
        (one.event.step, one.event.value)
        for one in await losses(rig)
        if isinstance(one.event, LossReported | LossDiverged)
    ]

    assert reported == [(1, 0.5), (2, "nan"), (3, "inf"), (4, "-inf"), (5, 0.25)]


async def test_a_metric_with_another_name_is_watched_from_there_on(rig: Rig) -> None:
    """The new name stands between the last report of the old one and the first of its own that is judged."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "8", "--step-s", "1")
    await begun(process, rig)
    text = [{"step": step, "metrics": {"loss" if step < 5 else "lm_loss": 1 / step}} for step in range(1, 31)]
    with files(rig).reports.open("a") as reports:
        reports.write("".join(json.dumps(line) + "\n" for line in text))
    await over(rig, process, "a")
    events = [one.event for one in await losses(rig) if isinstance(one.event, JobWatched | LossReported)]
    watched = [at for at, event in enumerate(events) if isinstance(event, JobWatched)]

    assert [events[at].metric for at in watched] == ["loss", "lm_loss"]
    assert all(event.metric == "lm_loss" for event in events[watched[1] :])
    assert len([event for event in events if isinstance(event, LossReported)]) == 30


# --- hostile and broken -----------------------------------------------------------------------------------------------


async def damage_format(rig: Rig) -> None:
    """A log format that there is none of."""
    await submit(rig, "bad", "--steps", "3", "--step-s", "1", log_format="no-such-format")


async def damage_file(rig: Rig) -> None:
    """Reports that cannot be read: a folder has their name."""
    await submit(rig, "bad", "--steps", "30", "--step-s", "1")
    await until(lambda: rig.nodes.newest(ReplicaId("bad")) is not None)
    reports = files(rig, "bad").reports
    reports.unlink(missing_ok=True)
    reports.mkdir()


async def damage_lines(rig: Rig) -> None:
    """Bytes that are no text, without an end."""
    await submit(rig, "bad", "--steps", "5", "--step-s", "1")
    await until(lambda: rig.nodes.newest(ReplicaId("bad")) is not None)
    files(rig, "bad").output.write_bytes(b"loss: \xff\xfe\x00{" * 100_000)


@pytest.mark.parametrize("damage", [damage_format, damage_file, damage_lines])
async def test_a_broken_job_is_no_other_jobs_trouble(rig: Rig, damage: Callable[[Rig], Awaitable[None]]) -> None:
    """With any damage to one job's output, the others' reports continue, and the process lives."""
    process = rig.start("log-collector")
    await damage(rig)
    await rig.submit("a", "--steps", "5", "--step-s", "1", "--flat-after", "5")
    await over(rig, process, "a", "bad")

    assert await steps(rig, "a") == [1, 2, 3, 4, 5]
    assert not process.task.done()


async def test_a_training_that_has_not_begun_has_no_files(rig: Rig) -> None:
    """The nodes in memory say so as an adapter does."""
    await rig.submit("a", "--steps", "1", "--step-s", "1")
    process = rig.start("log-collector")
    await over(rig, process, "a")
    witness = rig.nodes.witness
    (known,) = witness._folders
    del witness._folders[known]

    with pytest.raises(ClusterError, match="has not begun"):
        witness.files(known)


@pytest.mark.parametrize("error", [PermissionError(13, "a test forbids it"), KeyError("a bug of an adapter")])
async def test_a_node_that_cannot_be_looked_at_stops_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A listing of the cluster's files that fails is logged, and the next job is read."""

    def unreadable(*_: object, **_named: object) -> list[Training]:
        raise error

    process = rig.start("log-collector")
    await until(process.runtime.health.is_ready)
    collector = next(one for one in process.runtime.pools[POOL].effectors if isinstance(one, LossCollector))
    monkeypatch.setattr(collector._cluster, "files", unreadable)
    await rig.submit("bad", "--steps", "5", "--step-s", "1", "--flat-after", "5")
    await begun(process, rig, "bad")
    await rig.clock.sleep(1)
    monkeypatch.undo()
    await rig.submit("a", "--steps", "5", "--step-s", "1", "--flat-after", "5")
    await over(rig, process, "a", "bad")

    assert await steps(rig, "a") == [1, 2, 3, 4, 5]


async def test_a_step_that_is_none_is_left_out(rig: Rig) -> None:
    """A report with a negative or an enormous step counts as one without a step: the event could not be decoded."""
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "12", "--step-s", "1", "--flat-after", "5")
    await begun(process, rig)
    with files(rig).reports.open("a") as file:
        file.write('{"step": -5, "metrics": {"loss": 0.125}}\n')
    await over(rig, process, "a")
    odd = [one.event for one in await losses(rig) if isinstance(one.event, LossReported) and one.event.value == 0.125]

    assert [event.step for event in odd] == [None]


async def test_a_job_that_reports_without_end_is_taken_to_a_bound(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports beyond the bound are left out; the other job is reported in full, and both are read to their ends."""
    monkeypatch.setattr(feed, "RECORDS_BURST", 10)
    monkeypatch.setattr(feed, "RECORDS_S", 1)
    process = rig.start("log-collector")
    for job in ("a", "b"):
        await rig.submit(job, "--steps", "8", "--step-s", "1", "--flat-after", "5")
        await begun(process, rig, job)
    with files(rig).reports.open("a") as flood:
        flood.writelines(f'{{"step": {step}, "metrics": {{"loss": 1.0}}}}\n' for step in range(100, 5_000))
    await over(rig, process, "a", "b")

    taken = await steps(rig, "a")
    watched = [one.event for one in await losses(rig) if isinstance(one.event, JobWatched)]
    said = [one.left_out for one in watched if one.job == "a"]
    assert 10 <= len(taken) <= 40
    assert said[-1] == 8 + 4_900 - len(taken)
    assert all(later > 2 * earlier for earlier, later in pairwise(said[:-1]))
    assert await steps(rig, "b") == list(range(1, 9))
    assert [one.left_out for one in watched if one.job == "b"] == [0]


async def test_of_a_file_without_end_no_more_is_read_after_the_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of terabytes does not keep its job from being over."""
    monkeypatch.setattr(source, "BYTES_BURST", 1 << 20)
    process = rig.start("log-collector")
    await rig.submit("a", "--steps", "8", "--step-s", "1", "--flat-after", "5")
    await begun(process, rig)
    files(rig).output.touch()
    os.truncate(files(rig).output, 1 << 40)
    await over(rig, process, "a")

    assert await steps(rig, "a") == list(range(1, 9))
