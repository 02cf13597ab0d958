"""What is read of a job completes what its node measures of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.collector.progress import ProgressBoard, ReadProgress
from steepest.events.common import LARGEST, Activity, Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.registry import HEARTBEATS, encode
from steepest.training_logs.records import LossRecord

ANY_NUMBER = st.none() | st.integers() | st.floats()


def record(step: int | None = None, value: float = 0.5, **more: Any) -> LossRecord:
    """A training loss that was read."""
    given = {"step_counted": False, "epoch": None, "metric": "loss", "split": "train", **more}
    return LossRecord(line=1, position=1, index=0, step=step, value=value, format="keras", **given)


def beat(*replicas: ReplicaReport) -> NodeHeartbeat:
    """A node that runs these."""
    return NodeHeartbeat(node="n1", pool="p", at_ms=1, capacity=Resources(), replicas=replicas)


def report(**more: Any) -> ReplicaReport:
    """What the node knows of job a."""
    return ReplicaReport(**{"job": "a", "incarnation": 2, "state": ReplicaState.RUNNING, **more})


def test_what_the_node_knows_itself_goes_before_what_was_read() -> None:
    """A step that the process reported is newer than the last one that was read; the loss is only read."""
    board = ProgressBoard()
    board.begin("a", 2).take(record(7, total=90, epoch=1, epochs=3, value=0.25), "loss")
    read = {"total": 90, "epoch": 1.0, "epochs": 3.0, "loss": 0.25}
    assert board.completed(beat(report())) == beat(report(step=7, **read))
    assert board.completed(beat(report(step=8, total=91, cpu_ms=4))) == beat(
        report(step=8, cpu_ms=4, **{**read, "total": 91})
    )


@pytest.mark.parametrize("other", [{"job": "b"}, {"incarnation": 1}, {"replica": 1}])
def test_only_the_chief_of_the_incarnation_that_was_read_is_completed(other: dict[str, Any]) -> None:
    """What was read says nothing of another process."""
    board = ProgressBoard()
    board.begin("a", 1).take(record(5), "loss")
    board.begin("a", 2).take(record(7), "loss")
    assert board.completed(beat(report(**other))) == beat(report(**other))
    board.forget("a")
    assert board.completed(beat(report())) == beat(report())


@pytest.mark.parametrize(
    ("taken", "read"),
    [
        (record(7, split="eval", total=9), ReadProgress()),
        (record(7, step_counted=True), ReadProgress(loss=0.5)),
        (record(7, metric="accuracy"), ReadProgress(step=7)),
        (record(7, value=float("nan")), ReadProgress(step=7)),
        (record(-1, total=LARGEST + 1, epoch=float("inf"), epochs=-2), ReadProgress(loss=0.5)),
    ],
)
def test_what_is_no_progress_of_the_training_is_left_out(taken: LossRecord, read: ReadProgress) -> None:
    """Evaluations, counted readings, other metrics, and numbers that no event can hold."""
    found = ReadProgress()
    found.take(taken, "loss")
    assert found == read


@given(ANY_NUMBER, ANY_NUMBER, ANY_NUMBER, ANY_NUMBER)
def test_anything_that_was_read_can_be_sent(step: Any, total: Any, epoch: Any, value: Any) -> None:
    """A heartbeat with it is encoded and decoded to the same."""
    board = ProgressBoard()
    read = board.begin("a", 2)
    read.take(record(_int(step), total=_int(total), epoch=epoch, epochs=epoch, value=float(_int(value) or 0)), "loss")
    completed = board.completed(beat(report()))
    assert HEARTBEATS.decode(encode(completed)) == completed


def _int(number: Any) -> int | None:
    return number if isinstance(number, int) and abs(number) < 2**900 else None


@pytest.mark.parametrize(
    ("output", "activity"),
    [
        (b"step 7 loss 0.5 latest 0.4\n", Activity.OTHER),
        (b"step 7 loss 0.5\nEvaluating on the validation set\n", Activity.EVALUATION),
        (b"Saving model checkpoint to /ckpt\r\n\r\n", Activity.SAVING),
        (b"compiling ...\rloading weights 10%\r", Activity.LOADING),
        (b"torch.compile: autotuning", Activity.COMPILATION),
        (b"eval\n" + b"x" * 100_000, Activity.OTHER),
        (b" \n\r\n", None),
        (b"\xff\x00\x1b[2J\n", Activity.OTHER),
    ],
)
def test_the_last_line_says_what_a_job_is_doing(output: bytes, activity: Activity | None) -> None:
    """Only its beginning is looked at, whatever is in it; the heartbeat says it, by a word of ours."""
    board = ProgressBoard()
    board.begin("a", 2).hear(output)
    assert board.completed(beat(report())) == beat(report(activity=activity))
