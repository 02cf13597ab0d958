"""``steepest explain``: why a job is where it is, from the log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.printing.job_timeline import JobTimeline
    from steepest.log.base import Log, TopicPartition

EPILOG = """\b
Examples:
  steepest explain mnist-3fa2
  steepest explain mnist-3fa2 --json | jq '.entries[] | select(.void != "")'

Each decision is shown with its inputs: the nodes that were looked at with their scores, why others were out of
the question, why a plan became void. The line `now` says what the job waits for. Behind it, a job that failed has the last
lines that it printed; `steepest logs` shows more.
"""


@click.command(epilog=EPILOG)
@click.argument("job")
@installation_options
@json_option
def explain(job: str, settings: Settings, *, as_json: bool) -> None:
    """Tell why JOB is where it is: every decision about it, with its reasons."""
    import asyncio

    import msgspec

    from steepest.cli.jobs.job_output import printed_last
    from steepest.describe import one_line
    from steepest.events.cluster import Outcome

    story, note = asyncio.run(_read(settings, job))
    printed = printed_last(settings.pool_folder, job) if story.outcome is Outcome.FAILED else []
    if as_json:
        give(msgspec.to_builtins(story) | ({"printed": printed} if printed else {}))
        return
    for entry in story.entries:
        tell(f"{_clock(entry.at_ms)}  {entry.sentence}")
        for line in entry.details:
            tell((f"{'':10}{one_line(line)}", {"dim": True}))
    if story.left_out:
        tell(f"{'left out':<10}{story.left_out:,} of its loss records: more than is taken of one job")
    tell((f"{'now':<10}", {"bold": True}), one_line(story.now))
    if story.progress:
        tell(f"{'progress':<10}{one_line(story.progress)}")
    for line in printed:
        tell((f"{'printed':<10}", {"dim": True}), click.unstyle(line))
    if note:
        tell(note, err=True)


def _clock(at_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_ms / 1000))


async def _read(settings: Settings, job: str) -> tuple[JobTimeline, str]:
    """The story, from the log's first record: a snapshot knows how things stand, and not how they came to be so."""
    from steepest.cli.pool.stored_pool import fold, reading
    from steepest.cli.printing.job_timeline import TimelineCollector

    teller = TimelineCollector(job)
    async with reading(settings) as (installation, log):
        pool = await fold(settings, installation, log, on_record=teller.hear)
        pool.job(job)
        left_out = await _left_out(log, installation.layout.of_key("loss", job), job)
    return teller.story(pool.view, left_out), pool.note


async def _left_out(log: Log, at: TopicPartition, job: str) -> int:
    """How many of a job's loss records were left out: of each incarnation, what the log-collector said last."""
    from steepest.cli.pool.stored_pool import records_to_end
    from steepest.errors import UndecodableError
    from steepest.events.loss import JobWatched
    from steepest.runtime.decode import received

    counts: dict[int, int] = {}
    async for record in records_to_end(log, at):
        if record.key != job:
            continue
        try:
            event = received(record).event
        except UndecodableError:
            continue
        if isinstance(event, JobWatched):
            counts[event.incarnation] = event.left_out
    return sum(counts.values())
