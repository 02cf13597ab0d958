"""The course of one run for a plot, read from its records."""

from __future__ import annotations

from typing import Any

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received

Line = list[tuple[float, float]]
"""Times in seconds, and values."""

Spells = list[tuple[float, str]]
"""Times in seconds, and what began then."""


class Move(msgspec.Struct, frozen=True):
    """A job left a node for another one, at a time in seconds."""

    at_s: float
    job: str
    target: str


class Course(msgspec.Struct):
    """A run's course.

    Attributes:
        capacities_m: Of the nodes, by name.
        lists: The categories are FlowCon's lists, not SpeCon's categories.
        use: Of each node, as a share of it.
        job_use: Of each job, as a share of its node.
        efficiency: Of each job: its progress a second for a whole node's worth of use (FlowCon's G).
        categories: Of each job.
        places: Of each job: the nodes on which it runs.
        moves: Those that arrived.
        ends_s: Of each job.
    """

    capacities_m: dict[str, int]
    lists: bool
    use: dict[str, Line] = {}
    job_use: dict[str, Line] = {}
    efficiency: dict[str, Line] = {}
    categories: dict[str, Spells] = {}
    places: dict[str, Spells] = {}
    moves: list[Move] = []
    ends_s: dict[str, float] = {}

    def notice(self, received: Received[Any]) -> None:
        """Take in a record."""
        event, at_s = received.event, received.at_ms / 1000
        match event:
            case c.NodeUsage():
                self._use(event, at_s)
            case c.GrowthMeasured():
                self._growth(event, at_s)
            case c.LimitsPlanned() if self.lists:
                for limit in event.limits:
                    if limit.growth_list is not None:
                        _begin(self.categories, limit.job, at_s, limit.growth_list.value)
            case c.ReplicaStarted():
                _begin(self.places, event.job, at_s, event.node)
            case c.MigrationFinished():
                self.moves.append(Move(at_s, event.job, event.target))
            case c.JobEnded():
                self.ends_s[event.job] = at_s

    def _use(self, event: c.NodeUsage, at_s: float) -> None:
        capacity_m = self.capacities_m[event.node]
        self.use.setdefault(event.node, []).append((at_s, event.used.cpu_m / capacity_m))
        for job, cpu_m in event.jobs.items():
            self.job_use.setdefault(job, []).append((at_s, cpu_m / capacity_m))

    def _growth(self, event: c.GrowthMeasured, at_s: float) -> None:
        use = self.job_use.get(event.job)
        if use and use[-1][1] > 0 and event.per_second:
            self.efficiency.setdefault(event.job, []).append((at_s, event.per_second / use[-1][1]))
        if not self.lists:
            _begin(self.categories, event.job, at_s, event.category.value)


def _begin(spells: dict[str, Spells], job: str, at_s: float, name: str) -> None:
    known = spells.setdefault(job, [])
    if not known or known[-1][1] != name:
        known.append((at_s, name))
