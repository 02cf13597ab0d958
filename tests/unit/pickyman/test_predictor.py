"""What the predictor does where the log has another prediction in the place of its own."""

from __future__ import annotations

from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver
from tests.unit.pickyman.test_preemption_planner import pool_of, submit

from steepest.events import cluster as c
from steepest.policies.pickyman.predictor import Predictor, PredictorState


def waiting(pool: DeciderDriver) -> c.RunTimePredicted:
    """The prediction of job b, which waits."""
    submit(pool, "a", epochs=3)
    pool.feed(submitted("b", 1_000, model="m", epochs=3))
    (said,) = [one.event for one in pool.log if isinstance(one.event, c.RunTimePredicted) and one.event.job == "b"]
    return said


def predictions(pool: DeciderDriver, of: c.RunTimePredicted) -> list[c.ClusterEvent]:
    """What another predictor, whose prediction was overtaken, says at the next tick."""
    other = Predictor(PredictorState(on=True))
    other.reconsider(of)
    pool.tick(1_000)
    return [event for event in other.step(pool.view, pool.log[-1]) if isinstance(event, c.RunTimePredicted)]


def test_what_another_predictor_has_said_is_not_said_again() -> None:
    """Two of them would answer each other without end."""
    pool = pool_of()
    said = waiting(pool)

    assert predictions(pool, said) == []


def test_what_the_log_lacks_is_said_again() -> None:
    """The prediction in its place is about an incarnation before it."""
    pool = pool_of()
    said = waiting(pool)
    pool.job("b").incarnation += 1

    (again,) = predictions(pool, said)
    assert isinstance(again, c.RunTimePredicted)
    assert (again.job, again.incarnation) == ("b", 1)
