"""A demo keeps its files in a folder of its own, also beside files of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from steepest.errors import InputError, RecordingError
from steepest_lab.demo.stage import own_folder


def test_each_demo_gets_the_next_free_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder asked for, demos lie side by side, and none takes over another's."""
    monkeypatch.chdir(tmp_path)

    assert [own_folder(None) for _ in range(3)] == [Path(f".steepest/demo-{number}") for number in (1, 2, 3)]


def test_asked_for_folder_is_made_or_taken_if_empty(tmp_path: Path) -> None:
    """A folder that is not there is made, and an empty one is used as it is."""
    asked = tmp_path / "some" / "where"

    assert own_folder(asked) == own_folder(asked) == asked
    assert asked.is_dir()


def test_folder_with_anything_in_it_is_refused(tmp_path: Path) -> None:
    """What others left is not touched; the message names the folder and what to do."""
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(InputError, match="is not empty") as refused:
        own_folder(tmp_path)

    assert "--state" in refused.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_place_where_nothing_can_be_made_is_told(tmp_path: Path) -> None:
    """A file stands where the folder should be: a clear error instead of a trace."""
    (tmp_path / "file").touch()

    with pytest.raises(RecordingError, match="no state folder can be made"):
        own_folder(tmp_path / "file" / "demo")
