"""A pool's log in virtual time: what is appended is folded by the view, decided about, and acted on, in the log's order.

It owns the log and the clock that ticks into it. Nothing is encoded and nothing is lost, so that a record costs what its
fold and its decisions cost. Deciders, view and saga are those of the live system.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from steepest.cluster.simulated.nodes import SimulatedNodes
from steepest.cluster.simulated.timeline import VirtualTimeline
from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.events.received import ID, LOGIC, PREVIOUS, DecisionId, Received
from steepest.events.registry import FLAGS, READS
from steepest.policies.decider import ClusterDecider, fold_and_decide
from steepest.policies.deciders import CLUSTER_DECIDERS
from steepest.policies.monitor.facts import Facts
from steepest.policies.monitor.silence import Silence
from steepest.policies.placement.placer import Placer
from steepest.policies.placement.policies import PlacementPolicy
from steepest.policies.specon.categorizer import Categorizer
from steepest.sim.system.hands import Hands
from steepest.sim.system.senses import Senses
from steepest.view.cluster_view import ClusterView

POOL = "default"
EPOCH = "simulated"

Watch = Callable[[Received[Any]], None]
"""Is called with every record of the log once it is folded."""


def deciders_of_a_pool(placement: PlacementPolicy | None = None) -> list[ClusterDecider]:
    """Those that read a pool's log, as they begin; but for the one that judges silence: simulated nodes are never silent.

    Args:
        placement: The placer's policy, if it is not for the pool's parameters to name it.
    """
    kinds = [kind for kind in CLUSTER_DECIDERS.values() if kind is not Silence]
    return [Placer(policy=placement) if kind is Placer else kind() for kind in kinds]


class Memory(msgspec.Struct):
    """What everybody who decides remembers.

    Attributes:
        partition: The pool's, in ``cluster``.
        at_ms: The time to which it belongs, and at which a simulation begins.
        pending: What was decided and does not stand in the log yet, with its headers and time.
    """

    view: ClusterView = msgspec.field(default_factory=ClusterView)
    deciders: list[ClusterDecider] = msgspec.field(default_factory=deciders_of_a_pool)
    categorizer: Categorizer = msgspec.field(default_factory=Categorizer)
    facts: Facts = msgspec.field(default_factory=Facts)
    partition: int = 0
    at_ms: int = 0
    pending: list[tuple[c.ClusterEvent, Mapping[str, str], int]] = []


class SimulatedPool:
    """One pool; :meth:`open` a new log or :meth:`resume` one, and then let the timeline go on.

    Attributes:
        timeline: Its time, which begins at 0.
        nodes: What runs.
        view: The fold of its log.
        records: How many records its log has.
        watch: Is called with every record.
    """

    def __init__(
        self,
        memory: Memory,
        make_nodes: Callable[[VirtualTimeline, Senses], SimulatedNodes],
        *,
        heartbeat_s: float,
        act_s: float,
        watch: Watch | None = None,
    ) -> None:
        """A pool in which nothing happens yet.

        Args:
            memory: Of those who decide.
            make_nodes: The nodes, on this timeline, with this witness.
            heartbeat_s: The heartbeats' period.
            act_s: Seconds that a stop or a start of a move takes beside what the process does.
            watch: Is called with every record.
        """
        self.timeline = VirtualTimeline()
        self.view = memory.view
        self.records = self.view.position
        self.watch = watch
        self._deciders = memory.deciders
        self._partition = memory.partition
        self._begin_ms = memory.at_ms
        self._last_ids = dict(self.view.state.last_ids)
        self._arriving: deque[tuple[c.ClusterEvent, Mapping[str, str], int]] = deque(memory.pending)
        self._folding = False
        self._counted_ms = self.view.counted_ms
        self._over = False
        self.senses = Senses(
            POOL,
            self.tell,
            lambda: (self.view.parameters.specon, self.view.state.flags),
            self.now_ms,
            heartbeat_s,
            categorizer=memory.categorizer,
            facts=memory.facts,
        )
        self.nodes = self.senses.nodes = make_nodes(self.timeline, self.senses)
        self._hands = Hands(self.nodes, self.tell, act_s)

    def open(self, parameters: PoolParameters) -> None:
        """Begin a log, put the parameters in force, and let the nodes join."""
        self.tell(c.LogOpened(epoch=EPOCH))
        self.tell(c.PoolConfigured(reads=READS, flags=tuple(FLAGS), parameters=parameters))
        for node in self.nodes.nodes:
            self.senses.beat(node)
        self._tick_later()

    def resume(self) -> None:
        """Go on where the log ends: take over what is under way, and append what was decided last."""
        for node in self.nodes.nodes:
            for training in self.nodes.on(node):
                self.senses.adopt(training)
        self._hands.take_over(self.view, self.now_ms())
        self._drain()
        self._tick_later()

    def now_ms(self) -> int:
        """The time of records, in milliseconds of the log's clock."""
        return self._begin_ms + round(self.timeline.now_s() * 1000)

    def tell(self, event: c.ClusterEvent) -> None:
        """Append a record; whatever follows from it at this moment is appended too."""
        self._arriving.append((event, {}, self.now_ms()))
        self._drain()

    def _drain(self) -> None:
        if self._folding:
            return
        self._folding = True
        try:
            while self._arriving:
                self._fold(*self._arriving.popleft())
        finally:
            self._folding = False

    def end(self) -> None:
        """Tick no more: nothing that happens any more is of interest."""
        self._over = True

    def lose(self, node: str, for_s: float) -> None:
        """A node fails, with all that runs on it, and is back after so many seconds."""
        self.tell(c.NodeLost(node=node, silent_ms=0))
        self.nodes.lose(node)
        self.timeline.call_at(self.timeline.now_s() + for_s, lambda: self._mend(node))

    def _mend(self, node: str) -> None:
        self.nodes.mend(node)
        self.senses.joins(node)

    def _tick_later(self) -> None:
        period_ms = self.view.parameters.tick_ms

        def tick() -> None:
            if not self._over:
                self._counted_ms += period_ms
                self.tell(c.Tick(counted_ms=self._counted_ms))
                self._tick_later()

        self.timeline.call_at(self.timeline.now_s() + period_ms / 1000, tick)

    def _fold(self, event: c.ClusterEvent, headers: Mapping[str, str], at_ms: int) -> None:
        received = Received(
            event=event,
            topic="cluster",
            partition=self._partition,
            offset=self.records,
            at_ms=at_ms,
            key=POOL,
            headers=headers,
        )
        self.records += 1
        accepted, made = fold_and_decide(self.view, self._deciders, received)
        for number, events in enumerate(made):
            if events:
                self._decided(number, received, events)
        self._hands.observe(self.view, received, accepted=accepted)
        if type(event) is c.JobEnded and accepted:
            self.senses.forget(event.job)
        if self.watch is not None:
            self.watch(received)

    def _decided(self, number: int, cause: Received[Any], events: Sequence[c.ClusterEvent]) -> None:
        decider = self._deciders[number]
        for index, event in enumerate(events):
            made = DecisionId(decider.name, self.view.state.epoch, cause.topic, cause.partition, cause.offset, index)
            headers = {ID: str(made), LOGIC: str(decider.logic)}
            if previous := self._last_ids.get(made.stream):
                headers[PREVIOUS] = previous
            self._last_ids[made.stream] = headers[ID]
            self._arriving.append((event, headers, cause.at_ms))
