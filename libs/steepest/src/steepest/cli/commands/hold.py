"""``steepest hold``, ``release``, ``suspend``, ``resume``, ``priority`` and ``move``: change jobs that are there.

Each of the jobs that a call names gets a request, and one line says what became of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from steepest.cli.jobs.selection import selection_options
from steepest.cli.options import json_option, remote_options
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.read_models.changes.selection import Selection

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

MOVE = """\b
Examples:
  steepest move mnist-3fa2 --to node-2
  steepest move mnist-3fa2             to the node with the most free CPU that takes it
  steepest move --node node-1          all that run there, after `steepest nodes drain node-1`

A job saves, stops, and goes on from there on its new node, where its place is kept before it stops. A job that
cannot save, a gang, and a node without room for it are refused.
"""


def _change_jobs(settings: Settings, name: str, selection: Selection, *, as_json: bool, to: str = "") -> None:
    """Ask for a change of each job that is named.

    Exits with 1 where a job of several that are named is refused. Of patterns, arrays and queues, those are left out.

    Raises:
        InputError: The one job that is named is refused, or all of those that are meant.
    """
    import asyncio

    if settings.client.server:
        from steepest.cli.pool.remote import change_of, changed

        asked = change_of(name, selection, to)
        answers = [(one.name, one.said, one.done) for one in changed(settings, asked)]
    else:
        answers = asyncio.run(_change(settings, name, selection, to))
    if as_json:
        give([{"job": job, "done": done, "reason": "" if done else said} for job, said, done in answers])
    else:
        for job, said, done in answers:
            tell(f"{job} {said}" if done else f"Error: {job}: {said}", err=not done)
    sys.exit(0 if all(done for *_, done in answers) else 1)


async def _change(settings: Settings, name: str, selection: Selection, to: str) -> list[tuple[str, str, bool]]:
    from steepest.cli.pool.user_requests import append, asking, new_request
    from steepest.read_models.changes.job_changes import ChangeKind, changes

    answers = []
    async with asking(settings) as (log, pool):
        later = "" if pool.folder.is_up else f" as soon as a system runs on {pool.folder.root}"
        for job, change in changes(pool, ChangeKind(name), selection, to):
            if change.ask is not None:
                await append(log, pool, change.ask(request=new_request()))
            answers.append((job.name, f"{change.said}{later if change.done else ''}", change.done))
    return answers


def _command(name: str, says: str, examples: str) -> click.Command:
    @click.command(name, help=says, epilog=examples)
    @selection_options
    @remote_options
    @json_option
    def command(selection: Selection, settings: Settings, *, as_json: bool) -> None:
        _change_jobs(settings, name, selection, as_json=as_json)

    return command


hold = _command("hold", "Keep JOBS that wait from starting.", HOLD)
release = _command("release", "Let JOBS go on that are held or suspended.", RELEASE)
suspend = _command("suspend", "Save and stop JOBS, until they are resumed.", SUSPEND)
resume = _command("resume", "Let JOBS go on that `steepest suspend` has stopped.", RESUME)


@click.command(epilog=PRIORITY)
@selection_options
@click.option("--to", required=True, metavar="PRIORITY", help="Set a number, or low, normal, high or urgent.")
@remote_options
@json_option
def priority(selection: Selection, settings: Settings, *, to: str, as_json: bool) -> None:
    """Change the priority of JOBS."""
    _change_jobs(settings, "priority", selection, as_json=as_json, to=to)


@click.command(epilog=MOVE)
@selection_options
@click.option("--to", default="", metavar="NODE", help="Name the node; without it, the one with the most free CPU.")
@remote_options
@json_option
def move(selection: Selection, settings: Settings, *, to: str, as_json: bool) -> None:
    """Move running JOBS to another node, checkpoint and all."""
    _change_jobs(settings, "move", selection, as_json=as_json, to=to)
