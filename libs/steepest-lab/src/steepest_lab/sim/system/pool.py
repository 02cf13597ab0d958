"""The virtual-time shell of a pool's engine: a log in memory, and the clock that ticks into it.

What is appended is folded, decided about and acted on in the log's order. Nothing is encoded and nothing is lost, so that a
record costs what its fold and its decisions cost. Engine, deciders and sagas are those of the live system.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.events.registry import FLAGS, READS
from steepest.log.base import TopicPartition
from steepest.policies.decider import ClusterDecider
from steepest.policies.deciders import CLUSTER_DECIDERS
from steepest.policies.monitor.facts import Facts
from steepest.policies.monitor.silence import Silence
from steepest.policies.placement.placer import Placer
from steepest.policies.placement.policies import PlacementPolicy
from steepest.policies.specon.categorizer import Categorizer
from steepest.policies.steepest.steepest_planner import SteepestPlanner
from steepest.runtime.decision_stream import MintedDecision
from steepest.runtime.engine import PoolEngine
from steepest_lab.sim.system.collector import SimulatedCollector
from steepest_lab.sim.system.migrator import SimulatedMigrator
from steepest_lab.sim.system.resizer import SimulatedResizer
from steepest_lab.simulated.nodes import SimulatedNodes
from steepest_lab.simulated.timeline import VirtualTimeline

POOL = "default"
EPOCH = "simulated"

Watch = Callable[[Received[Any]], None]
"""Is called with every record of the log once it is folded."""


def engine_of_a_pool(
    at: TopicPartition, placement: PlacementPolicy | None = None, planner: type[SteepestPlanner] = SteepestPlanner
) -> PoolEngine:
    """A pool before its first record, with all deciders but the one that judges silence: simulated nodes never are silent.

    Args:
        at: The pool's partition.
        placement: The placer's policy, if it is not for the pool's parameters to name it.
        planner: Divides the nodes.
    """
    others = [kind for kind in CLUSTER_DECIDERS.values() if kind is not Silence]
    kinds = [planner if kind is SteepestPlanner else kind for kind in others]
    deciders: list[ClusterDecider] = [Placer(policy=placement) if kind is Placer else kind() for kind in kinds]
    return PoolEngine(deciders, at, POOL)


class StartingPoint(msgspec.Struct):
    """All state from which a simulation starts.

    Attributes:
        categorizer: Judges the jobs' losses.
        facts: Makes facts of heartbeats.
        at_ms: The time at which the simulation starts.
        pending: What was decided and is not in the log yet.
    """

    engine: PoolEngine
    categorizer: Categorizer = msgspec.field(default_factory=Categorizer)
    facts: Facts = msgspec.field(default_factory=Facts)
    at_ms: int = 0
    pending: list[MintedDecision] = []


class SimulatedPool:
    """One pool; :meth:`open` a new log or :meth:`resume` one, and then run the timeline.

    Attributes:
        timeline: Its time, which begins at 0.
        nodes: What runs.
        collector: Reports of what runs.
        view: The fold of its log.
        records: How many records its log has.
        watch: Is called with every record.
    """

    def __init__(
        self,
        start: StartingPoint,
        make_nodes: Callable[[VirtualTimeline, SimulatedCollector], SimulatedNodes],
        *,
        heartbeat_s: float,
        act_s: float,
        watch: Watch | None = None,
    ) -> None:
        """A pool in which nothing happens yet.

        Args:
            start: Its state, which is used up.
            make_nodes: The nodes, on this timeline, with this witness.
            heartbeat_s: The heartbeats' period.
            act_s: Seconds that a stop or a start of a move takes in addition to the process's own time.
            watch: Is called with every record.
        """
        self.timeline = VirtualTimeline()
        self.watch = watch
        self._engine = start.engine
        self.view = start.engine.view
        self.records = self.view.position
        self._begin_ms = start.at_ms
        self._arriving: deque[tuple[c.ClusterEvent, Mapping[str, str], int]] = deque(
            (one.event, one.headers, one.at_ms) for one in start.pending
        )
        self._folding = False
        self._counted_ms = self.view.counted_ms
        self._over = False
        self.collector = SimulatedCollector(
            POOL,
            self.append,
            lambda: self.view.parameters.specon,
            self.now_ms,
            heartbeat_s,
            categorizer=start.categorizer,
            facts=start.facts,
        )
        self.nodes = self.collector.nodes = make_nodes(self.timeline, self.collector)
        self._migrator = SimulatedMigrator(self.nodes, self.append, self.now_ms, act_s)
        self._resizer = SimulatedResizer(self.nodes, self.append)

    def open(self, parameters: PoolParameters) -> None:
        """Begin a log, put the parameters in force, and let the nodes join."""
        self._go_live()
        self.append(c.LogOpened(epoch=EPOCH))
        self.append(c.PoolConfigured(reads=READS, flags=tuple(FLAGS), parameters=parameters))
        for node in self.nodes.nodes:
            self.collector.beat(node)
        self._tick_later()

    def resume(self) -> None:
        """Continue where the log ends: take over running plans, and append the last decisions."""
        for node in self.nodes.nodes:
            for training in self.nodes.on(node):
                self.collector.adopt(training)
        self._go_live()
        self._drain()
        self._tick_later()

    def now_ms(self) -> int:
        """The time of records, in milliseconds of the log's clock."""
        return self._begin_ms + round(self.timeline.now_s() * 1000)

    def append(self, event: c.ClusterEvent) -> None:
        """Append a record, and all that follows from it at this moment."""
        self._arriving.append((event, {}, self.now_ms()))
        self._drain()

    def end(self) -> None:
        """Tick no more: nothing that happens any more is of interest."""
        self._over = True

    def lose(self, node: str, for_s: float) -> None:
        """A node fails with its jobs, and returns after some seconds."""
        self.append(c.NodeLost(node=node, silent_ms=0))
        self.nodes.lose(node)
        self.timeline.call_at(self.timeline.now_s() + for_s, lambda: self._repair(node))

    def _repair(self, node: str) -> None:
        self.nodes.repair(node)
        self.collector.joins(node)

    def _tick_later(self) -> None:
        period_ms = self.view.parameters.tick_ms

        def tick() -> None:
            if not self._over:
                self._counted_ms += period_ms
                self.append(c.Tick(counted_ms=self._counted_ms))
                self._tick_later()

        self.timeline.call_at(self.timeline.now_s() + period_ms / 1000, tick)

    # --- the log's order -----------------------------------------------------------------------------------------------

    def _go_live(self) -> None:
        self._engine.go_live([self._resizer.machine, self._migrator])
        self._act()

    def _drain(self) -> None:
        if self._folding:
            return
        self._folding = True
        try:
            while self._arriving:
                self._fold(*self._arriving.popleft())
        finally:
            self._folding = False

    def _fold(self, event: c.ClusterEvent, headers: Mapping[str, str], at_ms: int) -> None:
        engine = self._engine
        received = Received(
            event=event,
            topic=engine.at.topic,
            partition=engine.at.partition,
            offset=self.records,
            at_ms=at_ms,
            key=POOL,
            headers=headers,
        )
        self.records += 1
        for one in engine.step(received):
            self._arriving.append((one.event, one.headers, one.at_ms))
        if self._resizer.machine.due or self._migrator.machine.due:
            self._act()
        if isinstance(event, c.JobEnded | c.JobRejected) and engine.accepted:
            self.nodes.forget(event.job)
            self.collector.forget(event.job)
            self._resizer.forget(event.job)
        if self.watch is not None:
            self.watch(received)

    def _act(self) -> None:
        """Do what the records so far have made due."""
        self._resizer.act()
        self._migrator.act()
