"""``steepest.connect()``: an installation in a program, with what the command line does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import submitted
from tests.unit.cli.conftest import Holding

import steepest
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import StateFolder
from steepest.cli.pool.stored_pool import look
from steepest.errors import InputError
from steepest.events import cluster as c


@pytest.fixture
def folder(holding: Holding) -> StateFolder:
    """A folder whose log has a job that was rejected, and one that waits."""
    over = submitted("over")
    return holding(over, c.JobRejected(job="over", request=over.request, reason="no room"), submitted("waits"))


def test_a_job_is_submitted_with_the_words_of_the_command(folder: StateFolder) -> None:
    """Amounts as they are written there; without a request of CPU, what the command asks for."""
    pool = steepest.connect(folder.root)
    name = pool.submit(
        ["true", "1"], name="a", cpu=0.5, memory="0", time="4h", env={"SEED": 7}, replicas=2, after=["waits"], steps=9
    )
    spec = look(read_settings({"state_dir": folder.root}, environ={})).view.jobs[name].spec

    assert name == "a"
    assert spec.command == ("true", "1")
    assert (spec.requests.cpu_m, spec.requests.memory_mib, spec.time_limit_ms) == (500, 0, 4 * 3_600_000)
    assert (spec.env, spec.replicas, spec.after, spec.steps) == ({"SEED": "7"}, 2, ("waits",), 9)
    usual = pool.submit(["true"])
    assert look(read_settings({"state_dir": folder.root}, environ={})).view.jobs[usual].spec.requests.cpu_m == 1_000


def test_a_program_submits_the_trials_of_a_sweep(folder: StateFolder) -> None:
    """With settings of its own choice."""
    pool = steepest.connect(folder.root)
    for rate in (1e-4, 0.5):
        command = ["true", "--lr", str(rate)]
        pool.submit(command, name=f"lr-{rate}", array="lr", params={"lr": str(rate)}, rungs="300x4")
    jobs = look(read_settings({"state_dir": folder.root}, environ={})).view.jobs
    spec = jobs["lr-0.0001"].spec

    assert (spec.array, spec.params, spec.rungs) == ("lr", {"lr": "0.0001"}, c.Rungs(first=300, factor=4))
    assert jobs["lr-0.5"].spec.params == {"lr": "0.5"}


async def test_it_works_where_a_loop_runs(folder: StateFolder) -> None:
    """As in a notebook. Rows are what a table takes: one field is one value of one type."""
    rows = steepest.connect(folder.root).jobs()

    assert [(row["job"], row["outcome"]) for row in rows] == [("over", "failed"), ("waits", None)]
    assert {key for row in rows for key in row} == set(rows[0])


def test_a_job_is_waited_for(folder: StateFolder) -> None:
    """One that is over already is returned, and patience ends."""
    pool = steepest.connect(folder.root)
    assert pool.wait("over")["reason"] == "no room"
    with pytest.raises(TimeoutError, match="waits is not over after 0 s: it is waiting"):
        pool.wait("waits", timeout_s=0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cpu": "much"}, "cpu: 'much' is no amount of cpu"),
        ({"cpus": 2}, "submit has no such option: .*cpus"),
        ({"after": ["nosuch"]}, "there is no job 'nosuch'"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(folder: StateFolder, options: dict[str, Any], says: str) -> None:
    """As the command line does, in an error of Steepest's own."""
    with pytest.raises(InputError, match=says):
        steepest.connect(folder.root).submit(["true"], **options)


def test_where_nothing_is_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and with what to do. Without a name, the installation is that of the command line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STEEPEST_STATE_DIR", raising=False)
    with pytest.raises(InputError, match=r"no state folder at \.steepest"):
        steepest.connect()


def test_the_installation_of_the_command_line_is_found(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its variable, or in the current folder."""
    monkeypatch.setenv("STEEPEST_STATE_DIR", os.fspath(folder.root))
    assert len(steepest.connect().jobs()) == 2


def test_a_curve_is_arrays(holding: Holding) -> None:
    """An element each interval with reports; a job without any has empty ones, and one that is not there is refused."""
    first, second = (
        c.GrowthMeasured(
            job="a",
            interval=number,
            total=total,
            count=2,
            largest=4.0,
            first_ms=1,
            last_ms=2,
            category=c.Category.PROGRESSING,
        )
        for number, total in ((1, 8.0), (2, 6.0))
    )
    pool = steepest.connect(holding(submitted("a"), first, second, submitted("b")).root)

    curve = pool.curve("a")
    assert (list(curve.loss), list(curve.step), list(curve.cpu_ms)) == ([4.0, 3.0], [-1, -1], [-1, -1])
    assert len(curve.at_ms) == 2
    assert [len(column) for column in (pool.curve("b").at_ms, pool.curve("b").loss)] == [0, 0]
    with pytest.raises(InputError, match="there is no job 'c'"):
        pool.curve("c")
