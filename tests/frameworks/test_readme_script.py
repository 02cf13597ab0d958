"""The README's training with PyTorch itself: as a job, each of its epochs is read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.frameworks.conftest import PATIENCE_S, needs_frameworks
from tests.harness.system.running_system import RunningSystem

from steepest.events import cluster as c
from steepest.training_logs import LogReader
from tools.docs.markdown import ROOT, blocks

pytestmark = [needs_frameworks, pytest.mark.timeout(900)]

SCRIPT = next(block.text for block in blocks((ROOT / "README.md").read_text()) if block.language == "python")
EPOCHS = 20


@pytest.mark.end_to_end
def test_each_epoch_of_the_readme_s_training_is_read(tmp_path: Path) -> None:
    """Shorter, and otherwise as it stands there."""
    (tmp_path / "train.py").write_text(SCRIPT.replace("epochs = 200", f"epochs = {EPOCHS}"))
    system = RunningSystem(tmp_path / "state", "--interval", "500ms")
    system.start()
    try:
        options = ("--cpu", "1", "--workdir", str(tmp_path), "--python", sys.executable)
        system.submit("first", "python", "train.py", options=options)
        ended = system.look_for(
            lambda found: found.event if isinstance(found.event, c.JobEnded) else None, 0, PATIENCE_S
        )
        assert ended is not None
        assert ended.outcome is c.Outcome.FINISHED
        printed = system.call("logs", "first", "--lines", "100").stdout
    finally:
        system.end()

    reader = LogReader("auto")
    read = [*reader.feed(printed.encode()), *reader.close()]
    assert [one.epoch for one in read] == list(range(1, EPOCHS + 1))
    assert read[-1].value < read[0].value / 2
