"""The options of a sweep: values for its trials, and its rungs."""

from __future__ import annotations

import math

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.conftest import Holding
from tests.unit.cli.test_many_jobs import call

from steepest.cli.jobs.sweep_options import choices_of, jobs_of, rungs_of
from steepest.events import cluster as c
from steepest.events.cluster import JobSpec, Rungs
from steepest.policies.submission import ARRAY_INDEX

COMMAND = ("train", "--lr", "{lr}", "--wd={wd}")


def test_lists_make_every_choice() -> None:
    """The last name changes fastest; what a trial trains with is known by name."""
    found = choices_of(["lr=1,2", "wd=3,4"], COMMAND, None, 0)

    assert [one.command[2:] for one in found] == [("1", "--wd=3"), ("1", "--wd=4"), ("2", "--wd=3"), ("2", "--wd=4")]
    assert found[1].params == {"lr": "1", "wd": "4"}


def test_a_value_is_not_read_again() -> None:
    """One that looks like a place of another name is a value."""
    (found,) = choices_of(["lr={wd}", "wd=7"], COMMAND, None, 0)
    assert found.command == ("train", "--lr", "{wd}", "--wd=7")


def test_ranges_are_drawn_again_alike() -> None:
    """With the same seed; with another one, otherwise. Of a list, each draw takes one."""
    asked = ["lr=log:1e-4..1e-1", "wd=0,0.1"]
    first, again, other = (choices_of(asked, COMMAND, 20, seed) for seed in (0, 0, 1))

    assert first == again != other
    assert {one.params["wd"] for one in first} == {"0", "0.1"}
    assert len({one.params["lr"] for one in first}) == 20


@given(st.integers(-1_000, 1_000), st.integers(1, 1_000), st.booleans(), st.integers(0, 99))
def test_what_is_drawn_is_in_its_range(low: int, width: int, is_log: bool, seed: int) -> None:  # noqa: FBT001 - drawn
    """Whole numbers from whole ends; and evenly by their logarithms also below 1."""
    low = abs(low) + 1 if is_log else low
    text = f"lr={'log:' if is_log else ''}{low}..{low + width}"
    values = [one.params["lr"] for one in choices_of([text], ("train", "{lr}"), 5, seed)]

    assert all(low <= int(value) <= low + width for value in values)


@pytest.mark.parametrize(
    ("text", "low", "high"), [("1e-4..1e-1", 1e-4, 1e-1), ("0.5..1.5", 0.5, 1.5), ("-2..-1.5", -2, -1.5)]
)
def test_ranges_of_fractions(text: str, low: float, high: float) -> None:
    """Written with four digits."""
    values = [float(one.params["lr"]) for one in choices_of([f"lr={text}"], ("train", "{lr}"), 50, 0)]

    assert all(low <= value <= high for value in values)
    assert not all(math.isclose(value, round(value)) for value in values)


@pytest.mark.parametrize(("text", "low", "high"), [(".001..0.1", 0.001, 0.1), ("0.99990..0.99999", 0.9999, 0.99999)])
def test_a_value_never_leaves_its_range(text: str, low: float, high: float) -> None:
    """Nor are all values of a narrow range the same."""
    values = [float(one.params["lr"]) for one in choices_of([f"lr={text}"], ("train", "{lr}"), 50, 0)]
    assert all(low <= value <= high for value in values)
    assert len({*values}) > 40


@pytest.mark.parametrize(
    ("params", "says"),
    [
        (["lr=1", "lr=2"], "write each name once"),
        (["=1"], "write each name once"),
        (["lr=-1e308..1e308"], "write a range like"),
        ([f"lr={','.join('1' * 50)}", f"wd={','.join('1' * 50)}"], "makes 2500 jobs"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(params: list[str], says: str) -> None:
    """Before its choices are made."""
    with pytest.raises(click.UsageError, match=says):
        choices_of(params, ("train", "{lr}", "{wd}", "{}"), 3, 0)


@pytest.mark.parametrize("text", ["../data", "a..b.txt", "s3://x/..", "1..", "..2", "conf/../x.yaml", "log:a", "1..b"])
def test_what_only_looks_like_a_range_is_a_value_or_refused(text: str) -> None:
    """A path is a value; nothing is drawn from what has no two numbers."""
    try:
        (found,) = choices_of([f"lr={text}"], ("train", "{lr}"), None, 0)
    except click.UsageError as error:
        assert "write a range like" in str(error)  # noqa: PT017 - either is right
    else:
        assert found.command == ("train", text)


def test_rungs_are_written_with_or_without_a_factor() -> None:
    """One in three goes on unless another number is written."""
    assert rungs_of("100") == Rungs(first=100)
    assert rungs_of("20x4") == Rungs(first=20, factor=4)
    for wrong in ("", "x", "100x", "-1", "1.5", "100x1", "100x101", str(2**70)):
        with pytest.raises(click.UsageError, match="write it like 100"):
            rungs_of(wrong)


def test_every_trial_has_its_values_and_its_index() -> None:
    """In its description, its command and its environment."""
    spec = JobSpec(command=COMMAND, rungs=Rungs(first=5))
    jobs = dict(jobs_of("s", spec, (2, 1), ["lr=1,2", "wd=0"], 0))

    assert list(jobs) == ["s-0", "s-1"]
    second = jobs["s-1"]
    assert (second.array, second.array_most, second.rungs) == ("s", 1, Rungs(first=5))
    assert (second.params, second.env[ARRAY_INDEX]) == ({"lr": "2", "wd": "0"}, "1")


def test_the_trials_of_a_sweep_are_ranked(holding: Holding) -> None:
    """By the highest rung, and there by the value; one that has reached none is last."""
    trials = jobs_of("s", JobSpec(command=("train", "{lr}"), rungs=Rungs(first=5)), None, ["lr=1,2,3,4"], 0)
    reached = [("s-0", 0, 0.5), ("s-1", 0, 0.4), ("s-1", 1, 0.3), ("s-2", 0, None)]
    folder = holding(
        *(c.JobSubmitted(job=name, request=name, spec=spec) for name, spec in trials),
        *(
            c.RungReached(job=job, incarnation=0, rung=rung, at=5 * 3**rung, value=value)
            for job, rung, value in reached
        ),
    )
    rows = call(folder, "trials", "s").stdout.splitlines()

    assert rows[0].split() == ["JOB", "LR", "RUNG", "VALUE", "STEP", "STATE"]
    assert [row.split()[:4] for row in rows[1:]] == [
        ["s-1", "2", "1", "0.3"],
        ["s-0", "1", "0", "0.5"],
        ["s-2", "3", "0", "not"],
        ["s-3", "4", "-", "-"],
    ]


def test_a_second_sweep_of_a_name_has_another_one(holding: Holding) -> None:
    """Once the first is over, so that `trials` and `cancel --array` mean one of them."""
    (name, spec), *_ = jobs_of("s", JobSpec(command=("true", "{lr}"), rungs=Rungs(first=5)), None, ["lr=1"], 0)
    over = c.JobRejected(job=name, request=name, reason="no room")
    folder = holding(c.JobSubmitted(job=name, request=name, spec=spec), over)

    call_of = ("--name", "s", "--param", "lr=1", "--rungs", "5", "--force", "--", "true", "{lr}")
    assert "a sweep named s is over already; this one is s.2" in call(folder, "submit", *call_of).stderr
    assert call(folder, "trials", "s.2").exit_code == 0
    assert "is over already; this one is s." not in call(folder, "submit", "--name", "s.2", *call_of[2:]).stderr
