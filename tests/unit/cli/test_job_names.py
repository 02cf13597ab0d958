"""Names for jobs without one, and what is said of commands that will hardly run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cli.jobs.job_names import name_for, script_of, why_not_found
from steepest.events.common import Name


@pytest.mark.parametrize(
    ("command", "stem"),
    [
        (("python", "train.py", "--lr", "0.1"), "train"),
        (("/usr/bin/python3.11", "-u", "runs/My Model.py"), "my-model"),
        (("python", "-m", "steepest_lab.jobs.linear", "--steps", "3"), "linear"),
        (("python", "-c", "print()"), "python"),
        (("./train.sh", "x.py"), "train"),
        (("___",), "job"),
    ],
)
def test_a_job_is_called_by_what_it_runs(command: tuple[str, ...], stem: str) -> None:
    """The script's name without its ending, the module's last part, or the program's."""
    assert re.fullmatch(rf"{stem}-[0-9a-f]{{4}}", name_for(command))


@given(st.lists(st.text(), min_size=1))
def test_every_command_has_a_proper_name(command: list[str]) -> None:
    """Any command gets a name that the log accepts."""
    msgspec.convert(name_for(command), Name)


def test_the_script_is_the_first_argument_that_is_no_option() -> None:
    """Code and modules given to the interpreter are no files."""
    assert script_of(("python", "-u", "train.py", "other.py")) == "train.py"
    assert script_of(("python", "-m", "train")) is None
    assert script_of(("python",)) is None


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    """A script is looked for in the job's folder, a program there or on the PATH."""
    (tmp_path / "train.py").touch()

    assert why_not_found((sys.executable, "train.py"), tmp_path) == ""
    assert why_not_found((sys.executable, "trian.py"), tmp_path) == f"there is no script {tmp_path / 'trian.py'}"
    assert why_not_found(("./run.sh",), tmp_path) == f"there is no program {tmp_path / './run.sh'}"
    assert "on this shell's PATH" in why_not_found(("no-such-program-anywhere",), tmp_path)


def test_a_script_that_may_not_be_executed_is_named(tmp_path: Path) -> None:
    """The answer says what to type: the bit that it lacks, or that a program of the folder begins with `./`."""
    (tmp_path / "run.sh").touch()

    assert "`chmod +x ./run.sh`" in why_not_found(("./run.sh",), tmp_path)
    assert why_not_found(("run.sh",), tmp_path).endswith("; write ./run.sh, or name its interpreter")
    (tmp_path / "run.sh").chmod(0o755)
    assert why_not_found(("./run.sh",), tmp_path) == ""
