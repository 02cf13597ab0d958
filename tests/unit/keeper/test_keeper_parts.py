"""The parts of a keeper that need neither CRIU nor root: what it reads, how it refuses, and what it answers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steepest.cluster.folders.adapter_folder import AdapterFolder, ExitRecord
from steepest.cluster.local.supervisor import KILLED
from steepest.cluster.observation import NO_MEMORY, Observation, end, kept_end, record, recorded_end, write_order
from steepest.cluster.port import ReplicaId, ReplicaPhase
from steepest.events.common import CheckpointMode, known_mode
from steepest.keeper import criu, processes
from steepest.keeper.control import Control
from steepest.keeper.criu import Criu
from steepest.keeper.images import Images
from steepest.keeper.order import KeeperOrder
from steepest.keeper.places import FORMAT, refuse_other_place
from steepest.keeper.processes import (
    CannotBeSaved,
    NamespaceProcess,
    are_connected,
    connections,
    left_tree,
    refuse_unsavable,
    stopped,
    written_files,
)

ROOT = Path(__file__).parents[3]
LINES = {
    "(00.1) Error (criu/files-ext.c:99): Can't dump file 5 of that type [600] (anon_inode:[io_uring])": "io-uring",
    "(00.1) Error (criu/sk-unix.c:879): unix: External socket is used. Consider --ext-unix-sk": "outside-socket",
    "(00.1) Error (criu/files-reg.c:2187): File usr/lib/libssl.so.3 has bad build-ID": "changed-file",
    "(00.1) Error (criu/bfd.c:128): bfd: write: No space left on device": "disk-full",
    "(00.1) Error (criu/sockets.c:1): sockets: Can't get 1:16 opt: Operation not supported": "old-criu",
    "(00.1) Error (criu/seize.c:1): Zombies with threads are not supported": "busy",
    "(00.1) Error (criu/cr-dump.c:1): something new": "other",
    "(00.1) Error (criu/seize.c:1): Unseizable non-zombie 7 found, state t": "traced",
    "(00.1) Error (criu/seize.c:1): something else": "other",
    "(00.1) Error (criu/mount.c:1): mnt: something else": "namespace",
}
"""What CRIU writes to its log, and the reason that it stands for."""


@pytest.mark.parametrize(("line", "code"), LINES.items())
def test_a_refusal_of_criu_has_a_code(tmp_path: Path, line: str, code: str) -> None:
    """What CRIU logs becomes one of the reasons of the documentation; warnings that are in every log are none."""
    program = tmp_path / "criu"
    harmless = "(00.0) Error (criu/rst.c:1): rlimit: Can't setup RLIMIT_NOFILE for self"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "{harmless}" "{line}" > {tmp_path}/dump.log\nexit 1\n')
    program.chmod(0o755)
    with pytest.raises(CannotBeSaved, match=code) as refused:
        Criu([str(program)]).dump(1, tmp_path)
    assert refused.value.code == code


def test_criu_that_is_killed_is_a_passing_reason(tmp_path: Path) -> None:
    """Another try may succeed, so the job keeps its mode."""
    program = tmp_path / "criu"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    with pytest.raises(CannotBeSaved) as refused:
        Criu([str(program)]).dump(1, tmp_path)
    assert refused.value.code == "killed"
    assert refused.value.code in criu.PASSING


def test_a_process_that_left_the_tree_is_found() -> None:
    """Descendants of the root are inside, at any depth and in any order; zombies do not count."""
    found = [
        NamespaceProcess(305, 304, "S"),
        NamespaceProcess(300, 1, "S"),
        NamespaceProcess(304, 300, "T"),
        NamespaceProcess(310, 1, "S"),
        NamespaceProcess(311, 1, "Z"),
    ]
    assert left_tree(300, found) == [310]
    assert stopped(found) == [304]


def test_a_gpu_is_left_to_criu_only_where_its_plugin_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the plug-in the job is refused before it stops; other devices are refused in any case."""
    monkeypatch.setattr(processes, "_is_device", lambda _: True)
    open_devices = [(3, "/dev/nvidia0"), (4, "/dev/nvidia-uvm"), (5, "/dev/null")]
    monkeypatch.setattr(processes, "links", lambda _: open_devices)
    monkeypatch.setattr(processes, "CUDA_PLUGIN", tmp_path / "cuda_plugin.so")
    with pytest.raises(CannotBeSaved, match=r"device: .* has /dev/nvidia0 open"):
        refuse_unsavable([os.getpid()])
    (tmp_path / "cuda_plugin.so").touch()
    refuse_unsavable([os.getpid()])
    open_devices.append((6, "/dev/fuse"))
    with pytest.raises(CannotBeSaved, match=r"device: .* has /dev/fuse open"):
        refuse_unsavable([os.getpid()])


def test_files_that_a_process_writes_to_are_known_by_size(tmp_path: Path) -> None:
    """A file opened for appending has a size to go back to; one opened for changes in place is told apart."""
    with (tmp_path / "log").open("a") as log:
        log.write("line\n")
        log.flush()
        written = written_files([os.getpid()])
        assert written.sizes[str(tmp_path / "log")] == 5
    with (tmp_path / "data").open("w+b"):
        assert written_files([os.getpid()]).rewritten


HERE = {
    "machine": "x86_64",
    "kernel": "6.1",
    "cpu": ["avx", "sse"],
    "criu": [4, 2],
    "format": FORMAT,
    "files": "sha",
    "clock_s": 50.0,
}


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("format", None, "other-keeper"),
        ("machine", "aarch64", "other-kernel"),
        ("kernel", "6.12", "other-kernel"),
        ("files", "other", "other-image"),
        ("cpu", ["avx", "avx512f", "sse"], "other-cpu"),
        ("clock_s", 51.0, "other-clock"),
        ("criu", [4, 3], "other-criu"),
    ],
)
def test_an_image_is_refused_where_it_could_not_run_on(field: str, value: object, code: str) -> None:
    """What its own place had and this one lacks is found before CRIU is tried."""
    refuse_other_place(HERE, HERE)
    refuse_other_place({**HERE, "cpu": ["sse"], "criu": [4, 1], "clock_s": 49.0}, HERE)
    with pytest.raises(CannotBeSaved) as refused:
        refuse_other_place({**HERE, field: value}, HERE)
    assert refused.value.code == code


def test_connections_of_a_job_s_own_are_told_from_those_to_others() -> None:
    """Both ends in the tree: they continue. One end: it is closed. Both kinds cannot be saved."""
    check = f"from {__name__} import connect_and_check; connect_and_check()"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def connect_and_check() -> None:
    """The same in a process that has no other connections."""
    own = [os.getpid()]
    with running_elsewhere() as port, contextlib.ExitStack() as stack:
        assert not are_connected(connections(own))
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        out = socket.create_connection(("127.0.0.1", port))
        assert not are_connected(connections(own))
        stack.enter_context(socket.create_connection(server.getsockname()))
        stack.enter_context(server.accept()[0])
        with out, pytest.raises(CannotBeSaved, match="connections"):
            are_connected(connections(own))
        assert are_connected(connections(own))


@contextlib.contextmanager
def running_elsewhere() -> Iterator[int]:
    """The port of another process, which accepts one connection and holds it."""
    words = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1]); c = s.accept(); input()"
    )
    with subprocess.Popen([sys.executable, "-u", "-c", words], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


def test_the_word_of_a_keeper_counts_only_where_there_is_one(tmp_path: Path) -> None:
    """It says why an end is not the job's own, from the start on; a job that has none and writes that file has failed."""
    folder = AdapterFolder(tmp_path).incarnation(ReplicaId("job"), 1)
    folder.control.mkdir(parents=True)
    control = Control(str(folder.control))
    control.lose("its image was not restored")
    folder.exit.write_text('{"status": 86}')
    found = recorded_end(folder)
    assert found is not None
    assert found.exit_status == 86
    write_order(folder, b"{}")
    found = recorded_end(folder)
    assert found is not None
    assert found.reason == "its keeper was killed; its exit status was 86"
    control.lose("its image was not restored")
    found = recorded_end(folder)
    assert found is not None
    assert (found.phase, found.reason.split(";")[0]) == (ReplicaPhase.GONE, "its image was not restored")
    control.own_end()
    found = recorded_end(folder)
    assert found is not None
    assert (found.phase, found.exit_status) == (ReplicaPhase.EXITED, 86)


@pytest.mark.parametrize(
    ("seen", "phase", "reason"),
    [
        (end(-9, NO_MEMORY), ReplicaPhase.EXITED, NO_MEMORY),
        (end(86, NO_MEMORY), ReplicaPhase.GONE, "its keeper was killed; its exit status was 86"),
        (end(-9), ReplicaPhase.GONE, "its keeper was killed; its exit status was -9"),
        (end(-9, place="its place ended"), ReplicaPhase.GONE, "its place ended; its exit status was -9"),
        (end(None), ReplicaPhase.GONE, "its keeper was killed"),
        (end(0), ReplicaPhase.EXITED, ""),
    ],
)
def test_an_end_has_one_reason(tmp_path: Path, seen: Observation, phase: ReplicaPhase, reason: str) -> None:
    """A job that needs too much memory has failed, though its keeper dies with it; the end of a place is not hidden."""
    folder = AdapterFolder(tmp_path).incarnation(ReplicaId("job"), 1)
    folder.control.mkdir(parents=True)
    write_order(folder, b"{}")
    found = kept_end(folder, seen)
    assert (found.phase, found.reason) == (phase, reason)
    assert record(folder, found) == recorded_end(folder) == found


def test_a_job_that_is_killed_after_its_grace_is_not_said_to_have_lost_its_keeper(tmp_path: Path) -> None:
    """Its supervisor has killed both."""
    folder = AdapterFolder(tmp_path).incarnation(ReplicaId("job"), 1)
    folder.control.mkdir(parents=True)
    write_order(folder, b"{}")
    folder.write(folder.exit, ExitRecord(status=-9, reason=KILLED))
    assert recorded_end(folder) == end(-9, KILLED)


def test_an_ended_job_leaves_its_images_and_nothing_half_done(tmp_path: Path) -> None:
    """What a killed keeper has left is as large as the job's memory. A checkpoint that was about to be replaced is one."""
    state = AdapterFolder(tmp_path)
    state.make()
    kept = state.checkpoints("job")
    for name in ("step-00000001-i0001", ".step-00000002-i0001.new", ".scratch-0", ".step-00000003-i0001.old"):
        (kept / name / "raw").mkdir(parents=True)
    (kept / ".step-00000001-i0001.failed").touch()
    state.retire("job")
    left = sorted(each.name for each in (state.ended / "job.1/checkpoints").iterdir())
    assert left == [".step-00000003-i0001.old", "step-00000001-i0001"]


def test_a_job_cannot_mislead_its_keeper_by_what_it_puts_into_the_folder(tmp_path: Path) -> None:
    """Links, pipes, folders and wrong types count as no request, and none is waited for."""
    control = Control(str(tmp_path))
    request = tmp_path / "checkpoint-request.json"
    (tmp_path / "elsewhere").write_text('{"request": "r", "hold_s": 1}')
    request.symlink_to(tmp_path / "elsewhere")
    assert control.request() is None
    request.unlink()
    os.mkfifo(request)
    assert control.request() is None
    request.unlink()
    for content in ("[]", "{", '{"request": 1, "hold_s": 1}', '{"request": "r", "hold_s": -1}', '{"request": "r"}'):
        request.write_text(content)
        assert control.request() is None
    request.write_text('{"request": "r", "hold_s": 1e9}')
    assert control.request() == ("r", 600.0)


def test_a_declaration_keeps_what_was_restored(tmp_path: Path) -> None:
    """A later declaration says again which image the job continues from; a job's own is told apart from a keeper's."""
    control = Control(str(tmp_path))
    control.declare("system", restored="step-00000012-i0001", step=12)
    control.declare("none", reason="io-uring: process 300 (python) has an io_uring")
    said = json.loads((tmp_path / "hello.json").read_text())
    assert (said["checkpoint_mode"], said["restored_step"], said["kept"]) == ("none", 12, True)
    assert not control.job_speaks()
    (tmp_path / "hello.json").write_text('{"checkpoint_mode": "on-request"}')
    assert control.job_speaks()


def test_a_job_without_room_for_its_image_is_not_stopped(tmp_path: Path) -> None:
    """Size and disk are checked before anything is frozen."""
    images = Images(tmp_path, "job", ["zstd"])
    with pytest.raises(CannotBeSaved, match="too-large"):
        images.refuse_without_room(2 << 20, 1 << 20)
    with pytest.raises(CannotBeSaved, match="disk-full"):
        images.refuse_without_room(1 << 60, None)
    images.refuse_without_room(1, 1 << 20)


def test_an_order_is_read_as_it_was_written(tmp_path: Path) -> None:
    """All fields survive the file."""
    fields: dict[str, Any] = dict.fromkeys(("program", "working_dir", "job", "control", "checkpoints"), "x")
    order = KeeperOrder(**fields, command=["a"], incarnation=2, criu=["c"], zstd=["z"], auto=True, cgroup="/g")
    (tmp_path / "order").write_bytes(order.dump())
    assert KeeperOrder.load(tmp_path / "order") == order


@pytest.mark.parametrize("asked", [None, CheckpointMode.SYSTEM, CheckpointMode.AUTO])
def test_what_is_asked_of_a_keeper_counts_once_it_declares_it(asked: CheckpointMode | None) -> None:
    """A job that is to be kept is unmovable until its keeper has seen that it can be saved."""
    assert known_mode(asked, None) is CheckpointMode.NONE
    assert known_mode(asked, CheckpointMode.SYSTEM) is CheckpointMode.SYSTEM
    assert known_mode(CheckpointMode.ON_STOP, CheckpointMode.SYSTEM) is CheckpointMode.ON_STOP
