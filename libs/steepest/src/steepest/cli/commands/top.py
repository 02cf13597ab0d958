"""``steepest top``: the live view of a pool, on a terminal; on a pipe, a line an event.

It owns where the timeline begins. It must never know how it is drawn.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from steepest.cli.options import installation_options
from steepest.cli.printing.output import console, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.log.base import Log, TopicPartition
    from steepest.read_models.run_timeline import RunTimeline

EPILOG = """\b
Examples:
  steepest top
  steepest top --state .steepest/demo-1     how a demo ended
  steepest top | tee decisions.txt          from now on, a line an event

From top to bottom: nodes with their use and score, jobs with the course of their losses, and what was decided. A job that
waits has its position in the queue, when it may start (if that is known), and what it waits for. q leaves.
"""

HISTORY_MOST = 200_000
"""A log of at most this many records is shown from its beginning; a longer one, from its newest snapshot on."""


@click.command(epilog=EPILOG)
@installation_options
def top(settings: Settings) -> None:
    """Show the pool live: its nodes, its jobs with their losses, and each decision."""
    from steepest.cli.pool.follow import run_until_stopped

    run_until_stopped(_top(settings))


async def _top(settings: Settings) -> None:
    import asyncio

    from steepest.cli.live.audience import Lines, Screen
    from steepest.cli.pool.follow import batches
    from steepest.cli.pool.stored_pool import is_at_rest, reading
    from steepest.cli.printing.keys import leaving_on_q
    from steepest.errors import UndecodableError
    from steepest.runtime.decode import received

    async with reading(settings) as (installation, log):
        at = installation.layout.of_pool(settings.pool or installation.pool)
        timeline, now = await _timeline(settings, log, at), await log.end(at)
        is_running = not is_at_rest(settings)
        if not is_running and not sys.stdout.isatty():
            tell(f"Steepest does not run on {settings.folder.root}; `steepest events` shows what happened")
            return
        title = f"{settings.folder.root}{'' if is_running else ', which no system runs on'}"
        audience = Screen(console(), title) if sys.stdout.isatty() else Lines(tell)
        with leaving_on_q():
            watching = asyncio.ensure_future(audience.watch(timeline))
            try:
                async for records in batches(log, {at: timeline.view.position}):
                    for record in records:
                        try:
                            event = received(record)
                        except UndecodableError:
                            timeline.view.skip(record.offset)
                            continue
                        if timeline.fold(event) and record.offset >= now:
                            audience.tell(timeline, event)
            finally:
                watching.cancel()


async def _timeline(settings: Settings, log: Log, at: TopicPartition) -> RunTimeline:
    """The timeline to continue: an empty one if the log is short enough to be read whole, else the newest snapshot's.

    Raises:
        InputError: The log's beginning was removed, and no snapshot reaches so far.
    """
    from steepest.cli.pool.stored_pool import fold
    from steepest.read_models.run_timeline import RunTimeline

    if await log.begin(at) == 0 and await log.end(at) <= HISTORY_MOST:
        return RunTimeline()
    pool = await fold(settings, settings.folder.read(), log)
    return RunTimeline.resumed(pool.view, pool.now_ms)
