"""A training saves unasked, once a period, and for a bounded share of its time."""

from __future__ import annotations

from pathlib import Path

import pytest

from steepest_sdk.checkpoints import CheckpointFolder
from steepest_sdk.control import ControlFolder
from steepest_sdk.safe_point import PERIOD_S, SAVING_SHARE, Mode, SafePoints
from steepest_sdk.stop import StopSignal


class Hand:
    """A clock that is set by hand, and a save that takes ``save_s`` seconds."""

    def __init__(self, save_s: float) -> None:
        self.now = 100.0
        self._save_s = save_s

    def save(self, folder: Path) -> None:
        """Writes a file, for as long as it takes."""
        self.now += self._save_s
        folder.joinpath("weight").write_text("1")


def points(folder: Path, hand: Hand, mode: Mode = "on-request", *, saves: bool = True) -> SafePoints:
    """The safe points of one training."""
    control = folder / "control"
    control.mkdir()
    return SafePoints(
        mode=mode,
        save=hand.save if saves else None,
        checkpoints=CheckpointFolder(folder / "checkpoints", "a", 1),
        control=ControlFolder(control),
        stop=StopSignal(exit_immediately=True),
        proven=True,
        clock=lambda: hand.now,
    )


def steps_saved(folder: Path) -> list[int]:
    """The steps of the checkpoints that are there."""
    return sorted(int(path.name.split("-")[1]) for path in (folder / "checkpoints").glob("step-*"))


@pytest.mark.parametrize("save_s", [0.1, 5.0])
def test_it_saves_once_a_period(tmp_path: Path, save_s: float) -> None:
    """The first time after one period, then again after another, or later where a save takes more than its share."""
    hand = Hand(save_s)
    safe_points = points(tmp_path, hand)
    pause_s = max(PERIOD_S, save_s / SAVING_SHARE)
    for step, elapsed_s in enumerate((0.0, PERIOD_S - 1, 1.0, pause_s - 1, 1.0), 1):
        hand.now += elapsed_s
        assert safe_points.wanted() is (step in (3, 5))
        safe_points.reached(step, None)

    assert steps_saved(tmp_path) == [3, 5]


@pytest.mark.parametrize(("mode", "saves"), [("on-stop", True), ("on-request", False), ("none", False)])
def test_others_save_only_when_asked(tmp_path: Path, mode: Mode, saves: bool) -> None:  # noqa: FBT001 - a case
    """A training that must not be interrupted, a replica that saves nothing, and one that cannot."""
    hand = Hand(0.1)
    safe_points = points(tmp_path, hand, mode, saves=saves)
    hand.now += 100 * PERIOD_S

    assert not safe_points.wanted()
    safe_points.reached(1, None)
    assert steps_saved(tmp_path) == []
