"""Which records deciders are asked about."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, cancelled, migration, placement, submitted

from steepest.events import cluster as c
from steepest.events.received import ID, Received
from steepest.policies.decider import EVERY, Readers, fold_and_decide
from steepest.policies.unread import AwaitsDecisions
from steepest.view.cluster_view import ClusterView


class Asked:
    """A decider that remembers what it was asked about, and decides nothing."""

    name = "asked"
    logic = 1
    reads: frozenset[type] = EVERY
    state_type = dict
    state: Any = None

    def __init__(self) -> None:
        self.events: list[c.ClusterEvent] = []

    def reconsider(self, event: c.ClusterEvent) -> None:
        """It has nothing to forget."""

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> list[c.ClusterEvent]:
        """Remember it, after the view has taken it in."""
        assert view.position == received.offset + 1
        self.events.append(received.event)
        return []


WAITED_FOR = (
    placement("unknown", "w1"),
    migration("unknown", "w1", "w1"),
    c.RetryPlanned(job="unknown", incarnation=1, charged=False, not_before_ms=0, reason=""),
    c.JobRejected(job="unknown", request="r", reason=""),
    c.JobEnded(job="unknown", outcome=c.Outcome.FAILED),
)


def asked(pool: FoldedPool, event: c.ClusterEvent, headers: dict[str, str] | None = None) -> bool:
    """Whether a decider is asked about the next record."""
    decider = Asked()
    _, made = fold_and_decide(pool.view, Readers([decider]), pool.append(event, headers))
    assert len(made) == len(decider.events)
    return decider.events == [event]


@pytest.mark.parametrize("event", WAITED_FOR, ids=lambda event: type(event).__name__)
def test_a_decider_reads_back_what_it_waits_for_also_where_it_does_not_count(event: c.ClusterEvent) -> None:
    """Otherwise it would wait without end, and decide nothing more about that job or node."""
    assert asked(FoldedPool(), event)


@pytest.mark.parametrize("event", WAITED_FOR, ids=lambda event: type(event).__name__)
def test_nobody_is_asked_about_what_was_delivered_before(event: c.ClusterEvent) -> None:
    """It was read back the first time."""
    pool = FoldedPool()
    headers = {ID: "placer/e1/cluster/0/1/0"}
    assert asked(pool, event, headers)
    assert not asked(pool, event, headers)


def test_deciders_are_asked_about_what_counts_and_about_nothing_else() -> None:
    """A second cancel of the same job is no news."""
    pool = FoldedPool()
    assert asked(pool, submitted("job"))
    assert not asked(pool, submitted("job"))
    assert asked(pool, cancelled("job"))
    assert not asked(pool, cancelled("job"))
    assert not asked(pool, c.CheckpointModeDeclared(job="unknown", incarnation=1, node="w1", mode="none"))  # type: ignore[arg-type]


def test_all_deciders_are_asked_in_their_order() -> None:
    """What each makes is given in the same order."""
    pool = FoldedPool()
    deciders = [Asked(), Asked()]
    event = submitted("job")
    counts, made = fold_and_decide(pool.view, Readers(deciders), pool.append(event))
    assert counts
    assert made == [[], []]
    assert [decider.events for decider in deciders] == [[event], [event]]


class ReadsOnce(Asked):
    """A decider that reads everything until it is asked, then only ticks, and everything again once it reconsiders."""

    name = "reads-once"

    def __init__(self) -> None:
        super().__init__()
        self.state = AwaitsDecisions()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """Read everything again."""
        super().reconsider(event)
        self.reads = EVERY

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> list[c.ClusterEvent]:
        """Read ticks from here on."""
        self.reads = frozenset({c.Tick})
        return super().step(view, received)


def test_a_decider_that_reads_other_events_than_before_is_asked_about_them() -> None:
    """Who reads what is remembered only as long as it is so: what a decider gives up and what it takes up again."""
    pool, decider = FoldedPool(), ReadsOnce()
    deciders = Readers([Asked(), decider])
    events: list[c.ClusterEvent] = [submitted("a"), submitted("b"), c.Tick(counted_ms=1_000), submitted("c")]
    for event in events:
        fold_and_decide(pool.view, deciders, pool.append(event))
    assert decider.events == [events[0], events[2]]

    own = {ID: f"{decider.name}/{pool.view.state.epoch}/cluster/0/1/0"}
    unexpected = c.JobRejected(job="a", request="r", reason="of another logic")
    fold_and_decide(pool.view, deciders, pool.append(unexpected, own))
    assert decider.events[2:] == [unexpected]
