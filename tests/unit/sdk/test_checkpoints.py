"""The checkpoint folder: written whole or not at all, the two newest good ones kept, other jobs' left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steepest_sdk.checkpoints import CheckpointFolder
from steepest_sdk.manifest import CheckpointRefused


def writes(text: str) -> Callable[[Path], object]:
    """A save callback that writes one file."""
    return lambda folder: folder.joinpath("state").write_text(text)


def names(root: Path) -> list[str]:
    """The names in the folder, hidden ones too."""
    return sorted(path.name for path in root.iterdir())


def save_steps(root: Path, *steps: int, incarnation: int = 1, job: str = "walk") -> CheckpointFolder:
    """A folder in which some steps were saved."""
    checkpoints = CheckpointFolder(root, job, incarnation)
    for step in steps:
        checkpoints.save(step, None, writes(str(step)))
    return checkpoints


@pytest.mark.parametrize("step", [40, 30])
def test_killed_at_any_point_a_save_loses_nothing(tmp_path: Path, step: int) -> None:
    """Killed before any change to the disk, a save of a new or the same step leaves a good newest checkpoint."""
    script = Path(__file__).with_name("killed_at_every_point.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path / "c", str(step)], check=True, capture_output=True, text=True
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) > 10, "the kills came too late to test anything"
    for outcome in outcomes:
        assert outcome["torn"] == [], "a name without a dot is a whole checkpoint"
        assert outcome["restored"] in {30, step}, outcome
        assert not [name for name in outcome["cleared"] if name.startswith(".")], outcome
        assert len(outcome["cleared"]) >= 2
    assert outcomes[0]["restored"] == 30
    assert outcomes[-1]["left"] == [f"step-{max(20, step - 10):08d}-i0002", f"step-{step:08d}-i0002"]


def test_two_newest_good_ones_are_kept(tmp_path: Path) -> None:
    """After each save only the two newest are left."""
    save_steps(tmp_path, 1, 2, 3, 4)
    assert names(tmp_path) == ["step-00000003-i0001", "step-00000004-i0001"]


def test_one_that_the_supervisor_names_is_kept_too(tmp_path: Path) -> None:
    """Until it names another one."""
    later = save_steps(tmp_path, 1, 2)
    for step in (3, 4, 5):
        later.save(step, None, writes(str(step)), "step-00000001-i0001")
    assert names(tmp_path) == ["step-00000001-i0001", "step-00000004-i0001", "step-00000005-i0001"]
    later.save(6, None, writes("6"))
    assert names(tmp_path) == ["step-00000005-i0001", "step-00000006-i0001"]


def test_one_that_was_given_up_does_not_count_among_the_two(tmp_path: Path) -> None:
    """A training that went back must not lose what it went back to, nor fall back to what it went back from."""
    for step in (1, 2, 3):
        save_steps(tmp_path, 1).save(step, None, writes(str(step)), "step-00000001-i0001")
    later = CheckpointFolder(tmp_path, "walk", 2)
    assert later.restore("step-00000001-i0001") is not None
    later.save(2, None, writes("2"))
    assert names(tmp_path) == ["step-00000001-i0001", "step-00000002-i0002"]
    tmp_path.joinpath("step-00000002-i0002", "state").write_text("changed")
    again = CheckpointFolder(tmp_path, "walk", 3).restore("step-00000002-i0002")
    assert again is not None
    assert again.manifest.step == 1


def test_damaged_checkpoint_does_not_count_among_the_two(tmp_path: Path) -> None:
    """With a damaged one among the newest, the good one before it is kept until two good ones follow."""
    save_steps(tmp_path, 1, 2)
    tmp_path.joinpath("step-00000002-i0001", "state").write_text("changed")
    later = save_steps(tmp_path, 3, incarnation=2)
    assert names(tmp_path) == ["step-00000001-i0001", "step-00000002-i0001", "step-00000003-i0002"]
    later.save(4, None, writes("4"))
    assert names(tmp_path) == ["step-00000003-i0002", "step-00000004-i0002"]


def test_foreign_checkpoint_is_neither_restored_nor_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another job's checkpoint in the folder is passed over with a reason, and is still there after many saves."""
    save_steps(tmp_path, 5, job="other", incarnation=4)
    save_steps(tmp_path, 1, 2, 3)
    restored = CheckpointFolder(tmp_path, "walk", 5).restore("step-00000005-i0004")
    assert restored is not None
    assert restored.manifest.step == 3
    assert "belongs to the job 'other', not 'walk'" in capsys.readouterr().err
    assert "step-00000005-i0004" in names(tmp_path)
    save_steps(tmp_path, 6, 7, 8, incarnation=6)
    assert "step-00000005-i0004" in names(tmp_path)


def test_restore_takes_nothing_newer_than_what_was_wanted(tmp_path: Path) -> None:
    """A supervisor that names the older of two good checkpoints gets that one."""
    checkpoints = save_steps(tmp_path, 1, 2)
    restored = checkpoints.restore("step-00000001-i0001")
    assert restored is not None
    assert restored.folder == tmp_path / "step-00000001-i0001"


@pytest.mark.parametrize("wanted", ["newest", "../other", "step-00000001-i0001/..", "step-00000009-i0009"])
def test_name_of_no_checkpoint_means_the_newest_good_one(
    tmp_path: Path, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing wanted name is reported, and the newest good one is restored; no path leads outside."""
    restored = save_steps(tmp_path, 1, 2).restore(wanted)
    assert restored is not None
    assert restored.manifest.step == 2
    assert f"there is no checkpoint {wanted!r}" in capsys.readouterr().err


def test_without_any_good_checkpoint_training_begins_at_step_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty or missing folder restores nothing, and says so."""
    assert CheckpointFolder(tmp_path / "missing", "walk", 2).restore("step-00000001-i0001") is None
    assert "starting at step 0" in capsys.readouterr().err


def test_same_step_saved_again_replaces_the_first(tmp_path: Path) -> None:
    """A script that saves twice at a step has one checkpoint of it, the later one."""
    checkpoints = save_steps(tmp_path, 1)
    again = checkpoints.save(1, None, writes("later"))
    assert again.folder.joinpath("state").read_text() == "later"
    assert names(tmp_path) == ["step-00000001-i0001"]


def test_late_save_of_a_replaced_process_displaces_nothing(tmp_path: Path) -> None:
    """Incarnation 1, still alive after incarnation 2 has saved, cannot push the newer checkpoints out."""
    zombie = save_steps(tmp_path, 90)
    save_steps(tmp_path, 50, 60, incarnation=2)
    zombie.save(100, None, writes("late"))
    assert names(tmp_path) == ["step-00000050-i0002", "step-00000060-i0002"]


def test_leftovers_of_a_later_incarnation_are_not_touched(tmp_path: Path) -> None:
    """An old process that starts late removes older leftovers, and not the files that its successor is writing."""
    for name in (".step-00000001-i0001.new", ".step-00000001-i0003.new", ".unrelated"):
        tmp_path.joinpath(name).mkdir()
    CheckpointFolder(tmp_path, "walk", 2).clear_leftovers()
    assert names(tmp_path) == [".step-00000001-i0003.new", ".unrelated"]


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda _folder: None, "wrote no file"),
        (lambda folder: folder.joinpath("manifest.json").touch(), "reserved for the SDK"),
        (lambda folder: folder.joinpath("a").symlink_to("/etc/hosts"), "neither a file nor a folder"),
    ],
)
def test_state_that_cannot_be_kept_is_refused_when_it_is_saved(
    tmp_path: Path, write: Callable[[Path], object], why: str
) -> None:
    """An empty state, the manifest's own name, or a link fails the save, which leaves nothing behind."""
    with pytest.raises(CheckpointRefused, match=why):
        CheckpointFolder(tmp_path, "walk", 1).save(1, None, write)
    assert names(tmp_path) == []
