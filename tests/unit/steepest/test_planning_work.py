"""What the planner does in a large pool, counted in calls of functions: other nodes cost nothing where nothing changed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.call_count import count_calls
from tests.harness.scenarios.folded_pool import FoldedPool, joined

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.policies.named import under
from steepest.policies.steepest.moves import MOST_SOURCES
from steepest.policies.steepest.steepest_planner import SteepestPlanner

PER_NODE = 3
CAPACITY_M = 3_000
STEP_MS = 500
"""CPU time of a step of every job."""

TOTAL = 1_000
SECONDS = 12


class Crowded(FoldedPool):
    """Nodes with as many jobs each, all of which have trained for a while; the planner sees every record.

    Attributes:
        planned: How many plans of limits there were, by node.
    """

    def __init__(self, nodes: int) -> None:
        self.planner = SteepestPlanner()
        self.planned: dict[str, int] = {}
        super().__init__()
        parameters = under("steepest", PoolParameters())
        self.fold(c.PoolConfigured(parameters=parameters))
        self.names = [f"n{number}" for number in range(nodes)]
        for node in self.names:
            self.fold(joined(node, CAPACITY_M))
            for number in range(PER_NODE):
                self.run(f"{node}-{number}", node)
        for second in range(1, SECONDS + 1):
            for node in self.names:
                self.fold(self.usage(node, second))
            self.tick()

    def fold(self, event: c.ClusterEvent, headers: Any = None, at_ms: int | None = None) -> bool:
        """The planner decides after each record, and its decisions follow."""
        counts = super().fold(event, headers, at_ms)
        for decided in self.planner.step(self.view, self.log[-1]):
            assert isinstance(decided, c.LimitsPlanned), "equal nodes have nothing to move"
            self.planned[decided.node] = self.planned.get(decided.node, 0) + 1
            super().fold(decided)
        return counts

    def usage(self, node: str, second: int) -> c.NodeUsage:
        """Each job has an equal part of its node; the first one is the shortest."""
        jobs = [f"{node}-{number}" for number in range(PER_NODE)]
        cpu_ms = second * CAPACITY_M // PER_NODE
        progress = tuple(
            c.ReplicaProgress(job=job, incarnation=1, step=cpu_ms // STEP_MS, total=TOTAL * (1 + number), cpu_ms=cpu_ms)
            for number, job in enumerate(jobs)
        )
        used = dict.fromkeys(jobs, CAPACITY_M // PER_NODE)
        return c.NodeUsage(node=node, used=Resources(cpu_m=CAPACITY_M), jobs=used, progress=progress)

    def cost(self, event: c.ClusterEvent) -> tuple[int, int]:
        """How many calls the planner makes for a record, and how many decisions."""
        super().fold(event)
        calls, decided = count_calls(lambda: self.planner.step(self.view, self.log[-1]))
        return calls, len(decided)

    def second_later(self) -> c.Tick:
        """The next tick."""
        self.now_ms += 1_000
        return c.Tick(counted_ms=self.view.counted_ms + 1_000)


@pytest.mark.parametrize("at", [0, -1])
def test_a_fact_of_one_node_costs_nothing_of_the_others(at: int) -> None:
    """What a node uses, how far its jobs are, and that one of them has stopped, beside 10 and beside 40 other nodes."""
    costs = []
    for others in (10, 40):
        pool = Crowded(1 + others)
        node = pool.names[at]
        usage = pool.cost(pool.usage(node, SECONDS + 1))
        costs.append((usage, pool.cost(pool.stopped(f"{node}-0"))))

    assert costs[0] == costs[1]


def test_a_tick_at_which_no_node_is_due_costs_nothing_of_them() -> None:
    """All were planned at the tick before."""
    costs = []
    for nodes in (11, 41):
        pool = Crowded(nodes)
        for node in pool.names:
            pool.planner.state.due[node] = 0.0
        pool.tick()
        costs.append(pool.cost(pool.second_later()))

    assert costs[0] == costs[1]


def test_a_tick_at_which_one_node_is_due_does_not_walk_the_others() -> None:
    """It plans that node and looks for moves among some; there are more nodes than that in either pool."""
    costs = []
    for nodes in (MOST_SOURCES + 8, 4 * (MOST_SOURCES + 8)):
        pool = Crowded(nodes)
        assert set(pool.planned) == set(pool.names)
        for node in pool.names:
            pool.planner.state.due[node] = 0.0
        pool.tick()
        pool.fold(pool.stopped("n1-0"))
        cost, decisions = pool.cost(pool.second_later())
        assert decisions == 1
        costs.append(cost)

    assert costs[1] <= 1.05 * costs[0]
