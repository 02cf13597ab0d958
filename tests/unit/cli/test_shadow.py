"""What ``steepest shadow`` says at its end."""

from __future__ import annotations

from click.testing import CliRunner
from tests.unit.cli.conftest import Holding

from steepest.cli.commands.shadow import shadow
from steepest.events import cluster as c


def test_how_many_jobs_would_differ(holding: Holding) -> None:
    """The count is of all jobs, also where none differs."""
    folder = holding(c.JobSubmitted(job="a", request="r", spec=c.JobSpec(command=("train",))))
    done = CliRunner().invoke(shadow, ["--state", str(folder.root), "--policy", "specon"], catch_exceptions=False)

    assert done.exit_code == 0
    assert "0 of 1 jobs would differ" in done.output
