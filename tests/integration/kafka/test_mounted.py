"""Services that share no state folder: a file describes the installation, and everything else is in Kafka."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.harness.waiting import until

from steepest.app.installed_services import BRIDGE, GROUP
from steepest.app.settings.rows import as_environment
from steepest.app.settings.tree import ParameterSettings, Settings
from steepest.log.kafka.kafka_settings import KafkaSettings

TRAINING = Path(__file__).parents[2] / "chaos" / "training.py"
ACTING = ("log-collector", "migrator", "resizer")
"""They start and stop jobs, and so share the jobs' files."""

ONE = """
heartbeat_ms = 200
[[pool]]
name = "default"
nodes = ["n1=0.5", "n2=0.5"]
"""
TWO = """
[[pool]]
name = "vision"
nodes = ["v1=0.5"]
queues = ["images"]
"""


class Mounted:
    """An installation that a file describes."""

    def __init__(self, folder: Path, kafka: KafkaSettings) -> None:
        self.folder = folder
        self.file = folder / "installation.toml"
        self._kafka = kafka
        self._processes: list[subprocess.Popen[bytes]] = []

    def environment(self, own: str) -> dict[str, str]:
        """The variables of a process with a state folder of its own."""
        settings = Settings(
            state_dir=str(self.folder / own),
            installation_file=str(self.file),
            kafka=self._kafka,
            parameters=ParameterSettings(interval_ms=1_000),
        )
        return {**os.environ, **as_environment(settings)}

    def call(self, *arguments: str, own: str = "operator") -> subprocess.CompletedProcess[str]:
        """Run a command where no service runs."""
        return subprocess.run(
            [sys.executable, "-m", "steepest", *arguments],
            env=self.environment(own),
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

    def start(self) -> None:
        """Start every service as a process."""
        for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
            if point.name != BRIDGE:
                own = "acting" if point.name in ACTING else point.name
                (self.folder / "acting").mkdir(exist_ok=True)
                with (self.folder / f"{point.name}.log").open("wb") as output:
                    self._processes.append(
                        subprocess.Popen(
                            [sys.executable, "-m", point.module],
                            env=self.environment(own),
                            stdout=output,
                            stderr=output,
                        )
                    )

    def end(self) -> None:
        """End what runs."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(30)


@pytest.fixture
def mounted(tmp_path: Path, kafka: KafkaSettings) -> Iterator[Mounted]:
    """An installation of one pool, whose topics do not exist yet."""
    found = Mounted(tmp_path, kafka)
    found.file.write_text(ONE)
    yield found
    found.end()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_job_is_run_by_services_that_share_no_folder(mounted: Mounted) -> None:
    """The hook is idempotent, a job is admitted, placed and finished, and what only decides writes no file at all."""
    applied = mounted.call("pool", "apply", "--json")
    assert applied.returncode == 0, applied.stderr
    assert mounted.call("pool", "apply", "--json").stdout == applied.stdout
    before = mounted.call("events", "--json").stdout
    assert before.count("PoolConfigured") == 1
    mounted.start()
    submitted = mounted.call(
        "submit", "--json", "--name", "one", "--", sys.executable, str(TRAINING), str(mounted.folder), "60"
    )
    assert submitted.returncode == 0, submitted.stderr + submitted.stdout
    assert json.loads(submitted.stdout)["state"] in {"queued", "admitted"}  # services may still start

    def ended() -> bool:
        jobs = json.loads(mounted.call("jobs", "--all", "--json").stdout)
        return [job["outcome"] for job in jobs] == ["finished"]

    await until(ended, "the job to end", within_s=200)
    found = {path.name for path in mounted.folder.iterdir() if path.is_dir()}
    assert found & {point.name for point in entry_points(group=GROUP)} <= set()
    assert not list((mounted.folder / "acting").glob("*.lock"))
    assert not (mounted.folder / "acting" / "steepest.json").exists()


@pytest.mark.timeout(200)
def test_a_pool_is_added_at_the_end_and_none_is_moved(mounted: Mounted) -> None:
    """Another order would give one pool another's log: the hook refuses it and names the place."""
    assert mounted.call("pool", "apply").returncode == 0
    mounted.file.write_text(ONE + TWO)
    added = mounted.call("pool", "apply", "--json")
    mounted.file.write_text(TWO.replace('queues = ["images"]', "") + ONE.partition("\n")[2].partition("\n")[2])
    moved = mounted.call("pool", "apply")
    gone = mounted.call("up")

    assert [pool["pool"] for pool in json.loads(added.stdout)] == ["default", "vision"]
    assert moved.returncode == 2
    assert "cluster/0 is the log of the pool default, and the file has vision in its place" in moved.stderr
    assert gone.returncode == 2
    assert "is described by" in gone.stderr
