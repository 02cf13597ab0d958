"""``steepest jobs``: where every job stands."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.jobs.progress import NewestReport
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.cli.printing.tables import Cell
    from steepest.policies.placement.standing import Standing
    from steepest.view.progress import TimeLeft
    from steepest.view.state import Job, Phase

EPILOG = """\b
Examples:
  steepest jobs
  steepest jobs --all
  steepest jobs --watch
  steepest jobs --json | jq '.[] | select(.category == "CC") | .job'

Growth is how much of its largest value the loss changed by in the last interval (PC progressing, WC watched, CC
converged; ?: unknown, because no loss was read). Step and loss are those reported last. The time left, and the interval
that it lies between, follow from the pace of the last minutes, for jobs of which it is known how long they train; due says
how long it is until a job's deadline. The
limit is the CPU limit in force, with FlowCon's list (NL new, WL watched, CL completing). Queue is the position of a job that
waits, and its reason says what for. A terminal shows what has
room: --json has everything.
"""

COLUMNS = (
    "job",
    "node",
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
GIVING_WAY = ("what", "#between", "#due", "#waited", "#queue", "#retries", "#moves", "#limit", "reason", "#left")
"""What a narrow terminal shows less of, the least important first."""

WHAT_LETTERS = 40
WATCH_EVERY_S = 1.0


@click.command(epilog=EPILOG)
@installation_options
@click.option("--all/--no-all", "show_all", default=False, help="Show jobs that have ended, too.")
@click.option("--watch", is_flag=True, help="Update the table every second; q quits.")
@json_option
def jobs(settings: Settings, *, show_all: bool, watch: bool, as_json: bool) -> None:
    """Show where every job stands: its node, phase, category, growth and progress."""
    import asyncio

    from steepest.cli.jobs.progress import look_at_progress

    if watch:
        _refuse_without_terminal(as_json=as_json)
        _watch(settings, show_all=show_all)
        return
    pool, progress = asyncio.run(look_at_progress(settings))
    shown = [job for job in pool.view.jobs if show_all or job.outcome is None]
    if as_json:
        standing = _standing(pool)
        give([as_dict(pool, job, progress.get(job.name), standing.get(job.name)) for job in shown])
        return
    if shown:
        from steepest.cli.printing.tables import show

        standing = _standing(pool)
        show(COLUMNS, [_row(pool, job, progress.get(job.name), standing.get(job.name)) for job in shown], GIVING_WAY)
    _show_notes(pool, shown)


def _standing(pool: StoredPool) -> Mapping[str, Standing]:
    if not len(pool.view.jobs.queue):
        return {}
    from steepest.policies.placement.standing import standings

    return standings(pool.view)


def as_dict(
    pool: StoredPool, job: Job, progress: NewestReport | None, standing: Standing | None = None
) -> dict[str, object]:
    """A job for programs. Times are milliseconds, ``growth`` is a share of the largest value."""
    from steepest.view.progress import cpu_ms_left, total_steps

    left = _time_left(pool, job)
    return {
        "step": progress.step if progress else job.progress.step,
        "steps_total": total_steps(job),
        "epoch": job.progress.epoch,
        "epochs_total": job.progress.epochs,
        "loss": progress.loss if progress else job.progress.loss,
        "cpu_ms": job.progress.cpu_ms,
        "cpu_ms_left": cpu_ms_left(job),
        "remaining_ms": None if left is None else {"p50": left.p50, "low": left.low, "high": left.high},
        "job": job.name,
        "model": job.spec.model,
        "command": job.spec.command,
        "admitted": job.admitted,
        "phase": _phase(pool, job),
        "outcome": job.outcome,
        "node": job.node,
        "incarnation": job.incarnation,
        "alive": job.alive and not pool.has_stopped(job),
        "category": job.category,
        "growth": job.growth,
        "unknown": job.unknown,
        "limit_m": job.limit.in_force_m if job.limit else None,
        "limit_planned_m": job.limit.cpu_m if job.limit else None,
        "growth_list": job.limit.growth_list if job.limit else None,
        "moves": job.moves,
        "moves_failed": job.moves_failed,
        "steps_lost": job.steps_lost,
        "retries_used": job.retries_used,
        "retries": job.spec.retries,
        "checkpoint_mode": job.mode,
        "checkpoint_step": job.checkpoint.step if job.checkpoint else None,
        "exit_status": job.exit_status,
        "reason": job.stop_reason,
        "plan": job.plan,
        "cpu_m": job.spec.chief_requests.cpu_m,
        "memory_mib": job.spec.chief_requests.memory_mib,
        "submitted_ms": job.submitted_ms,
        "ended_ms": job.ended_ms,
        "waited_ms": waited_ms(job, pool.now_ms),
        "waited_total_ms": waited_total_ms(pool, job),
        "preemptions": job.suspensions,
        "deadline_ms": job.spec.deadline_ms,
        "queue": job.spec.queue,
        "priority": job.spec.priority,
        "priority_class": job.spec.priority_class,
        "queue_position": standing.position if standing else None,
        "waits_for": standing.waits_for if standing else None,
        "waits_because": standing.reason if standing else "",
        "start_expected_ms": standing.start_ms if standing else None,
        "running_ms": running_ms(job, pool.now_ms),
    }


def waited_ms(job: Job, now_ms: int) -> int:
    """How long a job waited for its first place."""
    until = next(at for at in (job.first_placed_ms, job.ended_ms, now_ms) if at is not None)
    return max(0, until - job.submitted_ms)


def waited_total_ms(pool: StoredPool, job: Job) -> int:
    """How long it held no place, before its first one and after it lost one. Times in which the log was away count."""
    from steepest.view.state import Phase

    held_ms = job.held_ms
    if job.phase is Phase.RUNNING:
        held_ms += pool.view.counted_ms - job.started_counted_ms
    return max(0, (pool.now_ms if job.ended_ms is None else job.ended_ms) - job.submitted_ms - held_ms)


def running_ms(job: Job, now_ms: int) -> int | None:
    """Since when it has run, pauses included; None before its first place."""
    if job.first_placed_ms is None:
        return None
    return max(0, (now_ms if job.ended_ms is None else job.ended_ms) - job.first_placed_ms)


def _time_left(pool: StoredPool, job: Job) -> TimeLeft | None:
    from steepest.policies.pickyman.running import predicted_left
    from steepest.view.progress import time_left

    if pool.view.parameters.pickyman.on and (predicted := predicted_left(job, pool.view.counted_ms)) is not None:
        return predicted
    return None if pool.has_stopped(job) else time_left(job)


def _show_notes(pool: StoredPool, shown: Sequence[Job]) -> None:
    from steepest.describe import count, unknown_growth

    left_out = len(pool.view.jobs) - len(shown)
    if not shown:
        tell("no jobs" if not left_out else "no job waits or runs")
    for job in shown:
        if job.outcome is None and job.unknown:
            tell(unknown_growth(job.name), err=True)
    if left_out:
        tell(f"{count(left_out, 'ended job')} left out: see `steepest jobs --all`", err=True)
    if pool.note:
        tell(pool.note, err=True)


def _refuse_without_terminal(*, as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        raise click.UsageError("--watch needs a terminal; programs follow with `steepest events --follow --json`")


def _watch(settings: Settings, *, show_all: bool) -> None:
    from steepest.cli.pool.follow import run_until_stopped

    run_until_stopped(_draw_again(settings, show_all=show_all))


async def _draw_again(settings: Settings, *, show_all: bool) -> None:
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
            shown = [job for job in pool.view.jobs if show_all or job.outcome is None]
            standing = _standing(pool)
            rows = [_row(pool, job, progress.get(job.name), standing.get(job.name)) for job in shown]
            live.update(drawn(COLUMNS, rows, GIVING_WAY, terminal.width), refresh=True)
            await asyncio.sleep(WATCH_EVERY_S)


def _phase(pool: StoredPool, job: Job) -> Phase:
    from steepest.view.state import Phase

    return Phase.STOPPED if pool.has_stopped(job) else job.phase


def _row(pool: StoredPool, job: Job, progress: NewestReport | None, standing: Standing | None = None) -> list[Cell]:
    from steepest.demo.colours import CATEGORIES, OUTCOMES
    from steepest.demo.job_progress import interval, steps
    from steepest.describe import span

    phase = str(job.outcome or _phase(pool, job))
    style = OUTCOMES[job.outcome] if job.outcome else {"running": "green", "waiting": "yellow"}.get(phase, "")
    running = running_ms(job, pool.now_ms)
    left = _time_left(pool, job)
    loss = progress.loss if progress else job.progress.loss
    return [
        job.name,
        job.node or "",
        (phase, style),
        (_category(job), CATEGORIES[job.category] if job.measured else ""),
        growth_of(job),
        steps(job, progress.step if progress else None),
        "" if left is None else span(left.p50),
        "" if left is None else interval(left),
        _due(job, pool.now_ms),
        "" if loss is None else f"{loss:.4g}",
        _limit(job),
        str(job.moves or ""),
        f"{job.retries_used}/{job.spec.retries}" if job.spec.retries else "",
        span(waited_ms(job, pool.now_ms)),
        "" if running is None else span(running),
        f"{standing.position}/{standing.waiting}" if standing else "",
        _what(job),
        (standing.reason if standing else job.stop_reason, "red" if job.outcome == "failed" else ""),
    ]


def _due(job: Job, now_ms: int) -> str:
    """How long it is until a job's deadline, while it is not over."""
    from steepest.describe import span

    if job.spec.deadline_ms is None or job.outcome is not None:
        return ""
    ahead_ms = job.submitted_ms + job.spec.deadline_ms - now_ms
    return span(ahead_ms) if ahead_ms >= 0 else f"{span(-ahead_ms)} ago"


def growth_of(job: Job) -> str:
    """A job's growth as a percentage; ``unknown`` where it runs and was never measured."""
    from steepest.describe import percent

    if job.growth is not None:
        return percent(job.growth)
    return "unknown" if job.alive else ""


def _category(job: Job) -> str:
    if job.unknown:
        return "?"
    return str(job.category) if job.measured else ""


def _limit(job: Job) -> str:
    if job.limit is None:
        return ""
    limit_m = job.limit.in_force_m
    limit = "none" if limit_m is None else f"{limit_m}m"
    return f"{job.limit.growth_list} {limit}" if job.limit.growth_list else limit


def _what(job: Job) -> str:
    program = [Path(word).name for word in job.spec.command[:1]]
    text = job.spec.model or shlex.join((*program, *job.spec.command[1:]))
    return text if len(text) <= WHAT_LETTERS else f"{text[: WHAT_LETTERS - 1]}…"
