"""``steepest logs``: what a job printed.

It owns which of a job's incarnations is shown, and when following ends. It must never know how output is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steepest.app.settings.tree import Settings
    from steepest.app.state_folder import StateFolder
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.cluster.folders.adapter_folder import IncarnationFolder
    from steepest.cluster.port import ReplicaId
    from steepest.log.base import Log

EPILOG = """\b
Examples:
  steepest logs mnist-3fa2
  steepest logs --follow mnist-3fa2          until the job is over, wherever it moves
  steepest logs --lines 20 mnist-3fa2
  steepest logs --incarnation 1 mnist-3fa2   what it printed before its first move or retry
  steepest logs --replica 3 mnist-3fa2       of a gang: what its process of rank 3 printed

Standard output and standard error of the job are one. Control characters and colours are left out.
"""

LINES = 100
LINES_MOST = 100_000
LOOK_EVERY_S = 0.2


@click.command(epilog=EPILOG)
@click.argument("job")
@installation_options
@click.option("--follow/--no-follow", "-f", default=False, help="Show new lines as they come, until the job is over.")
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(0, LINES_MOST),
    default=LINES,
    show_default=True,
    help="Show so many of the last lines.",
)
@click.option("--incarnation", type=click.IntRange(1), help="Show this incarnation; default: the newest.")
@click.option("--replica", "index", type=click.IntRange(0), default=0, show_default=True, help="Show this replica.")
@json_option
def logs(
    job: str, settings: Settings, *, follow: bool, lines: int, incarnation: int | None, index: int, as_json: bool
) -> None:
    """Show what JOB printed, whether it runs or is over."""
    from steepest.cli.pool.follow import run_until_stopped
    from steepest.cluster.port import ReplicaId

    folder = settings.pool_folder
    folder.read()
    replica = ReplicaId(job, index)
    chosen = _chosen(folder, replica, incarnation)
    if chosen is None and (incarnation is not None or not follow):
        _say_why_nothing(settings, replica, incarnation)
    elif follow:
        run_until_stopped(_follow(settings, replica, incarnation, chosen, lines, as_json=as_json))
    elif chosen is not None:
        _show(chosen, lines, as_json=as_json)


def _chosen(folder: StateFolder, replica: ReplicaId, incarnation: int | None) -> IncarnationFolder | None:
    from steepest.cli.jobs.job_output import incarnations

    kept = incarnations(folder, replica)
    return next((each for each in reversed(kept) if incarnation in (None, each.incarnation)), None)


def _say_why_nothing(settings: Settings, replica: ReplicaId, incarnation: int | None) -> None:
    """A job that is unknown, or whose incarnation is, is an error; one that has not started has printed nothing yet."""
    from steepest.cli.pool.stored_pool import look
    from steepest.errors import InputError

    job = replica.job
    found = look(settings).job(job)
    if replica.index >= found.spec.world:
        raise InputError(f"{job} has no replica {replica.index}", hint=f"they count from 0 to {found.spec.world - 1}")
    if incarnation is not None:
        raise InputError(
            f"nothing is kept of incarnation {incarnation} of {job}", hint=f"its newest is {found.incarnation}"
        )
    if found.outcome is not None or found.incarnation:
        raise InputError(
            f"nothing is kept of what {job} printed", hint=f"see `steepest explain {job}` for what became of it"
        )
    tell(f"{job} has not started yet; see `steepest explain {job}`", err=True)


def _show(folder: IncarnationFolder, lines: int, *, as_json: bool) -> None:
    from steepest.cluster.folders.printed import last_lines

    texts, has_more = last_lines(folder, lines)
    _print(folder.incarnation, texts, as_json=as_json)
    if has_more and lines:
        tell(f"earlier lines are in {folder.output}; --lines shows more", err=True)


def _print(incarnation: int, texts: Sequence[str], *, as_json: bool) -> None:
    for text in texts:
        if as_json:
            give({"incarnation": incarnation, "line": text})
        else:
            tell(click.unstyle(text))


async def _follow(
    settings: Settings,
    replica: ReplicaId,
    incarnation: int | None,
    chosen: IncarnationFolder | None,
    lines: int,
    *,
    as_json: bool,
) -> None:
    """Print what is there and what is added until the job is over: of later incarnations too, unless one is asked for."""
    import asyncio

    from steepest.cli.pool.stored_pool import fold, reading

    folder = settings.pool_folder
    async with reading(settings) as (installation, log):
        pool = await fold(settings, installation, log)
        job = replica.job
        pool.job(job)
        if pool.note:
            tell(pool.note, err=True)
        async with asyncio.TaskGroup() as group:
            folding = group.create_task(_keep_up(log, pool))
            shown, number = chosen, 0
            while shown is not None or not _is_over(pool, job, None):
                if shown is None:
                    await asyncio.sleep(LOOK_EVERY_S)
                else:
                    await _print_to_end(folder, pool, shown, lines if shown is chosen else None, as_json=as_json)
                    number = shown.incarnation
                    if incarnation is not None:
                        break
                shown = _next(folder, replica, number)
            folding.cancel()


async def _print_to_end(
    folder: StateFolder,
    pool: StoredPool,
    shown: IncarnationFolder,
    lines: int | None,
    *,
    as_json: bool,
) -> None:
    """Print one incarnation from its last ``lines`` lines on, None: from its first, until nothing can be added to it."""
    import asyncio

    from steepest.cluster.folders.printed import Printed

    job, number = shown.replica.job, shown.incarnation
    with Printed(shown) as printed:
        if lines is not None:
            _print(number, printed.last(lines)[0], as_json=as_json)
        while True:
            # Asked before the last look: what is printed before an end is kept before it is known.
            is_over = _is_over(pool, job, number) or _next(folder, shown.replica, number) is not None
            _print(number, [*printed.added(), *(printed.rest() if is_over else ())], as_json=as_json)
            if is_over:
                return
            await asyncio.sleep(LOOK_EVERY_S)


async def _keep_up(log: Log, pool: StoredPool) -> None:
    from steepest.cli.pool.follow import what_counts

    async for _ in what_counts(log, pool, {}):
        pass


def _is_over(pool: StoredPool, job: str, incarnation: int | None) -> bool:
    """Whether nothing more will be printed by a job, or by one incarnation of it, as far as the log says."""
    found = pool.view.jobs.get(job)
    if found is None or found.outcome is not None:
        return True
    newer = incarnation is not None and found.incarnation > incarnation
    return newer or (found.incarnation == incarnation and not found.alive and found.stopped_incarnation == incarnation)


def _next(folder: StateFolder, replica: ReplicaId, number: int) -> IncarnationFolder | None:
    """The oldest incarnation after one; nothing is printed by the one before once it is there."""
    from steepest.cli.jobs.job_output import incarnations

    return next((each for each in incarnations(folder, replica) if each.incarnation > number), None)
