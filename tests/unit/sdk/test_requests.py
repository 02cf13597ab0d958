"""A checkpoint on request: asked for, acknowledged, held until stop or release, so that no step is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steepest_sdk import EXIT_STOPPED

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
        (["--save-fails"], 0, "the save failed; standard error says why"),
        ([], 1, "replica 0 saves for the job"),
    ],
)
def test_request_that_cannot_be_met_is_refused_and_holds_nothing(
    supervisor: Supervisor, arguments: list[str], replica: int, why: str
) -> None:
    """The refusal says why, and the training ends as if it had not been asked."""
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
