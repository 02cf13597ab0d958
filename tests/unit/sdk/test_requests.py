"""A checkpoint on request: asked for, acknowledged, held until stop or release, so that no step is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steepest_sdk import EXIT_STOPPED
from steepest_sdk.control import HOLD_S_MOST, CheckpointRequest, ControlFolder

if TYPE_CHECKING:
    from tests.unit.sdk.conftest import Supervisor


def test_request_is_answered_with_what_was_saved(supervisor: Supervisor) -> None:
    """The answer names request, checkpoint, step and the digest that the checkpoint's manifest holds."""
    training = supervisor.start("--meet-at", "10", "20")
    training.at(10)
    training.request()
    training.go(10)
    answer = training.ack()
    assert answer == {
        "request": "a",
        "name": "step-00000010-i0001",
        "step": 10,
        "digest": supervisor.digest("step-00000010-i0001"),
    }


def test_held_training_does_no_step_until_it_is_released(supervisor: Supervisor) -> None:
    """After the answer the last report is the step saved; after the release it goes on to the end."""
    training = supervisor.start("--meet-at", "10")
    training.at(10)
    training.request()
    training.go(10)
    training.ack()
    assert training.reports()[-1]["step"] == 10
    training.release("another request")
    training.release()
    assert training.wait() == 0
    assert training.reports()[-1]["step"] == 60


def test_stop_while_held_leaves_without_another_step_or_save(supervisor: Supervisor) -> None:
    """SIGTERM after the answer exits with 85 at the step saved, and the checkpoint is the one acknowledged."""
    training = supervisor.start("--meet-at", "10")
    training.at(10)
    training.request()
    training.go(10)
    answer = training.ack()
    training.terminate()
    assert training.wait() == EXIT_STOPPED
    assert training.reports()[-1]["step"] == 10
    assert supervisor.saved() == [answer["name"]]
    assert supervisor.digest(answer["name"]) == answer["digest"]


def test_stop_during_the_requested_save_needs_no_second_save(supervisor: Supervisor) -> None:
    """SIGTERM while save() works on a request: the checkpoint is finished and acknowledged, then it leaves."""
    training = supervisor.start("--meet-at", "10", "--meet-in-save")
    training.at(10)
    training.request()
    training.go(10)
    training.at("save")
    training.terminate()
    training.go("save")
    assert training.wait() == EXIT_STOPPED
    assert training.ack()["step"] == 10
    assert supervisor.saved() == ["step-00000010-i0001"]


def test_hold_ends_by_itself(supervisor: Supervisor) -> None:
    """A supervisor that asks and then dies costs hold_s seconds; the training goes on and says so."""
    training = supervisor.start("--meet-at", "10")
    training.at(10)
    training.request(hold_s=0.05)
    training.go(10)
    assert training.wait() == 0
    assert training.ack()["step"] == 10
    assert "neither stop nor release came within 0.05 s" in training.stderr()


def test_new_request_takes_the_place_of_the_held_one(supervisor: Supervisor) -> None:
    """A second request during the hold is answered with the same checkpoint: no step lies between."""
    training = supervisor.start("--meet-at", "10")
    training.at(10)
    training.request("a")
    training.go(10)
    first = training.ack("a")
    training.request("b")
    assert training.ack("b") == first | {"request": "b"}
    training.release("b")
    assert training.wait() == 0


def test_release_before_the_answer_holds_nothing(supervisor: Supervisor) -> None:
    """A request that was released before it was seen is saved and answered, and the training goes on."""
    training = supervisor.start("--meet-at", "10")
    training.at(10)
    training.request()
    training.release()
    training.go(10)
    assert training.wait() == 0
    assert training.ack()["step"] == 10
    assert "neither" not in training.stderr()


@pytest.mark.parametrize(
    ("arguments", "replica", "why"),
    [
        (["--mode", "on-stop"], 0, "the checkpoint mode is on-stop"),
        (["--mode", "none"], 0, "the checkpoint mode is none"),
        (["--save-fails"], 0, "saving failed; see standard error"),
        ([], 1, "replica 0 saves for the job"),
    ],
)
def test_request_that_cannot_be_met_is_refused_and_holds_nothing(
    supervisor: Supervisor, arguments: list[str], replica: int, why: str
) -> None:
    """The refusal says why, and the training ends as without the request."""
    training = supervisor.start("--meet-at", "10", *arguments, replica=replica)
    training.at(10)
    training.request()
    training.go(10)
    assert training.wait() == 0
    assert training.ack() == {"request": "a", "refused": why}


@pytest.mark.parametrize("hold_s", [None, "soon", -1, float("nan"), float("inf"), True])
def test_request_with_a_senseless_hold_is_refused(supervisor: Supervisor, hold_s: object) -> None:
    """A hold that is no number of seconds is named in the refusal."""
    training = supervisor.start("--meet-at", "10")
    training.at(10)
    training.request(hold_s=hold_s)
    training.go(10)
    assert training.wait() == 0
    assert "hold_s" in training.ack()["refused"]


@pytest.mark.parametrize("content", ["{", "[" * 60_000, "[1]", '{"hold_s": 1}', '{"request": 7, "hold_s": 1}', ""])
def test_unreadable_request_changes_nothing(supervisor: Supervisor, content: str) -> None:
    """Bytes that are no request are skipped, and the next good request is served."""
    training = supervisor.start("--meet-at", "10", "20")
    training.at(10)
    training.put("checkpoint-request.json", content)
    training.go(10)
    training.at(20)
    assert not (training.control / "checkpoint-ack.json").exists()
    training.request()
    training.go(20)
    assert training.ack()["step"] >= 20


def ask(folder: Path, request: str, hold_s: float = 1) -> None:
    """Puts a request into a control folder."""
    temporary = folder / ".request"
    temporary.write_text(json.dumps({"request": request, "hold_s": hold_s}))
    temporary.replace(folder / "checkpoint-request.json")


def test_folder_is_looked_at_twenty_times_a_second_at_most(tmp_path: Path) -> None:
    """A request that comes just after a look is seen 50 ms after that look, however often a step is reported."""
    now = 100.0
    control = ControlFolder(tmp_path, clock=lambda: now)
    assert control.new_request() is None
    ask(tmp_path, "a")
    now += 0.049
    assert control.new_request() is None
    now += 0.002
    assert control.new_request() == CheckpointRequest("a", 1)


def test_request_is_seen_once(tmp_path: Path) -> None:
    """Neither the same file nor a new one with the same request is served again; another request is."""
    now = 100.0
    control = ControlFolder(tmp_path, clock=lambda: now)
    seen = []
    for request in ("a", "a", "b"):
        ask(tmp_path, request)
        for _ in range(2):
            now += 1
            seen.append(control.new_request())
    assert [request and request.id for request in seen] == ["a", None, None, None, "b", None]


def test_request_file_is_read_once(tmp_path: Path) -> None:
    """While the file stays the same one, a look is one stat: content put into it by no rename is not seen."""
    now = 100.0
    control = ControlFolder(tmp_path, clock=lambda: now)
    ask(tmp_path, "a")
    assert control.new_request() == CheckpointRequest("a", 1)
    path = tmp_path / "checkpoint-request.json"
    status = path.stat()
    path.write_text(path.read_text().replace('"a"', '"b"'))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    now += 1
    assert control.new_request() is None


@pytest.mark.parametrize("hold_s", [1e9, 10**400])
def test_hold_has_a_bound_of_its_own(tmp_path: Path, hold_s: float) -> None:
    """However long a supervisor asks a training to wait, it waits ten minutes at most."""
    ask(tmp_path, "a", hold_s)
    assert ControlFolder(tmp_path).new_request() == CheckpointRequest("a", HOLD_S_MOST)
