"""``steepest jobs``: where every job stands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.cli.printing.tables import Cell
    from steepest.view.state import Job, Phase

EPILOG = """\b
Examples:
  steepest jobs
  steepest jobs --all
  steepest jobs --json | jq '.[] | select(.category == "CC") | .job'

Growth is the one measured last (SpeCon: PC progressing, WC watched, CC converged; ?: unknown, because no loss was read); the
limit is the CPU limit in force, with FlowCon's list (NL new, WL watched, CL completing); times are those that the job has
waited for its first place, and run since.
"""

COLUMNS = (
    "job",
    "what",
    "node",
    "phase",
    "cat",
    "#growth",
    "#limit",
    "#moves",
    "#retries",
    "#waited",
    "#running",
    "reason",
)
WHAT_LETTERS = 40


@click.command(epilog=EPILOG)
@installation_options
@click.option("--all/--no-all", "show_all", default=False, help="Show jobs that have ended, too.")
@json_option
def jobs(settings: Settings, *, show_all: bool, as_json: bool) -> None:
    """Show where every job stands: its node, phase, category and growth."""
    from steepest.cli.pool.stored_pool import look

    pool = look(settings)
    shown = [job for job in pool.view.jobs if show_all or job.outcome is None]
    if as_json:
        give([as_dict(pool, job) for job in shown])
        return
    _show(pool, shown, left_out=len(pool.view.jobs) - len(shown))


def as_dict(pool: StoredPool, job: Job) -> dict[str, object]:
    """A job for programs. Times are milliseconds, ``growth`` is a share of the largest value."""
    return {
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
        "cpu_m": job.spec.requests.cpu_m,
        "memory_mib": job.spec.requests.memory_mib,
        "submitted_ms": job.submitted_ms,
        "ended_ms": job.ended_ms,
        "waited_ms": waited_ms(job, pool.now_ms),
        "running_ms": running_ms(job, pool.now_ms),
    }


def waited_ms(job: Job, now_ms: int) -> int:
    """How long a job waited for its first place."""
    until = next(at for at in (job.first_placed_ms, job.ended_ms, now_ms) if at is not None)
    return max(0, until - job.submitted_ms)


def running_ms(job: Job, now_ms: int) -> int | None:
    """Since when it has run, pauses included; None before its first place."""
    if job.first_placed_ms is None:
        return None
    return max(0, (now_ms if job.ended_ms is None else job.ended_ms) - job.first_placed_ms)


def _show(pool: StoredPool, shown: list[Job], *, left_out: int) -> None:
    from steepest.cli.printing.tables import show
    from steepest.describe import count, unknown_growth

    if shown:
        show(COLUMNS, [_row(pool, job) for job in shown])
    else:
        tell("no jobs" if not left_out else "no job waits or runs")
    for job in shown:
        if job.outcome is None and job.unknown:
            tell(unknown_growth(job.name), err=True)
    if left_out:
        tell(f"{count(left_out, 'ended job')} left out: see `steepest jobs --all`", err=True)
    if pool.note:
        tell(pool.note, err=True)


_STYLES = {"running": "green", "waiting": "yellow", "failed": "red", "finished": "dim", "cancelled": "dim"}


def _phase(pool: StoredPool, job: Job) -> Phase:
    from steepest.view.state import Phase

    return Phase.STOPPED if pool.has_stopped(job) else job.phase


def _row(pool: StoredPool, job: Job) -> list[Cell]:
    from steepest.describe import percent, span

    phase = str(job.outcome or _phase(pool, job))
    running = running_ms(job, pool.now_ms)
    return [
        job.name,
        _what(job),
        job.node or "",
        (phase, _STYLES.get(phase, "")),
        _category(job),
        "" if job.growth is None else percent(job.growth),
        _limit(job),
        str(job.moves),
        f"{job.retries_used}/{job.spec.retries}",
        span(waited_ms(job, pool.now_ms)),
        "" if running is None else span(running),
        job.stop_reason,
    ]


def _category(job: Job) -> str:
    if job.unknown:
        return "?"
    return str(job.category) if job.measured else ""


def _limit(job: Job) -> str:
    if job.limit is None:
        return ""
    limit_m = job.limit.in_force_m
    return f"{job.limit.growth_list} {'none' if limit_m is None else f'{limit_m}m'}"


def _what(job: Job) -> str:
    program = [Path(word).name for word in job.spec.command[:1]]
    text = job.spec.model or shlex.join((*program, *job.spec.command[1:]))
    return text if len(text) <= WHAT_LETTERS else f"{text[: WHAT_LETTERS - 1]}…"
