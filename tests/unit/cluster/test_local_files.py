"""The small files: a job's may hold garbage, Steepest's own are written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.harness.call_count import count_calls

from steepest.cluster.folders import control_protocol, incarnation_locks
from steepest.cluster.folders.adapter_folder import (
    AdapterFolder,
    Hello,
    IncarnationFolder,
    SpecRecord,
)
from steepest.cluster.folders.control_protocol import CheckpointAnswer, ReportsTail
from steepest.cluster.observation import recorded_end
from steepest.cluster.port import ReplicaId
from steepest.errors import InputError
from steepest.events.common import CheckpointMode

JOB = ReplicaId("mnist")
WRONG = [b"", b"{", b"[]", b"null", b'{"checkpoint_mode": "maybe"}', b"\xff\xfe", b'{"request": 7}']
GARBAGE = [*WRONG, b"{" * 70_000, b'{"a":' * 10_000]


@pytest.fixture
def folder(tmp_path: Path) -> IncarnationFolder:
    """The folder of an incarnation."""
    made = AdapterFolder(tmp_path).incarnation(JOB, 1)
    made.make(SpecRecord(node="a", command=("x",)))
    return made


@pytest.mark.parametrize("content", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_counts_as_absent(folder: IncarnationFolder, content: bytes) -> None:
    """A file of the job that is not what it should be is skipped."""
    folder.hello.write_bytes(content)
    folder.ack.write_bytes(content)

    assert control_protocol.hello(folder) is None
    assert control_protocol.answer(folder, "r1") is None


def test_a_folder_in_place_of_a_file_counts_as_absent(folder: IncarnationFolder) -> None:
    """A hostile job cannot break its readers by making a folder where a file should be."""
    folder.hello.mkdir()
    folder.reports.mkdir()

    assert control_protocol.hello(folder) is None
    assert ReportsTail(folder).read() is None


@pytest.mark.parametrize("name", ["hello", "ack", "reports", "start", "exit", "spec"])
def test_what_is_no_file_counts_as_absent(folder: IncarnationFolder, name: str) -> None:
    """A pipe in the place of any file blocks no reader, and a link is not followed."""
    path: Path = getattr(folder, name)
    for put in (os.mkfifo, lambda at: at.symlink_to("/dev/zero"), lambda at: at.symlink_to(folder.path / "orders")):
        path.unlink(missing_ok=True)
        put(path)

        assert control_protocol.hello(folder) is None
        assert control_protocol.answer(folder, "r1") is None
        assert ReportsTail(folder).read() is None
        assert folder.started() is None
        assert recorded_end(folder) is None
        assert folder.planned() is None or name != "spec"


def test_a_pipe_in_the_place_of_a_lock_blocks_no_reader(folder: IncarnationFolder) -> None:
    """Something other than a regular file counts as a free lock."""
    os.mkfifo(folder.lock)

    assert not incarnation_locks.is_held(folder.lock)


def test_nothing_is_asked_through_a_link(folder: IncarnationFolder, tmp_path: Path) -> None:
    """A control folder that leads elsewhere gets no request, and loses none."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "checkpoint-request.json").write_text('{"request": "r1"}')
    folder.control.rmdir()
    folder.control.symlink_to(other)

    with pytest.raises(OSError, match="control"):
        control_protocol.ask(folder, "r2", 5.0)
    with pytest.raises(OSError, match="control"):
        control_protocol.withdraw(folder, "r1")
    assert [path.name for path in other.iterdir()] == ["checkpoint-request.json"]


def test_steepests_own_file_may_be_longer_than_a_jobs(tmp_path: Path) -> None:
    """What was asked for is known as long as the kernel would take it as a command."""
    made = AdapterFolder(tmp_path).incarnation(ReplicaId("long"), 1)
    command = ("train", *["\x01" * 1000] * 1000)
    made.make(SpecRecord(node="a", command=command))

    planned = made.planned()

    assert planned is not None
    assert planned.command == command


@pytest.mark.parametrize("content", [b"[" * 30_000, b'{"step": 7, "x": ' + b"[" * 2000])
def test_a_report_that_cannot_be_read_is_passed_over(folder: IncarnationFolder, content: bytes) -> None:
    """Reports around it count, however deep it is."""
    folder.reports.write_bytes(line(1) + content + b"\n" + line(2))

    assert ReportsTail(folder).read() == 2


def test_what_has_not_grown_is_not_opened_again(folder: IncarnationFolder) -> None:
    """Reports are read at every heartbeat: an incarnation that says nothing costs a fraction of one that does."""
    tail = ReportsTail(folder)
    folder.reports.write_bytes(line(1))
    news, first = count_calls(tail.read)
    silent, again = count_calls(tail.read)
    with folder.reports.open("ab") as file:
        file.write(line(2))
    absent, hello = count_calls(lambda: control_protocol.hello(folder))

    assert (first, again, tail.read(), hello) == (1, 1, 2, None)
    assert 5 * silent < news
    assert 5 * absent < news


def test_unassigned_names_and_numbers_are_skipped(tmp_path: Path) -> None:
    """A local job can make folders beside its own; they are not jobs, and hide no job."""
    state = AdapterFolder(tmp_path)
    state.make()
    state.incarnation(JOB, 1).make(SpecRecord(node="a", command=("x",)))
    for odd in ("NO NAME", "mnist/9" + "9" * 30, "mnist/0/9" + "9" * 30):
        (state.jobs / odd / "0" / "1").mkdir(parents=True)

    assert [str(folder) for folder in state.all()] == ["mnist/0/1"]
    assert list(state.newest()) == [(JOB, 1)]


def test_unknown_fields_are_skipped(folder: IncarnationFolder) -> None:
    """A newer SDK may say more."""
    folder.hello.write_text('{"checkpoint_mode": "on-stop", "restored_step": 3, "mood": "good"}')

    assert control_protocol.hello(folder) == Hello(checkpoint_mode=CheckpointMode.ON_STOP, restored_step=3)


def test_an_answer_to_another_request_is_none(folder: IncarnationFolder) -> None:
    """An answer belongs to the request that it names."""
    folder.ack.write_text('{"request": "r1", "name": "n", "step": 3, "digest": "d"}')

    assert control_protocol.answer(folder, "r1") == CheckpointAnswer(request="r1", name="n", step=3, digest="d")
    assert control_protocol.answer(folder, "r2") is None


def test_asking_again_leaves_the_request_alone(folder: IncarnationFolder) -> None:
    """The same request is written once: a job looks at the file's identity to see a new one."""
    control_protocol.ask(folder, "r1", 5.0)
    first = folder.request.stat().st_ino
    control_protocol.ask(folder, "r1", 9.0)

    assert folder.request.stat().st_ino == first


def test_a_withdrawn_request_is_gone_and_released(folder: IncarnationFolder) -> None:
    """Withdrawing removes the request and releases a job that saw it, but leaves a newer request alone."""
    control_protocol.ask(folder, "r1", 5.0)
    control_protocol.withdraw(folder, "r1")
    assert not folder.request.exists()
    assert json.loads(folder.release.read_text()) == {"request": "r1"}
    control_protocol.ask(folder, "r2", 5.0)
    control_protocol.withdraw(folder, "r1")

    assert json.loads(folder.request.read_text())["request"] == "r2"


def test_a_failed_write_leaves_what_was_there(folder: IncarnationFolder) -> None:
    """A write that fails half way changes nothing and leaves nothing behind."""
    folder.write(folder.limit, {"cpu_limit_m": 1})
    with pytest.raises(TypeError):
        folder.write(folder.limit, {"cpu_limit_m": object()})

    assert folder.read(folder.limit, dict[str, int]) == {"cpu_limit_m": 1}
    assert not list(folder.path.glob(".*"))


def test_an_incarnation_s_folder_is_made_once(folder: IncarnationFolder, tmp_path: Path) -> None:
    """The folder is the fence: the second maker gets an error, and leaves nothing behind."""
    with pytest.raises(FileExistsError):
        folder.make(SpecRecord(node="b", command=("y",)))

    assert [path.name for path in (tmp_path / "jobs" / "mnist" / "0").iterdir()] == ["1"]


@pytest.mark.parametrize("job", ["", ".", "..", "../x", "a/b", "A", "x" * 64])
def test_a_job_s_name_cannot_lead_elsewhere(tmp_path: Path, job: str) -> None:
    """A name that is none is the caller's mistake, and touches nothing."""
    with pytest.raises(InputError, match="not a valid job name"):
        AdapterFolder(tmp_path).incarnation(ReplicaId(job), 1)


@pytest.mark.parametrize(("index", "incarnation"), [(-1, 1), (0, 0), (0, -1)])
def test_numbers_count(tmp_path: Path, index: int, incarnation: int) -> None:
    """A number below the first one is the caller's mistake: its folder would be no fence."""
    with pytest.raises(InputError, match="count from"):
        AdapterFolder(tmp_path).incarnation(ReplicaId("mnist", index), incarnation)


def test_incarnations_are_ordered_by_number(tmp_path: Path) -> None:
    """Incarnation 10 is newer than 9; what is no number is none."""
    state = AdapterFolder(tmp_path)
    for number in (9, 10, 1):
        state.incarnation(JOB, number).make(SpecRecord(node="a", command=("x",)))
    (tmp_path / "jobs" / "mnist" / "0" / ".new-x").mkdir()
    (tmp_path / "jobs" / "mnist" / "checkpoints").mkdir()

    assert [each.incarnation for each in state.incarnations(JOB)] == [1, 9, 10]
    assert [str(each) for each in state.all()] == ["mnist/0/1", "mnist/0/9", "mnist/0/10"]


def test_output_and_checkpoints_outlive_their_job(folder: IncarnationFolder, tmp_path: Path) -> None:
    """A retired job leaves what it printed and saved, each time under a name of its own."""
    state = AdapterFolder(tmp_path)
    state.make()
    for number in (1, 2):
        folder.output.write_text(f"output {number}")
        (state.checkpoints("mnist") / "step-00000001-i0001").mkdir(parents=True)
        (state.checkpoints("mnist") / "step-00000001-i0001" / "model.bin").touch()
        state.temporary("mnist").mkdir()
        (state.temporary("mnist") / "scratch").touch()
        state.retire("mnist")
        kept = tmp_path / "ended" / f"mnist.{number}"

        assert not state.job("mnist").exists()
        assert (kept / "0" / "1" / "output.log").read_text() == f"output {number}"
        assert [path.name for path in (kept / "0" / "1").iterdir()] == ["output.log"]
        assert (kept / "checkpoints" / "step-00000001-i0001" / "model.bin").exists()
        assert sorted(path.name for path in kept.iterdir()) == ["0", "checkpoints"]
        folder.make(SpecRecord(node="a", command=("x",)))


# Reports


def line(step: object) -> bytes:
    """A report."""
    return json.dumps({"step": step, "epoch": 0, "at_ms": 1, "metrics": {"loss": 0.5}}).encode() + b"\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.one_of(
            st.integers(min_value=0, max_value=10**9).map(line),
            st.sampled_from(
                [b"\n", b"garbage\n", b'{"step": "x"}\n', line(-1), line(None), line(1.5), b"\xff\n", b"[]\n"]
            ),
        ),
        max_size=20,
    ),
    cuts=st.lists(st.integers(min_value=0, max_value=500), max_size=5),
)
def test_the_last_whole_report_counts(folder: IncarnationFolder, parts: list[bytes], cuts: list[int]) -> None:
    """However the file grows, the step is that of the last complete line that is a report."""
    path = folder.reports
    path.unlink(missing_ok=True)
    content = b"".join(parts)
    tail = ReportsTail(folder)
    written = 0
    for cut in (*sorted(cuts), len(content)):
        with path.open("ab") as file:
            file.write(content[written:cut])
        written = max(written, cut)
        whole = content[:written].split(b"\n")[:-1]
        steps = [json.loads(each)["step"] for each in whole if valid(each)]

        assert tail.read() == (steps[-1] if steps else None)


def valid(each: bytes) -> bool:
    """Whether a line is a report with a step."""
    try:
        step = json.loads(each)["step"]
    except (ValueError, TypeError, KeyError):
        return False
    return isinstance(step, int) and step >= 0


def test_a_long_file_is_read_from_its_end(folder: IncarnationFolder) -> None:
    """A new adapter finds the last step of a long training without reading all of it, and goes on from there."""
    path = folder.reports
    path.write_bytes(b"".join(line(step) for step in range(50_000)))
    tail = ReportsTail(folder)
    assert tail.read() == 49_999
    with path.open("ab") as file:
        file.write(line(50_000))

    assert tail.read() == 50_000


def test_an_endless_line_is_skipped(folder: IncarnationFolder) -> None:
    """A line that never ends is not kept in memory; reports after it count."""
    path = folder.reports
    path.write_bytes(b"x" * 500_000)
    tail = ReportsTail(folder)
    assert tail.read() is None
    assert len(tail._pending) <= 1 << 16
    with path.open("ab") as file:
        file.write(b"x\n" + line(7))

    assert tail.read() == 7


def test_a_file_that_was_begun_anew_is_read_anew(folder: IncarnationFolder) -> None:
    """A report file that became shorter was replaced."""
    path = folder.reports
    path.write_bytes(line(100) + line(101))
    tail = ReportsTail(folder)
    assert tail.read() == 101
    path.write_bytes(line(3))

    assert tail.read() == 3


def test_the_newest_incarnations_are_the_last_of_all(tmp_path: Path) -> None:
    """Incarnations are ordered as numbers, not as text; anything else in the folder is ignored."""
    state = AdapterFolder(tmp_path)
    state.make()
    for replica, numbers in ((ReplicaId("b", 0), (9, 10)), (ReplicaId("a", 1), (1,)), (ReplicaId("a", 0), (2, 1))):
        for number in numbers:
            state.incarnation(replica, number).make(SpecRecord(node="a", command=("x",)))
    (state.checkpoints("b") / "step-00000001-i0001").mkdir(parents=True)
    (state.jobs / "b" / "0" / ".11.aside").mkdir()
    (state.jobs / "empty" / "3").mkdir(parents=True)
    (state.jobs / "file").touch()

    assert [*state.newest()] == [(ReplicaId("a", 0), 2), (ReplicaId("a", 1), 1), (ReplicaId("b", 0), 10)]
    assert dict(state.newest()) == {folder.replica: folder.incarnation for folder in state.all()}
