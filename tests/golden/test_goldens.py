"""Golden recordings: what was decided then is decided now, byte for byte, whatever the hash seed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from steepest.log.files.file_log import FileLog
from steepest.replay.replay import Replay

HERE = Path(__file__).parent
REPLAY_ALL = """
import contextlib, sys
from steepest.cli.main import main
for recording in sys.argv[1:]:
    with contextlib.suppress(SystemExit):
        main(["replay", recording, "--json"])
"""
GOLDENS = sorted(folder.parent.name for folder in HERE.glob("*/recording.json"))


def steepest(*arguments: str, seed: str = "0") -> tuple[int, dict[str, Any]]:
    """A command in a fresh process: its exit status and its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "steepest", *arguments, "--json"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    assert done.stdout, done.stderr.decode()
    return done.returncode, msgspec.json.decode(done.stdout)


def test_there_are_goldens() -> None:
    """Without recordings, the tests below would hold nobody to anything."""
    assert len(GOLDENS) >= 2


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_a_golden_is_decided_again_as_it_was(seed: str) -> None:
    """All recordings replay without a difference, in a fresh process, under any hash seed."""
    done = subprocess.run(
        [sys.executable, "-c", REPLAY_ALL, *(str(HERE / golden) for golden in GOLDENS)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    reports = [msgspec.json.decode(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0, done.stderr.decode()
    assert {golden: report["differences"] for golden, report in zip(GOLDENS, reports, strict=True)} == dict.fromkeys(
        GOLDENS, 0
    )
    assert all(report["decisions"] > 0 for report in reports)


@pytest.mark.parametrize("golden", GOLDENS)
def test_a_golden_keeps_the_invariants(golden: str) -> None:
    """Nothing in a recording breaks an invariant."""
    status, _ = steepest("check", str(HERE / golden))

    assert status == 0


@pytest.mark.parametrize("golden", GOLDENS)
async def test_any_changed_record_is_found(golden: str, tmp_path: Path) -> None:
    """One changed record of each event type makes a difference; one that was decided is told with both versions.

    A type that stands in several recordings is changed in the shortest of them.
    """
    for partition, line_number, changed in changes_of_each()[golden]:
        copy = tmp_path / "copy"
        shutil.copytree(HERE / golden, copy)
        lines = (copy / partition).read_bytes().split(b"\n")
        was = msgspec.json.decode(lines[line_number])
        lines[line_number] = changed
        (copy / partition).write_bytes(b"\n".join(lines))
        log = FileLog.open(copy, read_only=True)

        first = (await Replay(log).run()).first_difference

        await log.close()
        shutil.rmtree(copy)
        assert first is not None, f"a changed {was['value']['type']} was not found"
        if "id" in was.get("headers", {}):
            assert first.position == f"{was['topic']}/{was['partition']}@{was['offset']}"
            assert first.recorded != first.decided == was["value"]


def test_a_changed_recording_is_told_by_the_command(tmp_path: Path) -> None:
    """The command exits with 1 and names the position that differs."""
    copy = tmp_path / "copy"
    shutil.copytree(HERE / GOLDENS[0], copy)
    partition, number, changed = next(iter(changes(copy).values()))
    lines = (copy / partition).read_bytes().split(b"\n")
    lines[number] = changed
    (copy / partition).write_bytes(b"\n".join(lines))

    status, report = steepest("replay", str(copy))

    assert status == 1
    assert report["first_difference"]["position"]


def length(golden: str) -> int:
    """Of all files of a recording, in bytes."""
    return sum(file.stat().st_size for file in (HERE / golden).glob("*/*.jsonl"))


def changes(golden: Path) -> dict[str, tuple[Path, int, bytes]]:
    """By event type: the first line that holds one, with a number of its value made another."""
    found: dict[str, tuple[Path, int, bytes]] = {}
    for file in sorted(golden.glob("*/*.jsonl")):
        for number, line in enumerate(file.read_bytes().split(b"\n")):
            if not line:
                continue
            record = msgspec.json.decode(line)
            value = record.get("value")
            if not isinstance(value, dict) or value["type"] in found:
                continue
            changed = msgspec.json.encode(value | {"job": "someone-else"} if "job" in value else value | {"x": 1})
            was = msgspec.json.encode(value)
            if was in line:
                found[value["type"]] = (file.relative_to(golden), number, line.replace(was, changed))
    return found


def changes_of_each() -> dict[str, list[tuple[Path, int, bytes]]]:
    """The changes to try in each recording."""
    tried: dict[str, None] = {}
    of_each = {}
    for golden in sorted(GOLDENS, key=length):
        new = {kind: change for kind, change in changes(HERE / golden).items() if kind not in tried}
        tried |= dict.fromkeys(new)
        of_each[golden] = list(new.values())
    return of_each
