"""``steepest explain``: why a job is where it is, from the log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from steepest.cli.options import json_option, remote_options
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steepest.app.settings.tree import Settings
    from steepest.log.base import Log, TopicPartition
    from steepest.read_models.job_timeline import JobTimeline, TimelineEntry

EPILOG = """\b
Examples:
  steepest explain mnist-3fa2
  steepest explain mnist-3fa2 --verbose            with the steps in between, and what else could have been decided
  steepest explain mnist-3fa2 --at 1200            as it was before the record 1200 of `steepest events`
  steepest explain mnist-3fa2 --server kube:       ask the gateway in the current kube context
  steepest explain mnist-3fa2 --json | jq '.entries[] | select(.rule != "") | {rule, formula, inputs, alternatives}'

Each decision is shown with its inputs: the nodes that were looked at with their scores, why others were out of
the question, why a plan became void. An alternative says why it was not chosen, and what would have to be different. The
line `now` says what the job waits for. Behind it, a job that failed has the last lines that it printed; `steepest logs`
shows more.
"""


@click.command(epilog=EPILOG)
@click.argument("job")
@remote_options
@click.option("--at", type=click.IntRange(0), metavar="OFFSET", help="Explain what was known before this record.")
@click.option("--verbose", is_flag=True, help="Show the steps, earlier limits and alternatives too.")
@json_option
def explain(job: str, settings: Settings, *, at: int | None, verbose: bool, as_json: bool) -> None:
    """Tell why JOB is where it is: every decision about it, with its reasons."""
    import asyncio

    import msgspec

    from steepest.cli.jobs.job_output import printed_last
    from steepest.describe import count, one_line
    from steepest.events.cluster import Outcome

    timeline, note = _of_gateway(settings, job, at) if settings.client.server else asyncio.run(_read(settings, job, at))
    has_words = not settings.client.server and at is None and timeline.outcome is Outcome.FAILED
    printed = printed_last(settings.pool_folder, job, timeline.stop_replica) if has_words else []
    if as_json:
        give(msgspec.to_builtins(timeline) | ({"printed": printed} if printed else {}))
        return
    shown = timeline.entries if verbose else list(_in_short(timeline.entries))
    for entry in shown:
        tell(f"{_clock(entry.at_ms)}  {entry.sentence}")
        for line in (*entry.details, *(_alternatives(entry) if verbose else ())):
            tell((f"{'':10}{one_line(line)}", {"dim": True}))
    if hidden := len(timeline.entries) - len(shown):
        tell((f"{'':10}{count(hidden, 'step')} left out: see them with --verbose", {"dim": True}))
    if timeline.left_out:
        tell(f"{'left out':<10}{timeline.left_out:,} of its loss records: more than is taken of one job")
    tell((f"{'now':<10}", {"bold": True}), one_line(timeline.now))
    if timeline.progress:
        tell(f"{'progress':<10}{one_line(timeline.progress)}")
    for line in printed:
        tell((f"{'printed':<10}", {"dim": True}), click.unstyle(line))
    if note:
        tell(note, err=True)


def _of_gateway(settings: Settings, job: str, at: int | None) -> tuple[JobTimeline, str]:
    from steepest.cli.pool.remote import client_of, refuse_without_client

    refuse_without_client(settings)
    with client_of(settings) as gateway:
        return gateway.explain(job, pool=settings.pool, at=at), ""


def _in_short(entries: Sequence[TimelineEntry]) -> Iterator[TimelineEntry]:
    """The decisions and outcomes, with the newest limit alone: a policy may change it every second."""
    newest = max((one.offset for one in entries if one.type == "LimitsPlanned"), default=0)
    for one in entries:
        if not one.step and (one.offset >= newest or one.type not in {"LimitsPlanned", "LimitsApplied"}):
            yield one


def _alternatives(entry: TimelineEntry) -> Iterator[str]:
    """The alternatives of the decision, a line each, behind the formula."""
    if entry.formula and entry.formula != entry.rule:
        yield f"formula: {entry.formula}"
    for other in entry.alternatives:
        score = "" if other.score is None else f" ({other.score:.4g})"
        yield f"not {other.option}{score}: {other.lost_because}; it would be if {other.wins_if}"


def _clock(at_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_ms / 1000))


async def _read(settings: Settings, job: str, at: int | None) -> tuple[JobTimeline, str]:
    """The timeline, from the log's first record: a snapshot holds the state, not its history."""
    from steepest.cli.pool.stored_pool import fold, reading
    from steepest.read_models.job_timeline import TimelineCollector

    teller = TimelineCollector(job)
    async with reading(settings) as (installation, log):
        pool = await fold(settings, installation, log, on_record=teller.hear, until=at)
        pool.job(job)
        left_out = await _left_out(log, installation.layout.of_key("loss", job), job)
    return teller.timeline(pool.view, left_out), pool.note


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
