"""``steepest jobs`` on the log of a pool that no process runs on."""

from __future__ import annotations

from click.testing import CliRunner
from tests.unit.cli.conftest import Holding

from steepest.cli.commands.jobs import jobs
from steepest.events import cluster as c


def test_a_job_without_a_command_is_listed(holding: Holding) -> None:
    """A log may hold one, from any writer; it is shown as any other."""
    folder = holding(c.JobSubmitted(job="odd", request="r", spec=c.JobSpec(command=())))
    for form in ([], ["--json"]):
        done = CliRunner().invoke(jobs, ["--state", str(folder.root), *form], catch_exceptions=False)
        assert done.exit_code == 0
        assert "odd" in done.stdout
