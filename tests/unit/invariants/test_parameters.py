"""The checker of what jobs are judged by: it looks at ``cluster`` and at ``loss``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steepest.events import cluster as c
from steepest.events.loss import JobUnwatched, JobWatched
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.events.received import ID, SEQUENCE, SOURCE, DecisionId, Received
from steepest.invariants import Status, Verdict, check
from steepest.invariants.checkers.parameters_in_force import LAG_MS, ParametersInForce

OLD, NEW = SpeConParameters(), SpeConParameters(alpha=0.5)


def watched(parameters: SpeConParameters, incarnation: int = 1) -> JobWatched:
    """Job a is watched with these parameters."""
    return JobWatched(job="a", pool="pool", incarnation=incarnation, metric="loss", parameters=parameters)


def losses(*said: tuple[int, Any], headers: Mapping[str, str] | None = None) -> list[Received[Any]]:
    """These events at these offsets of the first partition of ``loss``."""
    given = headers or {}
    return [Received(event=event, topic="loss", partition=0, offset=at, at_ms=0, headers=given) for at, event in said]


def pool(*entries: Any) -> list[Received[c.ClusterEvent]]:
    """A pool's log; a number stands for an interval of job a that ended with the report at that offset of ``loss``."""
    growth = c.GrowthMeasured(
        job="a",
        interval=1,
        total=1.0,
        count=1,
        largest=1.0,
        first_ms=0,
        last_ms=0,
        growth=0.0,
        category=c.Category.PROGRESSING,
    )
    records: list[Received[c.ClusterEvent]] = []
    for at, one in enumerate([c.LogOpened(epoch="e"), *entries]):
        headers = {ID: str(DecisionId("categorizer", "e", "loss", 0, one, 0))} if isinstance(one, int) else {}
        event = growth if isinstance(one, int) else one
        at_ms = at * LAG_MS
        records.append(Received(event=event, topic="cluster", partition=0, offset=at, at_ms=at_ms, headers=headers))
    return records


def verdict(records: list[Received[c.ClusterEvent]], said: list[Received[Any]]) -> Verdict:
    """What the checker says."""
    (found,) = [one for one in check(records, said) if one.checker == ParametersInForce.name]
    return found


CONFIGURED = c.PoolConfigured(parameters=PoolParameters(specon=NEW))
SOON, LATE = c.Tick(counted_ms=LAG_MS - 1), c.Tick(counted_ms=LAG_MS)


def test_a_job_judged_by_old_parameters_is_a_breach() -> None:
    """Once they have had time to get through, and once for a change."""
    found = verdict(pool(5, CONFIGURED, LATE, 6, 7), losses((1, watched(OLD))))

    assert (found.status, found.evidence) == (Status.BROKEN, (2, 4))
    assert "job a" in found.message


def test_parameters_that_were_announced_hold() -> None:
    """Of the newest announcement before the report that ended the interval, whichever incarnation it is of."""
    said = losses((1, watched(OLD)), (4, watched(NEW)), (5, watched(OLD, incarnation=0)))
    found = verdict(pool(3, CONFIGURED, LATE, 6), said)

    assert (found.status, found.message) == (Status.HOLDS, "intervals: 2")


def test_what_is_on_its_way_is_no_breach() -> None:
    """Neither while the pool's clock has hardly moved, nor where nothing says by what the job is judged."""
    assert verdict(pool(CONFIGURED, SOON, 6), losses((1, watched(OLD)))).status is Status.HOLDS
    assert verdict(pool(CONFIGURED, LATE, 6), losses()).status is Status.HOLDS


def test_an_announcement_that_is_delivered_again_is_none() -> None:
    """The categorizer drops it, so the parameters of before are not back."""
    first = losses((1, watched(OLD)), headers={SOURCE: "edge", SEQUENCE: "1"})
    again = losses((5, watched(OLD)), headers={SOURCE: "edge", SEQUENCE: "1"})

    assert verdict(pool(CONFIGURED, LATE, 6), [*first, *losses((4, watched(NEW))), *again]).status is Status.HOLDS


def test_a_name_that_is_used_again_begins_with_its_first_incarnation() -> None:
    """After the end of a job, a lower number than its last one is no old news."""
    said = losses((1, watched(OLD, incarnation=3)), (2, JobUnwatched(job="a")), (4, watched(NEW)))

    assert verdict(pool(CONFIGURED, LATE, 6), said).status is Status.HOLDS
