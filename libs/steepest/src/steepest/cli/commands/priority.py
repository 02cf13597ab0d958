"""``steepest priority``: makes jobs more or less urgent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.jobs.changes import Change, change_jobs
from steepest.cli.jobs.selection import Selection, selection_options
from steepest.cli.options import installation_options, json_option

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.view.state import Job

EPILOG = """\b
Examples:
  steepest priority mnist-3fa2 --to urgent
  steepest priority 'sweep-*' --to -10

It takes effect where the queue goes by priority (`up --queueing priority`), for jobs that wait and,
with --preempt, for those that run.
"""


@click.command(epilog=EPILOG)
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

    change_jobs(settings, selection, changed, as_json=as_json)
