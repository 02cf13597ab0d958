"""A process knows its place in its gang; only the chief's metrics are the job's."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest_sdk import gang
from steepest_sdk.gang import Gang
from steepest_sdk.reports import ReportFile
from steepest_sdk.run import Run

if TYPE_CHECKING:
    from tests.unit.sdk.conftest import Supervisor

PEERS = "127.0.0.1:20000,node-b:20001"
SECOND = {
    "STEEPEST_ROLE": "ps",
    "STEEPEST_RANK": "1",
    "STEEPEST_WORLD_SIZE": "2",
    "STEEPEST_PEERS": PEERS,
}


def test_the_place_is_read_from_the_environment() -> None:
    """Role, rank, world size and peers are those of the variables; without them a process trains alone."""
    assert gang.read(SECOND) == Gang("ps", 1, 2, (("127.0.0.1", 20000), ("node-b", 20001)))
    assert gang.read({}) == Gang("worker", 0, 1, ())


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"STEEPEST_RANK": "2"}, "STEEPEST_RANK is 2; it must be below STEEPEST_WORLD_SIZE, 2"),
        ({"STEEPEST_RANK": ""}, "STEEPEST_RANK is ''"),
        ({"STEEPEST_WORLD_SIZE": "-1"}, "STEEPEST_WORLD_SIZE is '-1'"),
        ({"STEEPEST_WORLD_SIZE": "3"}, "STEEPEST_PEERS names 2 peers; STEEPEST_WORLD_SIZE is 3"),
        ({"STEEPEST_PEERS": "a:1,b"}, "STEEPEST_PEERS holds 'b'"),
        ({"STEEPEST_PEERS": "a:1,b:65536"}, "STEEPEST_PEERS holds 'b:65536'"),
    ],
)
def test_a_wrong_variable_is_named(wrong: Mapping[str, str], named: str) -> None:
    """What cannot be is refused with the variable's name."""
    with pytest.raises(ValueError, match="STEEPEST_") as refusal:
        gang.read({**SECOND, **wrong})

    assert str(refusal.value).startswith(named)


@given(st.dictionaries(st.sampled_from(sorted(SECOND)), st.text(max_size=20)))
def test_any_environment_is_read_or_refused(variables: Mapping[str, str]) -> None:
    """Any text is a place that makes sense, or a ValueError."""
    with contextlib.suppress(ValueError):
        found = gang.read(variables)
        assert 0 <= found.rank < found.world_size
        assert len(found.peers) in {0, found.world_size}


def test_only_the_chief_reports_metrics(tmp_path: Path) -> None:
    """Of the chief's report the loss counts, of a worker's its step."""
    for rank in (0, 1):
        run = Run(ReportFile(tmp_path / str(rank)), gang=Gang("worker", rank, 2, (("a", 1), ("b", 2))))
        assert (run.rank, run.world_size, run.is_chief, run.role) == (rank, 2, rank == 0, "worker")
        for step in run.steps(1):
            run.report(step, loss=0.5)

    assert '"metrics": {"loss": 0.5}' in (tmp_path / "0").read_text()
    assert '"step": 1' in (tmp_path / "1").read_text()
    assert '"metrics": {}' in (tmp_path / "1").read_text()


def test_a_script_alone_is_its_own_chief() -> None:
    """Outside Steepest, and in a job of one replica, the same script has rank 0 of 1."""
    run = Run()

    assert (run.role, run.rank, run.world_size, run.peers, run.is_chief) == ("worker", 0, 1, (), True)


def test_a_wrong_place_leaves_the_training_unsupervised(supervisor: Supervisor) -> None:
    """A script whose gang makes no sense says so and trains on, as with any other wrong variable."""
    training = supervisor.start("--total", "2", wrong={**SECOND, "STEEPEST_RANK": "7"})

    assert training.wait() == 0
    assert "STEEPEST_RANK is 7" in training.stderr()
