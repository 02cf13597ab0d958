"""``steepest hold``, ``release``, ``suspend``, ``resume`` and ``priority``: change jobs that are there.

Each of the jobs that a call names gets a request, and one line says what became of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from steepest.cli.jobs.selection import Selection, selection_options
from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.view.state import Job

HOLD = """\b
Examples:
  steepest hold mnist-3fa2
  steepest hold 'sweep-*'
  steepest hold --queue paper

A job that is held keeps its place in the queue, and starts once `steepest release` lets it.
"""

RELEASE = """\b
Examples:
  steepest release mnist-3fa2
  steepest release --array sweep       all of its jobs, also where it has a limit
  steepest release --queue paper

It ends what `hold` and `suspend` began. A job that waits for others (--after, --array N%M) waits no longer for them.
"""

SUSPEND = """\b
Examples:
  steepest suspend mnist-3fa2
  steepest suspend --queue night       all that run or wait there

A job saves, stops, and gives its resources back; `steepest resume` lets it go on from there. A job that cannot
save would lose its work, and is refused. One that waits is held.
"""

RESUME = """\b
Examples:
  steepest resume mnist-3fa2
  steepest resume 'sweep-*'

A job goes on from the checkpoint that it saved, as soon as there is room for it: it waits in the queue as others do.
"""

PRIORITY = """\b
Examples:
  steepest priority mnist-3fa2 --to urgent
  steepest priority 'sweep-*' --to -10

It takes effect where the queue goes by priority (`up --queueing priority`), for jobs that wait and,
with --preempt, for those that run.
"""

Change = tuple[str, dict[str, Any]]
"""What becomes of a job, as the rest of a sentence about it, and the fields of ``JobChangeRequested`` that say so."""


def _change_jobs(
    settings: Settings, selection: Selection, wanted: Callable[[StoredPool, Job], Change | str], *, as_json: bool
) -> None:
    """Append a request for each job that is named; ``wanted`` gives it, or says why there is none.

    Exits with 1 where a job of several that are named is refused. Of patterns, arrays and queues, those are left out.

    Raises:
        InputError: The one job that is named is refused, or all of those that are meant.
    """
    import asyncio

    answers = asyncio.run(_change(settings, selection, wanted))
    if as_json:
        give([{"job": job, "done": done, "reason": "" if done else said} for job, said, done in answers])
    else:
        for job, said, done in answers:
            tell(f"{job} {said}" if done else f"Error: {job}: {said}", err=not done)
    sys.exit(0 if all(done for *_, done in answers) else 1)


async def _change(
    settings: Settings, selection: Selection, wanted: Callable[[StoredPool, Job], Change | str]
) -> list[tuple[str, str, bool]]:
    from steepest.cli.jobs.selection import select
    from steepest.cli.pool.user_requests import append, asking, new_request
    from steepest.errors import InputError
    from steepest.events.cluster import JobChangeRequested

    answers = []
    async with asking(settings) as (log, pool):
        for job in select(pool, selection):
            change = "it is over" if job.outcome is not None else wanted(pool, job)
            if isinstance(change, str):
                answers.append((job.name, change, False))
                continue
            await append(log, pool, JobChangeRequested(job=job.name, request=new_request(), **change[1]))
            later = "" if pool.folder.is_up else f" as soon as a system runs on {pool.folder.root}"
            answers.append((job.name, f"{change[0]}{later}", True))
    if not any(done for *_, done in answers):
        raise InputError(": ".join(answers[0][:2]), code="not-changed")
    return [answer for answer in answers if answer[2] or answer[0] in selection.names]


def _held(_: StoredPool, job: Job) -> Change | str:
    if not job.is_queued:
        return f"it has started already; `steepest suspend {job.name}` saves and stops it"
    return "is held", {"held": True}


def _released(_: StoredPool, job: Job) -> Change | str:
    return ("is released", {"held": False}) if job.hold else "nothing holds it"


def _suspended(_: StoredPool, job: Job) -> Change | str:
    from steepest.view.movable import Immovable, immovable

    if job.alive and immovable(job) is Immovable.NO_CHECKPOINT:
        return "it cannot save, and would lose its work; `steepest cancel` stops it for good"
    return "will be suspended" if job.alive else "is held", {"held": True}


def _command(name: str, says: str, examples: str, wanted: Callable[[StoredPool, Job], Change | str]) -> click.Command:
    @click.command(name, help=says, epilog=examples)
    @selection_options
    @installation_options
    @json_option
    def command(selection: Selection, settings: Settings, *, as_json: bool) -> None:
        _change_jobs(settings, selection, wanted, as_json=as_json)

    return command


hold = _command("hold", "Keep JOBS that wait from starting.", HOLD, _held)
release = _command("release", "Let JOBS go on that are held or suspended.", RELEASE, _released)
suspend = _command("suspend", "Save and stop JOBS, until they are resumed.", SUSPEND, _suspended)
resume = _command("resume", "Let JOBS go on that `steepest suspend` has stopped.", RESUME, _released)


@click.command(epilog=PRIORITY)
@selection_options
@click.option("--to", required=True, metavar="PRIORITY", help="Set a number, or low, normal, high or urgent.")
@installation_options
@json_option
def priority(selection: Selection, settings: Settings, *, to: str, as_json: bool) -> None:
    """Change the priority of JOBS."""

    def changed(pool: StoredPool, job: Job) -> Change | str:
        import msgspec

        from steepest.cli.jobs.job_options import checked_spec, urgency
        from steepest.policies.submission import with_priority

        spec = checked_spec(with_priority(msgspec.structs.replace(job.spec, **urgency(to)), pool.view.parameters))
        queue = pool.view.parameters.queueing.policy
        but = "" if queue == "priority" else f", which the queue {queue} does not look at"
        return f"has the priority {to}{but}", {"priority": spec.priority, "priority_class": spec.priority_class}

    _change_jobs(settings, selection, changed, as_json=as_json)
