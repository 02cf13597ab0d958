"""``steepest jobs``: where every job stands."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import click

from steepest.cli.options import json_option, remote_options
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.cli.printing.tables import Cell
    from steepest.policies.placement.standing import Standing
    from steepest.read_models.job_rows import JobRow, NewestReport
    from steepest.view.state import Job

EPILOG = """\b
Examples:
  steepest jobs
  steepest jobs --all
  steepest jobs first 'sweep-*'                    these alone, also if they have ended
  steepest jobs --watch
  steepest jobs --server http://127.0.0.1:8080     ask a gateway, on any machine
  steepest jobs --server kube:                     ask that in the cluster of the current kube context
  steepest jobs --json | jq '.[] | select(.category == "CC") | .job'

Growth is the share of its largest value by which the loss changed in the last interval (PC progressing, WC watched, CC
converged; ?: unknown, because no loss was read). Step and loss are the newest ones reported. Left, with its interval in
between, follows from the pace of the last minutes, for jobs of known length; due is the time until a job's deadline.
Limit is the CPU limit in force, with FlowCon's list (NL new, WL watched, CL completing). Waited is the time before the
first start, and running the time for which it has held a place while Steepest ran. Queue is the position of a waiting
job; its reason says what it waits for. A terminal shows the columns that fit: --json has all.
"""

COLUMNS = (
    "job",
    "user",
    "node",
    "GPUs",
    "phase",
    "cat",
    "#growth",
    "#step",
    "#left",
    "#between",
    "#due",
    "#loss",
    "#limit",
    "#moves",
    "#retries",
    "#waited",
    "#running",
    "#queue",
    "what",
    "reason",
)
GIVING_WAY = (
    "what",
    "#between",
    "#due",
    "#waited",
    "#queue",
    "#retries",
    "#moves",
    "#limit",
    "#running",
    "reason",
    "#left",
)
"""The columns that a narrow terminal shortens, the least important first."""

KILLED = ("it was killed by signal 9", "it exited with status 137")
OUT_OF_MEMORY = ": perhaps by the kernel, because memory was short"

WATCH_EVERY_S = 1.0


@click.command(epilog=EPILOG)
@remote_options
@click.option("--all/--no-all", "show_all", default=False, help="Show jobs that have ended, too.")
@click.option("--user", metavar="NAME", help="Show the jobs of this user alone.")
@click.option("--watch", is_flag=True, help="Update the table every second; q quits.")
@json_option
@click.argument("names", metavar="[JOBS]...", nargs=-1)
def jobs(
    settings: Settings, *, names: tuple[str, ...], show_all: bool, user: str | None, watch: bool, as_json: bool
) -> None:
    """Show where every job stands: its node, phase, category, growth and progress."""
    import asyncio

    from steepest.cli.jobs.progress import look_at_progress

    if watch and settings.client.server:
        raise click.UsageError("--watch reads a state folder; a gateway has the live page")
    wanted = _Wanted(show_all, user, names)
    if watch:
        _refuse_without_terminal(as_json=as_json)
        _watch(settings, wanted)
        return
    settings = _asking(settings)
    if settings.client.server:
        _of_gateway(settings, wanted, as_json=as_json)
        return
    pool, progress = asyncio.run(look_at_progress(settings))
    shown = wanted.of(pool)
    rows = rows_of(pool, shown, progress)
    if as_json:
        give(rows)
        return
    _show(rows)
    _show_notes(pool, shown, names)


def _asking(settings: Settings) -> Settings:
    """Settings that ask a gateway where the log is on Kafka and the system has one."""
    if settings.client.server or settings.folder.kafka_place() is None:
        return settings
    from steepest.cli.pool.remote import by_own_gateway

    return by_own_gateway(settings)


def every_row(settings: Settings) -> list[JobRow]:
    """All jobs of a pool as rows, also those that have ended."""
    import asyncio

    from steepest.cli.jobs.progress import look_at_progress

    settings = _asking(settings)
    if not settings.client.server:
        pool, progress = asyncio.run(look_at_progress(settings))
        return rows_of(pool, list(pool.view.jobs), progress)
    return _rows_of_gateway(settings)


class _Wanted(NamedTuple):
    """Which jobs are shown: those that are named, by names or patterns; else all that have not ended, or all."""

    ended_too: bool
    user: str | None
    names: tuple[str, ...]

    def of(self, pool: StoredPool) -> Sequence[Job]:
        """Those of a pool. A name that no job has is an error with the closest ones."""
        from steepest.read_models.changes.selection import is_pattern

        for name in self.names:
            if not is_pattern(name):
                pool.job(name)
        return [job for job in pool.view.jobs if self.includes(job.name, job)]

    def includes(self, name: str, job: Job | JobRow) -> bool:
        if self.names:
            is_meant = any(fnmatchcase(name, each) for each in self.names)
        else:
            is_meant = self.ended_too or job.outcome is None
        return is_meant and self.user in {None, job.user}


def _rows_of_gateway(settings: Settings) -> list[JobRow]:
    from steepest.cli.pool.remote import client_of, refuse_without_client

    refuse_without_client(settings)
    with client_of(settings) as gateway:
        return list(gateway.jobs(pool=settings.pool))


def _of_gateway(settings: Settings, wanted: _Wanted, *, as_json: bool) -> None:
    rows = [row for row in _rows_of_gateway(settings) if wanted.includes(row.job, row)]
    if wanted.names and not rows:
        raise click.UsageError(f"no job matches {' '.join(wanted.names)}")
    give(rows) if as_json else _show(rows)


def rows_of(pool: StoredPool, shown: Sequence[Job], progress: Mapping[str, NewestReport]) -> list[JobRow]:
    """These jobs as rows."""
    from steepest.read_models.job_rows import job_row

    standing = _standing(pool)
    return [job_row(pool, job, progress.get(job.name), standing.get(job.name)) for job in shown]


def _show(rows: Sequence[JobRow]) -> None:
    if rows:
        from steepest.cli.printing.tables import show

        show(*_table(rows), GIVING_WAY)


def _standing(pool: StoredPool) -> Mapping[str, Standing]:
    if not len(pool.view.jobs.queue):
        return {}
    from steepest.policies.placement.standing import standings

    return standings(pool.view)


def _show_notes(pool: StoredPool, shown: Sequence[Job], names: Sequence[str]) -> None:
    from steepest.describe import count

    left_out = len(pool.view.jobs) - len(shown)
    if not shown:
        tell("no job matches" if names else "no job waits or runs" if left_out else "no jobs")
    if left_out and not names:
        tell(f"{count(left_out, 'ended job')} left out: see `steepest jobs --all`", err=True)
    if pool.note:
        tell(pool.note, err=True)


def _refuse_without_terminal(*, as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        raise click.UsageError("--watch needs a terminal; programs follow with `steepest events --follow --json`")


def _watch(settings: Settings, wanted: _Wanted) -> None:
    from steepest.cli.pool.follow import run_until_stopped

    run_until_stopped(_draw_again(settings, wanted))


async def _draw_again(settings: Settings, wanted: _Wanted) -> None:
    import asyncio

    from rich.live import Live

    from steepest.cli.jobs.progress import look_at_progress
    from steepest.cli.printing.keys import leaving_on_q
    from steepest.cli.printing.output import console
    from steepest.cli.printing.tables import drawn

    terminal = console()
    with leaving_on_q(), Live(console=terminal, screen=True, auto_refresh=False) as live:
        while True:
            pool, progress = await look_at_progress(settings)
            shown = wanted.of(pool)
            live.update(drawn(*_table(rows_of(pool, shown, progress)), GIVING_WAY, terminal.width), refresh=True)
            await asyncio.sleep(WATCH_EVERY_S)


def _table(rows: Sequence[JobRow]) -> tuple[Sequence[str], list[list[Cell]]]:
    """The columns and their cells, without the users where they are one, and without GPUs where no job has any."""
    left_out = {"user"} if len({row.user for row in rows}) <= 1 else set()
    left_out |= set() if any(row.gpus for row in rows) else {"GPUs"}
    shown = [index for index, name in enumerate(COLUMNS) if name not in left_out]
    return [COLUMNS[index] for index in shown], [[cells[index] for index in shown] for cells in map(_cells, rows)]


def _cells(row: JobRow) -> list[Cell]:
    from steepest.cli.live.colours import CATEGORIES, OUTCOMES
    from steepest.describe import span
    from steepest.events.facts import Outcome
    from steepest.read_models.job_progress import interval

    phase = row.outcome or ("starting" if row.phase == "running" and not row.node else row.phase)
    style = OUTCOMES[Outcome(row.outcome)] if row.outcome else {"running": "green", "waiting": "yellow"}.get(phase, "")
    left = row.remaining_ms
    reason = "" if row.reason == phase else f"{row.reason}{OUT_OF_MEMORY if row.reason in KILLED else ''}"
    if row.findings:
        reason = "; ".join(f"{kind}: {why}" for kind, why in row.findings.items())
    return [
        row.job,
        row.user,
        row.node or "",
        "+".join(",".join(map(str, gpus)) for gpus in row.gpus.values()),
        (phase, style),
        (_category(row), CATEGORIES[row.category] if row.measured else ""),
        growth_of(row.growth, alive=row.alive),
        row.steps,
        "" if left is None else span(left.p50),
        "" if left is None else interval(left),
        _due(row),
        "" if row.loss is None else f"{row.loss:.4g}",
        _limit(row),
        str(row.moves or ""),
        f"{row.retries_used}/{row.retries}" if row.retries else "",
        span(row.waited_ms),
        "" if row.running_ms is None else span(row.running_ms),
        f"{row.queue_position}/{row.queue_length}" if row.queue_position else "",
        row.what,
        (row.waits_because if row.queue_position else reason, "red" if row.outcome == "failed" or row.findings else ""),
    ]


def _due(row: JobRow) -> str:
    """How long it is until a job's deadline, while it is not over."""
    from steepest.describe import span

    if row.due_in_ms is None or row.outcome is not None:
        return ""
    return span(row.due_in_ms) if row.due_in_ms >= 0 else f"{span(-row.due_in_ms)} ago"


def growth_of(growth: float | None, *, alive: bool) -> str:
    """A job's growth as a percentage; ``unknown`` where it runs and was never measured."""
    from steepest.describe import percent

    if growth is not None:
        return percent(growth)
    return "unknown" if alive else ""


def _category(row: JobRow) -> str:
    if row.unknown:
        return "?"
    return str(row.category) if row.measured else ""


def _limit(row: JobRow) -> str:
    if not row.limited:
        return ""
    limit = "none" if row.limit_m is None else f"{row.limit_m}m"
    return f"{row.growth_list} {limit}" if row.growth_list else limit
