"""Runs of trainings that are kept: what is complete and the same is read, and everything else runs."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from steepest.events.parameters import PoolParameters
from steepest_lab.commands.reproduce import PICKYMAN_PARTS, reproduce
from steepest_lab.demo.play import Play
from steepest_lab.reproduce import kept_runs
from steepest_lab.reproduce.kept_runs import COMPLETE, JobsOver, Records, run_once
from steepest_lab.reproduce.pickyman.real_run import RealPart, parameters
from steepest_lab.reproduce.pickyman.trainings import crowded_workload


class Runs:
    """Counts runs, the first of which is interrupted, and makes none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(kept_runs, "_played", self.played)
        monkeypatch.setattr(Play, "recorded", self.recorded)

    async def played(self, play: Play, _: JobsOver) -> Records:
        """A run that makes its folder."""
        self.count += 1
        play.recording.parent.mkdir(parents=True)
        if self.count == 1:
            raise KeyboardInterrupt
        return ()

    async def recorded(self) -> Records:
        """The events of such a run."""
        return ()


def test_a_complete_run_is_not_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that was interrupted is, and so is one of another workload or under other parameters."""
    runs, folder = Runs(monkeypatch), tmp_path / "run"

    def once(seed: int, pool: PoolParameters) -> int:
        run_once(crowded_workload(seed), pool, folder, said.append)
        return runs.count

    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        once(1, parameters("spread"))
    assert not (folder / COMPLETE).exists()
    assert once(1, parameters("spread")) == 2
    assert once(1, parameters("spread")) == 2
    assert said == ["run: read from its recording"]
    assert once(2, parameters("spread")) == 3
    assert once(2, parameters("pickyman")) == 4


def test_the_command_has_every_part(tmp_path: Path) -> None:
    """And takes none where there are no parts."""
    assert tuple(RealPart) == PICKYMAN_PARTS
    refused = CliRunner().invoke(reproduce, ["specon", "--part", "overheads", "--out", str(tmp_path)])
    assert refused.exit_code == click.UsageError.exit_code
    assert "--part is for --real" in refused.output
