"""Which events ``steepest events`` shows of a job."""

from __future__ import annotations

import msgspec
import pytest
from click.testing import CliRunner
from tests.harness.scenarios.folded_pool import submitted
from tests.unit.cli.conftest import Holding

from steepest.cli.commands.events import chooser
from steepest.cli.main import main
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.read_models.run_timeline import is_news

LIMITS = c.LimitsPlanned(
    plan="p",
    node="n1",
    limits=(c.JobLimit("a", 1, c.GrowthList.NEW),),
    because=c.LimitsBecause(rule="written by hand", jobs=(c.GrowthSeen("b", c.GrowthList.NEW),)),
)


@pytest.mark.parametrize(
    ("event", "about"),
    [
        (c.JobCancelRequested(job="a", request="r"), ["a"]),
        (c.NodeUsage(node="n1", used=Resources(), jobs={"a": 1, "b": 2}), ["a", "b"]),
        (LIMITS, ["a"]),
        (c.NodeLost(node="n1", silent_ms=1), []),
    ],
)
def test_an_event_is_about_the_jobs_that_it_names(event: c.ClusterEvent, about: list[str]) -> None:
    """Its own job, those whose usage it reports, and those that it limits."""
    shown = [job for job in ("a", "b", "c") if chooser("cluster", job=job, types=(), show_all=True)(event)]

    assert shown == about


def test_a_node_that_was_never_lost_joins_once() -> None:
    """Each silence under load makes it join again, which is no news; a new capacity is, and its return after a loss."""
    joined = c.NodeJoined(node="n1", capacity=Resources(cpu_m=1))
    larger = c.NodeJoined(node="n1", capacity=Resources(cpu_m=2))
    shows = chooser("cluster", job=None, types=(), show_all=False)
    events = (joined, joined, larger, larger, c.NodeLost(node="n1", silent_ms=1), larger, joined)

    assert [shows(event) for event in events] == [True, False, True, False, True, True, True]
    every = chooser("cluster", job=None, types=(), show_all=True)
    assert every(joined)
    assert every(joined)


def test_a_limit_for_a_job_that_has_stopped_is_no_news() -> None:
    """Nothing is wrong where a job was suspended or ended before its limit was set; any other refusal is shown."""
    late = c.LimitsRefused(
        plan="p", node="n1", job="a", incarnation=1, code="not-running", definite=True, message="a.1 is exited"
    )
    assert not is_news({}, late)
    assert is_news({}, msgspec.structs.replace(late, code="timeout"))


def test_a_job_without_events_is_told(holding: Holding) -> None:
    """A misspelt name is no empty answer without a word."""
    state = ["--state", str(holding(submitted("a")).root)]
    done = CliRunner().invoke(main, ["events", "--job", "b", "--json", *state])

    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no event matches\n")
    assert CliRunner().invoke(main, ["events", "--job", "a", *state]).stderr == ""
