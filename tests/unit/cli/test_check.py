"""``steepest check`` on recordings made by hand: its words, its JSON and its exit status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.harness.scenarios.log_builder import LogBuilder

from steepest.cli.main import main
from steepest.events import cluster as c
from steepest.events.registry import encode
from steepest.invariants import ALL
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.files.file_log import FileLog


def recorded(folder: Path, stories: Sequence[LogBuilder], garbage_at: int = -1) -> Path:
    """A recording of these pools; the record at one offset of the first pool is followed by one that is no event."""

    async def write() -> None:
        log = FileLog(folder, {"cluster": len(stories)})
        for partition, story in enumerate(stories):
            at = TopicPartition("cluster", partition)
            for received in story.records:
                value = encode(received.event)
                record = NewRecord(to=at, key=received.key, value=value, at_ms=received.at_ms, headers=received.headers)
                await log.append([record])
                if received.offset == garbage_at:
                    await log.append([msgspec.structs.replace(record, value=b"no event")])
        await log.close()

    asyncio.run(write())
    return folder


def sound() -> LogBuilder:
    """A job is moved and finishes."""
    return LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").moved("a", "n1", "n2").exited("a", "n2", 2)


def unsound() -> LogBuilder:
    """A job in two places."""
    return LogBuilder(1).opened(n1=1000, n2=1000).running("a", "n1").begun("ghost", c.Step.START, "a", 2, "n2")


def run(*arguments: object) -> Result:
    """The command's output and exit status."""
    return CliRunner().invoke(main, ["check", *[str(argument) for argument in arguments]], env={"COLUMNS": "200"})


def verdicts(result: Result, pool: int = 0) -> dict[str, Any]:
    """Status by checker, out of the JSON."""
    found = json.loads(result.stdout)["pools"][pool]["verdicts"]
    return {verdict["checker"]: verdict["status"] for verdict in found}


def test_a_sound_recording_exits_with_0_and_names_every_invariant(tmp_path: Path) -> None:
    """The table has a line for each checker, and the list of what became of the jobs."""
    result = run(recorded(tmp_path / "log", [sound()]))
    assert result.exit_code == 0
    assert "pool pool: cluster/0" in result.stdout
    lines = result.stdout.splitlines()
    for checker in ALL:
        assert any(line.startswith(checker.name) and " holds " in line for line in lines), checker.name
    assert "1 finished" in result.stdout


def test_a_breach_in_any_pool_exits_with_1(tmp_path: Path) -> None:
    """The second pool is unsound: the verdict stands in the JSON with its evidence, and the first pool's hold."""
    result = run(recorded(tmp_path / "log", [sound(), unsound()]), "--json")
    assert result.exit_code == 1
    assert set(verdicts(result).values()) == {"holds"}
    assert verdicts(result, 1)["one-place"] == "broken"
    (broken,) = [v for v in json.loads(result.stdout)["pools"][1]["verdicts"] if v["checker"] == "one-place"]
    assert broken["evidence"] == [8, 11]


def test_an_unreadable_record_hides_nothing(tmp_path: Path) -> None:
    """It is reported, and the records around it are checked, as every reader skips it."""
    sound_with_garbage = recorded(tmp_path / "sound", [sound()], garbage_at=4)
    result = run(sound_with_garbage, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["pools"][0]["unreadable"] == [5]
    assert "1 of them unreadable" in run(sound_with_garbage).stdout
    assert run(recorded(tmp_path / "unsound", [unsound()], garbage_at=4)).exit_code == 1


def test_unknown_alone_exits_with_0_and_says_the_word(tmp_path: Path) -> None:
    """An empty log proves nothing, which is no breach."""
    result = run(recorded(tmp_path / "log", [LogBuilder()]))
    assert result.exit_code == 0
    assert " unknown " in result.stdout


def test_the_recording_of_a_state_folder_is_found(tmp_path: Path) -> None:
    """People name the folder that they know: the one of the running system."""
    recorded(tmp_path / "log", [sound()])
    (tmp_path / "steepest.json").write_text("{}")
    assert run(tmp_path).exit_code == 0


@pytest.mark.parametrize("name", ["absent", "empty", "other"])
def test_what_is_no_recording_exits_with_2_and_is_named(tmp_path: Path, name: str) -> None:
    """A folder that is not there, one that is no recording, and a recording without pools."""
    (tmp_path / "empty").mkdir()

    async def other() -> None:
        await FileLog(tmp_path / "other", {"loss": 1}).close()

    asyncio.run(other())
    result = run(tmp_path / name)
    assert result.exit_code == 2
    assert name in result.stderr or "cluster" in result.stderr
    assert not result.stdout
