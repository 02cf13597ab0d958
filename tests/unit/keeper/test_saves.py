"""The order of saves, refusals, stops and restores, with a CRIU that writes one file and processes of this machine."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steepest.keeper import keeper as module
from steepest.keeper import kernel, processes, repeats
from steepest.keeper.criu import Criu
from steepest.keeper.images import Images
from steepest.keeper.job_start import _environment
from steepest.keeper.keeper import LEFT, Keeper
from steepest.keeper.order import KeeperOrder
from steepest.keeper.processes import CannotBeSaved, JobLostError, NamespaceProcess

IMAGE = ("step-00000007-i0001", "sha256:0")


class Rig:
    """A keeper whose job is a child of this process: it sleeps, and ends by a signal."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.control, self.checkpoints = folder / "control", folder / "checkpoints"
        for each in (self.control, self.checkpoints):
            each.mkdir()
        (folder / "zstd").write_text("#!/bin/sh\nexec cat\n")
        (folder / "criu").write_text('#!/bin/sh\necho "Version: 4.2"\n')
        for name in ("zstd", "criu"):
            (folder / name).chmod(0o755)
        self.order = KeeperOrder(
            program="/bin/sleep",
            command=["sleep", "100"],
            working_dir=None,
            job="job",
            incarnation=1,
            control=str(self.control),
            checkpoints=str(self.checkpoints),
            criu=[str(folder / "criu")],
            zstd=[str(folder / "zstd")],
        )
        self.refusals: list[str] = []
        self.dumps = 0
        self._before = set(_children())  # other tests' processes: a broker of the session
        monkeypatch.setattr(processes, "others", self._others)
        monkeypatch.setattr(kernel, "begin_pids_at", lambda _: None)
        monkeypatch.setattr(Criu, "dump", self._dump)
        monkeypatch.setattr(module, "become_job", lambda *_: os.execv("/bin/sleep", ["sleep", "100"]))  # noqa: S606

    def keeper(self, **changed: Any) -> Keeper:
        """A keeper of it, which has begun."""
        before = os.umask(0o022)
        self.out, self.wake = os.pipe()
        keeper = Keeper(self.order._replace(**changed), self.out)
        os.umask(before)
        keeper.begin()
        return keeper

    def child(self) -> int:
        """One more process of the job."""
        return os.posix_spawnp("sleep", ["sleep", "100"], os.environ)

    def run(self, keeper: Keeper, until: Callable[[], bool]) -> None:
        """Let it look at the control folder until something holds."""
        deadline = time.monotonic() + 10.0
        while not until() and time.monotonic() < deadline:
            keeper._look()
            time.sleep(0.01)
        assert until()

    def ask(self, request: str, hold_s: float) -> None:
        """Ask for a checkpoint."""
        (self.control / "checkpoint-request.json").write_text(json.dumps({"request": request, "hold_s": hold_s}))

    def said(self, name: str) -> Any:
        """What the keeper has written."""
        path = self.control / name
        return json.loads(path.read_text()) if path.exists() else {}

    def _others(self) -> list[NamespaceProcess]:
        own = [pid for pid in _children() if pid not in self._before]
        found = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in own]
        return [NamespaceProcess(int(pid), 1, words[0]) for pid, words in zip(own, found, strict=True)]

    def _dump(self, root: int, into: Path) -> None:
        self.dumps += 1
        if self.refusals:
            raise CannotBeSaved(self.refusals.pop(0), "said so")
        os.kill(root, signal.SIGSTOP)
        (into / "pages-1.img").write_bytes(b"pages")


def _children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """The rig; what it has started ends with the test."""
    monkeypatch.setattr(processes, "left_tree", lambda *_: [])
    rig = Rig(tmp_path, monkeypatch)
    yield rig
    for each in rig._others():
        os.kill(each.pid, signal.SIGKILL)
        os.waitpid(each.pid, 0)


@pytest.mark.parametrize("name", [".trial.new", ".step-00000000-i0001.new"])
def test_a_save_without_a_folder_is_refused_and_the_job_runs_on(rig: Rig, name: str) -> None:
    """As on a disk that is full to its last block: what fails is the save, not the keeper."""
    (rig.checkpoints / name).write_text("in the way")
    keeper = rig.keeper()
    keeper._look_at = 0.0 if name == ".trial.new" else None
    rig.ask("r", 1.0)
    rig.run(keeper, lambda: "refused" in rig.said("checkpoint-ack.json") or "reason" in rig.said("hello.json"))
    assert keeper._tree.reap() is None


@pytest.mark.parametrize(
    "content",
    ["[" * 60_000, '{"request": "r", "hold_s": 1' + "0" * 400 + "}"],
    ids=["deep", "large"],
)
def test_no_json_of_a_job_ends_its_keeper(rig: Rig, content: str) -> None:
    """JSON that is nested too deeply counts as absent; a number beyond all bounds as the largest."""
    keeper = rig.keeper(auto=True)
    for name in ("checkpoint-request.json", "release.json", "hello.json"):
        (rig.control / name).write_text(content)
        keeper._look()


def test_a_pipe_in_place_of_an_answer_holds_nobody_up(rig: Rig) -> None:
    """What the keeper writes is a new file, whatever lies there."""
    keeper = rig.keeper()
    for name in ("hello.json", "checkpoint-ack.json"):
        os.mkfifo(rig.control / f".{name}.keeper")
    keeper._control.declare("system")
    keeper._control.answer("r", refused="busy")
    assert rig.said("hello.json")["checkpoint_mode"] == "system"
    assert rig.said("checkpoint-ack.json")["refused"] == "busy"


def test_a_refusal_is_short_enough_for_who_reads_it() -> None:
    """A job may have thousands of processes that left its tree; an answer of more than 64 KiB counts as none."""
    assert len(str(CannotBeSaved("left-tree", processes.names(range(10_000_000, 10_005_000))))) <= 500


def test_a_stop_after_the_end_of_a_hold_finds_the_job_saved_again(rig: Rig) -> None:
    """What it has done since the answer is not lost; where the request was withdrawn, the stop is the job's own."""
    keeper = rig.keeper(auto=True)
    rig.ask("r", 0.05)
    rig.run(keeper, lambda: rig.said("checkpoint-ack.json") != {} and keeper._hold is None)
    (rig.control / "release.json").write_text('{"request": "r"}')
    assert not keeper._is_saved()
    (rig.control / "release.json").unlink()
    before = keeper._images.newest_first()
    os.write(rig.wake, bytes([signal.SIGTERM]))
    assert keeper.run() == LEFT << 8
    assert keeper._images.newest_first()[0] > before[0]


def test_a_refused_save_leaves_a_process_that_the_job_has_stopped(rig: Rig) -> None:
    """Also where it is refused before anything is stopped; and the time until then counts."""
    keeper = rig.keeper(auto=True)
    stopped = rig.child()
    os.kill(stopped, signal.SIGSTOP)
    os.waitpid(stopped, os.WUNTRACED)
    keeper._tree._since -= 100.0
    keeper._order = keeper._order._replace(most_bytes=0)  # so that it is too large
    rig.ask("r", 1.0)
    rig.run(keeper, lambda: rig.said("checkpoint-ack.json") != {})
    time.sleep(0.05)
    assert next(each.state for each in rig._others() if each.pid == stopped) == "T"
    assert keeper._tree.now_s() >= 100.0


def test_passing_reasons_are_counted_from_one_save_to_the_next(rig: Rig) -> None:
    """Three in a row make a job unmovable, and not three in its life."""
    keeper = rig.keeper(auto=True, snapshot_s=0.0)
    for _ in range(5):
        rig.refusals = ["busy", "busy"]
        keeper._snapshot()
        keeper._snapshot()
        keeper._snapshot()
        assert rig.refusals == []
    assert rig.said("hello.json") == {}


def test_a_job_that_was_refused_counts_as_movable_after_a_trial(rig: Rig) -> None:
    """Until then it has no snapshots either: each one would stop it in vain."""
    keeper = rig.keeper(snapshot_s=0.0)
    rig.refusals = ["other", "other"]
    keeper._look_at = 0.0
    rig.run(keeper, lambda: rig.said("hello.json") != {})
    for _ in range(5):
        keeper._look()
    assert rig.dumps == 1
    keeper._look_at = 0.0
    keeper._look()
    assert (rig.dumps, rig.said("hello.json")["checkpoint_mode"]) == (2, "none")
    keeper._look_at = 0.0
    keeper._look()
    assert (rig.dumps, rig.said("hello.json")["checkpoint_mode"]) == (3, "system")


def test_what_a_killed_keeper_has_left_is_removed(rig: Rig) -> None:
    """A raw image is as large as the job's memory. Complete images stay."""
    raw = rig.checkpoints / ".step-00000009-i0001.new/raw"
    scratch = rig.checkpoints / ".scratch-0/raw"
    image = rig.checkpoints / "step-00000005-i0001"
    for each in (raw, scratch, image):
        each.mkdir(parents=True)
    (image / "keeper.json").write_text("{}")
    rig.keeper(restore=IMAGE, incarnation=2)
    assert [each.name for each in rig.checkpoints.iterdir()] == [image.name]


def saved(rig: Rig) -> tuple[str, str]:
    """An image of a job that has ended since."""
    keeper = rig.keeper(auto=True)
    rig.ask("r", 100.0)
    rig.run(keeper, lambda: keeper._hold is not None)
    keeper._tree.kill()
    return rig.said("checkpoint-ack.json")["name"], rig.said("checkpoint-ack.json")["digest"]


def test_a_restore_that_fails_in_an_unknown_way_counts_too(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the keeper would fail at each start, and the job wait for ever. It begins again, and says why."""
    image = saved(rig)

    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("missing")

    monkeypatch.setattr(Criu, "restore", fail)
    with pytest.raises(JobLostError, match="its image was not restored: other: KeyError"):
        rig.keeper(restore=image, incarnation=2)
    keeper = rig.keeper(restore=image, incarnation=3)
    assert rig.said("hello.json")["reason"].startswith("restarted-from-zero: other: KeyError")
    assert keeper._tree.root


@pytest.mark.parametrize("name", ["manifest.json", "keeper.json"])
def test_a_pipe_in_place_of_an_image_s_file_is_damage(rig: Rig, name: str) -> None:
    """Nothing is waited for."""
    image = saved(rig)
    (rig.checkpoints / image[0] / name).unlink()
    os.mkfifo(rig.checkpoints / image[0] / name)
    rig.keeper(restore=image, incarnation=2)
    assert rig.said("hello.json")["reason"].startswith("restarted-from-zero: damaged: ")


def test_a_manifest_that_is_nested_too_deeply_does_not_end_the_keeper(rig: Rig) -> None:
    """It is tried once more elsewhere, as what cannot be read for an unknown reason."""
    image = saved(rig)
    (rig.checkpoints / image[0] / "manifest.json").write_text("[" * 60_000)
    with pytest.raises(JobLostError, match="its image was not restored: other: RecursionError"):
        rig.keeper(restore=image, incarnation=2)
    rig.keeper(restore=image, incarnation=3)
    assert rig.said("hello.json")["reason"].startswith("restarted-from-zero: other: RecursionError")


def test_an_image_that_is_newer_than_the_log_s_is_not_said_to_be_older(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a job whose node was lost: what the log knows of it has been replaced since."""
    image = saved(rig)
    monkeypatch.setattr(Criu, "restore", lambda *_, **__: rig.child())
    rig.keeper(restore=("step-00000000-i0000", "sha256:0"), incarnation=2)
    said = rig.said("hello.json")
    assert (said["checkpoint_mode"], said["restored"], said["reason"]) == ("system", image[0], "")


def test_a_full_disk_costs_no_image(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older image, or none, would not help: the job waits for room, and each try says so."""
    image = saved(rig)

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(repeats, "receive", fail)
    for incarnation in range(2, 9):
        with pytest.raises(JobLostError, match="disk-full"):
            rig.keeper(restore=image, incarnation=incarnation)
    assert Images(rig.checkpoints, "job", []).newest_first() == [image[0]]


def test_a_job_that_begins_again_is_told_of_no_image(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK would load it as a checkpoint of its own, and the job would fail at each start."""
    image = saved(rig)
    monkeypatch.setenv("STEEPEST_RESTORE", image[0])
    (rig.checkpoints / image[0] / "image.zst").write_text("damaged")
    keeper = rig.keeper(auto=True, restore=image, incarnation=2)
    assert "STEEPEST_RESTORE" not in _environment(keeper._order)
    own = rig.checkpoints / "step-00000100-i0002"
    own.mkdir()
    monkeypatch.setenv("STEEPEST_RESTORE", own.name)
    keeper = rig.keeper(auto=True, restore=(own.name, ""), incarnation=3)
    assert _environment(keeper._order)["STEEPEST_RESTORE"] == own.name
