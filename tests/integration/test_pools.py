"""Several pools in one embedded system, from outside: jobs go where they are sent, and pools are apart."""

from __future__ import annotations

import sys
from pathlib import Path

from click.testing import CliRunner
from tests.harness.system.running_system import RunningSystem

from steepest.cli.main import main
from steepest.events import cluster as c

LINEAR = (sys.executable, "-m", "steepest_lab.jobs.linear", "--work", "0.05", "--steps", "40")


def test_jobs_go_to_the_pool_that_they_or_their_queue_name(tmp_path: Path) -> None:
    """A pool that is added later runs jobs on its own nodes, in the same process; each command is about one pool."""
    system = RunningSystem(tmp_path / "state", "--interval", "300ms", "--heartbeat", "150ms", "--node", "n1=0.5")
    try:
        system.start()
        system.submit("first", *LINEAR)
        assert system.await_end("first").outcome is c.Outcome.FINISHED
        system.kill()
        add = ["pool", "add", "--state", str(system.state), "vision", "--node", "v1=0.5", "--queue", "images"]
        added = CliRunner().invoke(main, add)
        assert added.exit_code == 0, added.output
        system.start()
        named = system.call("submit", "--wait", "--pool", "vision", "--name", "named", "--", *LINEAR)
        queued = system.call("submit", "--wait", "--queue", "images", "--name", "queued", "--", *LINEAR)
        again = system.call("submit", "--wait", "--name", "queued", "--", *LINEAR)

        assert (named.returncode, queued.returncode, again.returncode) == (0, 0, 0), (named, queued, again)
        assert [job["job"] for job in system.ask("jobs", "--all")] == ["first", "queued.2"]
        assert [job["job"] for job in system.ask("jobs", "--all", "--pool", "vision")] == ["named", "queued"]
        assert [node["node"] for node in system.ask("nodes", "--pool", "vision")] == ["v1"]
        assert "vision: " in "\n".join(system.output_lines)
        assert system.call("logs", "--pool", "vision", "named").stdout
        endless = system.call("submit", "--pool", "vision", "--name", "endless", "--", *LINEAR[:-1], "100000")
        assert endless.returncode == 0
        taken = system.call("submit", "--name", "endless", "--", *LINEAR)
        assert taken.returncode == 2
        assert "the pool vision has a job named endless" in taken.stderr
        stopped = system.call("down", "--grace", "1s")
        assert "endless" in stopped.stdout
        assert system.wait() == 0
    finally:
        system.end()
