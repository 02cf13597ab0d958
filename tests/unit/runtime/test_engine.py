"""The pool's engine: one step folds, asks, mints and shows; nothing of it needs a log, a task or a clock."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.folded_pool import EPOCH, FoldedPool, joined, submitted

from steepest.errors import LogVersionError
from steepest.events import cluster as c
from steepest.events.received import ID, PREVIOUS, Received
from steepest.log.base import TopicPartition
from steepest.policies.decider import ClusterDecider
from steepest.policies.placement.placer import Placer
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.runtime.decision_stream import MintedDecision
from steepest.runtime.engine import PoolEngine
from steepest.view.cluster_view import ClusterView

AT = TopicPartition("cluster")


class Witness:
    """An effector that notes what it is shown."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def caught_up(self, view: ClusterView) -> None:
        """Note where history ends."""
        self.seen.append(f"caught up at {view.position}")

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Note the record, which the view holds already."""
        assert view.position == received.offset + 1
        self.seen.append(f"{type(received.event).__name__} {'counts' if accepted else 'does not count'}")


class Log:
    """Records for an engine, one after the other."""

    def __init__(self) -> None:
        self.engine = PoolEngine([Placer(), Rebalancer()], AT, "pool")
        self._records = FoldedPool()
        self.step(c.LogOpened(epoch=EPOCH), offset=0)
        self.step(joined("w1", 1_000))

    def step(self, event: c.ClusterEvent, offset: int | None = None) -> list[MintedDecision]:
        """Let the engine take in one event."""
        received = self._records.append(event) if offset is None else self._records.log[offset]
        return list(self.engine.step(received))


def test_a_step_gives_what_is_decided_with_its_headers() -> None:
    """A job that fits is admitted and placed: two decisions of one cause, each with its id and the one before it."""
    log = Log()
    first = log.step(submitted("a"))
    second = log.step(submitted("b"))

    assert [type(one.event) for one in first] == [c.JobAdmitted, c.PlacementPlanned]
    assert [one.headers[ID] for one in first] == [f"placer/{EPOCH}/cluster/0/2/{index}" for index in (0, 1)]
    assert [one.headers.get(PREVIOUS, "") for one in [*first, *second]] == [
        "",
        *(str(one.id) for one in [*first, second[0]]),
    ]
    assert {(one.to, one.key) for one in first} == {(AT, "pool")}


def test_effectors_see_records_from_where_history_ends() -> None:
    """Before they would act on what is long done; then they see every record, also one that does not count."""
    log, witness = Log(), Witness()
    log.step(submitted("a"))
    log.engine.go_live([witness])
    log.step(c.Tick(counted_ms=1_000))
    log.step(c.Tick(counted_ms=1_000))

    assert witness.seen == ["caught up at 3", "Tick counts", "Tick does not count"]


def test_a_record_for_newer_readers_changes_nothing() -> None:
    """The engine refuses it, and is where it was."""
    log = Log()
    before = log.engine.view.snapshot()
    with pytest.raises(LogVersionError):
        log.step(c.PoolConfigured(reads=1_000))

    assert log.engine.view.snapshot() == before


def test_an_engine_goes_on_from_its_snapshot() -> None:
    """View, deciders' states and newest ids are all that it remembers."""
    whole, part = Log(), Log()
    for log in (whole, part):
        log.step(submitted("a"))
    old = part.engine
    deciders: list[ClusterDecider] = [Placer(old.deciders[0].state), Rebalancer(old.deciders[1].state)]
    view = ClusterView.restore(old.view.snapshot())
    part.engine = PoolEngine(deciders, AT, "pool", view=view, last_ids=old.last_ids)

    assert part.step(submitted("b")) == whole.step(submitted("b")) != []
