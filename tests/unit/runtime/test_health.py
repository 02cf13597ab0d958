"""Whether a process does its work: alive, ready, stuck."""

from __future__ import annotations

import pytest
from tests.harness.set_clock import SetClock

from steepest.runtime.monitoring.health import LAG_MOST, STUCK_AFTER_S, Health


@pytest.fixture
def clock() -> SetClock:
    """A clock that stands."""
    return SetClock()


@pytest.fixture
def health(clock: SetClock) -> Health:
    """Two loops that have said nothing yet."""
    health = Health(clock)
    health.expect("pool")
    health.expect("losses")
    return health


def test_ready_means_that_every_loop_has_caught_up(health: Health) -> None:
    """A process is not ready before the last of its loops is, and one that has said nothing is not."""
    health.progress("pool", 7, 0, ready=True)
    assert not health.is_ready()
    health.progress("losses", 3, 9, ready=False)
    assert not health.is_ready()
    health.progress("losses", 12, 0, ready=True)
    assert health.is_ready()


def test_what_falls_far_behind_is_not_ready(health: Health) -> None:
    """A loop that has caught up once, and does not keep up, decides too late; it is ready again once it does."""
    health.progress("pool", 7, 0, ready=True)
    health.progress("losses", 12, LAG_MOST + 1, ready=True)
    assert not health.is_ready()
    assert health.is_alive()
    health.progress("losses", 13, LAG_MOST, ready=True)
    assert health.is_ready()


def test_a_process_without_loops_is_not_ready(clock: SetClock) -> None:
    """Nothing is ready before there is anything."""
    assert not Health(clock).is_ready()


def test_a_loop_that_speaks_lives(health: Health, clock: SetClock) -> None:
    """An idle loop reports too, so time alone makes no loop stuck."""
    for _ in range(5):
        clock.now_s += STUCK_AFTER_S - 1
        health.progress("pool", 7, 0, ready=True)
        health.progress("losses", 7, 100, ready=True)

        assert health.is_alive()


def test_a_silent_loop_is_stuck(health: Health, clock: SetClock) -> None:
    """A loop that hangs is named once it has been silent for too long, also where it had nothing to read before."""
    health.progress("pool", 7, 0, ready=True)
    clock.now_s += STUCK_AFTER_S
    health.progress("losses", 7, 0, ready=True)

    assert not health.is_alive()
    assert health.stuck() == ["pool"]


def test_a_loop_whose_log_is_away_lives_and_is_not_ready(health: Health, clock: SetClock) -> None:
    """Restarting the process would not repair an outage of the log."""
    for loop in ("pool", "losses"):
        health.progress(loop, 7, 0, ready=True)
    clock.now_s += STUCK_AFTER_S
    health.wait("pool")
    health.wait("losses")

    assert health.is_alive()
    assert not health.is_ready()


def test_a_refusal_is_told(health: Health) -> None:
    """A process whose log is not for it is never ready, and says why."""
    for loop in ("pool", "losses"):
        health.progress(loop, 7, 0, ready=True)
    health.refuse("the log asks for event version 9")

    assert not health.is_ready()
    assert health.refusal == "the log asks for event version 9"


def test_what_is_silent_beside_the_loops_counts_too(health: Health) -> None:
    """A cluster adapter that hangs makes a process unhealthy, though its loops go on."""
    silence_s = 0.0
    health.listen("adapter", lambda: silence_s)
    assert health.is_alive()
    silence_s = STUCK_AFTER_S

    assert health.stuck() == ["adapter"]
    assert not health.is_alive()
