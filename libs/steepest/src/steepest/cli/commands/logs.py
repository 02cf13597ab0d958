"""``steepest logs``: what a job printed.

It owns what is said where there is nothing to show. It must never know how output is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import json_option, remote_options
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
    from steepest.cluster.port import ReplicaId
    from steepest.log.base import Log

EPILOG = """\b
Examples:
  steepest logs mnist-3fa2
  steepest logs --follow mnist-3fa2          until the job is over, wherever it moves
  steepest logs --lines 20 mnist-3fa2
  steepest logs --incarnation 1 mnist-3fa2   what it printed before its first move or retry
  steepest logs --replica 3 mnist-3fa2       of a gang: what its process of rank 3 printed
  steepest logs --server http://127.0.0.1:8080 mnist-3fa2     ask a gateway, which needs a token that may submit
  steepest logs --server kube: --follow mnist-3fa2        through the current kube context

Standard output and standard error of the job are one. Control characters and colours are left out.
"""

LINES = 100
LINES_MOST = 100_000


@click.command(epilog=EPILOG)
@click.argument("job")
@remote_options
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
    if settings.client.server:
        _of_gateway(job, settings, index, incarnation, lines, follow=follow, as_json=as_json)
        return
    from steepest.cli.pool.follow import run_until_stopped
    from steepest.cluster.folders.adapter_folder import AdapterFolder
    from steepest.cluster.follow_printed import kept_of
    from steepest.cluster.port import ReplicaId

    state = settings.pool_folder
    state.read()
    folder, replica = AdapterFolder(state.cluster), ReplicaId(job, index)
    chosen = kept_of(folder, replica, incarnation)
    if chosen is None and (incarnation is not None or not follow):
        _say_why_nothing(settings, replica, incarnation)
    elif follow:
        run_until_stopped(_follow(settings, folder, replica, incarnation, lines, as_json=as_json))
    elif chosen is not None:
        _show(chosen, lines, as_json=as_json)


def _of_gateway(
    job: str, settings: Settings, index: int, incarnation: int | None, lines: int, *, follow: bool, as_json: bool
) -> None:
    from steepest.cli.pool.remote import client_of, refuse_without_client

    refuse_without_client(settings)
    with client_of(settings) as gateway:
        if follow:
            for row in gateway.follow_log(job, pool=settings.pool, replica=index, incarnation=incarnation, lines=lines):
                _print(row.incarnation, [row.line], as_json=as_json)
            return
        found = gateway.log(job, pool=settings.pool, replica=index, incarnation=incarnation, lines=lines)
    if found.incarnation is None:
        tell(f"{job} has printed nothing that is kept there; see `steepest explain {job}`", err=True)
        return
    _print(found.incarnation, found.lines, as_json=as_json)
    if found.earlier and lines:
        tell("there are earlier lines; --lines shows more", err=True)


def _say_why_nothing(settings: Settings, replica: ReplicaId, incarnation: int | None) -> None:
    """A job that is unknown, or whose incarnation is, is an error; one that has not started has printed nothing yet."""
    from steepest.cli.pool.stored_pool import look
    from steepest.errors import InputError
    from steepest.policies.placement.standing import standings

    job, pool = replica.job, look(settings)
    found = pool.job(job)
    if replica.index >= found.spec.world:
        raise InputError(f"{job} has no replica {replica.index}", hint=f"they count from 0 to {found.spec.world - 1}")
    if incarnation is not None:
        raise InputError(
            f"nothing is kept of incarnation {incarnation} of {job}", hint=f"its newest is {found.incarnation}"
        )
    waits = standings(pool.view).get(job)
    if found.outcome is not None or (found.incarnation and not (found.plan or found.alive or waits)):
        raise InputError(
            f"nothing is kept of what {job} printed", hint=f"see `steepest explain {job}` for what became of it"
        )
    why = "has printed nothing yet that is kept here"
    if not found.alive:
        begun = "started" if found.first_placed_ms is None else "gone on"
        why = f"has not {begun} yet: {waits.reason if waits else 'it is being placed'}"
    tell(f"{job} {why} (see `steepest explain {job}`)", err=True)


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
    folder: AdapterFolder,
    replica: ReplicaId,
    incarnation: int | None,
    lines: int,
    *,
    as_json: bool,
) -> None:
    """Print what is there and what is added until the job is over, as far as the log says."""
    import asyncio

    from steepest.cli.pool.stored_pool import fold, reading
    from steepest.cluster.follow_printed import followed
    from steepest.read_models.job_rows import prints_no_more

    async with reading(settings) as (installation, log):
        pool = await fold(settings, installation, log)
        job = replica.job
        pool.job(job)
        if pool.note:
            tell(pool.note, err=True)
        async with asyncio.TaskGroup() as group:
            folding = group.create_task(_keep_up(log, pool))
            async for number, added in followed(
                folder,
                replica,
                incarnation=incarnation,
                lines=lines,
                is_over=lambda number: prints_no_more(pool.view, job, number),
            ):
                _print(number, added, as_json=as_json)
            folding.cancel()


async def _keep_up(log: Log, pool: StoredPool) -> None:
    from steepest.cli.pool.follow import what_counts

    async for _ in what_counts(log, pool, {}):
        pass
