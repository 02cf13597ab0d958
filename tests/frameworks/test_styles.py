"""Trainings as people write them, unchanged, as jobs of a real system: each has its progress, and what is left of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from tests.frameworks.conftest import ONE_THREAD, needs_frameworks
from tests.harness.system.running_system import RunningSystem

from steepest.events import cluster as c
from steepest.policies.forecast import remaining
from steepest.view.cluster_view import ClusterView
from steepest.view.progress import cpu_ms_left

pytestmark = [needs_frameworks, pytest.mark.timeout(1800)]

FOLDER = Path(__file__).parent / "styles"
PATIENCE_S = 1500.0
OFF = 0.25
"""How far the estimate may be from the truth: CPU time, which a busy machine does not change much."""

STYLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "epochs": ((), ("python", "epochs.py")),
    "steps": ((), ("python", "steps.py")),
    "bar": ((), ("python", "bar.py")),
    "lightning": (("--tty",), ("python", "light.py")),
    "huggingface": ((), ("python", "hf.py")),
    "keras": ((), ("python", "keras_style.py")),
    "ddp": (("--steps", "2400"), ("torchrun", "--nproc_per_node", "2", "--master_port", "29507", "ddp.py")),
    "sweep": ((), ("python", "sweep.py", "--lr", "0.03", "--epochs", "120", "--hidden", "4096")),
    "notebook": (("--epochs", "100"), ("python", "notebook.py")),
    "logged": ((), ("python", "logged.py")),
    "wrapper": ((), ("./wrapper.sh", "--epochs", "40")),
}
"""Options of `submit`, and commands."""


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningSystem]:
    """A workstation of one node, whose jobs find this Python first, as their user does: `submit` runs in this process."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    running = RunningSystem(tmp_path / "state", "--node", "ws=1.8:16Gi", "--interval", "5s", env=ONE_THREAD)
    running.start()
    yield running
    running.end()


@pytest.mark.parametrize("style", STYLES)
def test_what_is_left_of_a_training_is_known(style: str, system: RunningSystem) -> None:
    """Between a quarter and three quarters of its CPU time since its first report, time and CPU time left are known.

    Each trains for more than half a minute on an idle machine: its lines are read up to two seconds late, which is a quarter
    of what is left of ten seconds.
    """
    options, command = STYLES[style]
    system.submit(style, *command, options=(*options, "--workdir", str(FOLDER)))
    ended = system.look_for(lambda found: found.event if isinstance(found.event, c.JobEnded) else None, 0, PATIENCE_S)
    assert ended is not None
    printed = system.call("logs", style).stdout
    assert ended.outcome is c.Outcome.FINISHED, printed

    view, used = ClusterView(), list[tuple[int, int | None, bool]]()
    for received in system.events():
        view.fold(received)
        job = view.jobs.get(style)
        if job is None or not job.alive or not isinstance(received.event, c.Tick) or job.progress.cpu_ms is None:
            continue
        if used or job.progress.step is not None or job.progress.epoch is not None:
            known = remaining(view, job, received.at_ms) is not None
            used.append((job.progress.cpu_ms, cpu_ms_left(job), known))
    begin, end = used[0][0], used[-1][0]
    middle = [one for one in used if begin + (end - begin) / 4 <= one[0] <= end - (end - begin) / 4]
    off = [abs(left - (end - cpu)) / (end - cpu) for cpu, left, _ in middle if left is not None]
    assert sum(known for _, _, known in middle) > 0.9 * len(middle), printed
    assert median(off) <= OFF, printed
