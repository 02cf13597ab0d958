"""Measurement: how much later jobs ended than under fair sharing of the CPU that their nodes really gave."""

from __future__ import annotations

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import SHOWN, Checker

LATE = 0.05
"""A job is late that ends later by this share of its completion time, as ``steepest simulate`` counts them."""

TOGETHER_MS = 2_000
"""CPU that nodes give within so much time is divided together."""

EXHAUSTED = 1e-6
"""Milliseconds; a copy that lacks less has ended."""


class FairCopy(msgspec.Struct):
    """A job as fair sharing would have served it; CPU in milliseconds.

    Attributes:
        node: Where it was placed first.
        lacks: What it still needs of all that its job used.
        end_ms: When it had got that; None: it has not.
    """

    node: str
    lacks: float
    end_ms: int | None = None


class FairEnd(Checker):
    """A measurement, which holds always: how many jobs end later than under fair sharing, by how much, and which.

    The fair end of a job follows from the log alone: what its node gave to all of its jobs is divided equally among those
    that were placed there first, moved or not, from each one's placement until it has got the CPU time that it really used.
    Where none of them is left, it is divided among all. No size, demand or capacity is estimated, and jobs that say nothing
    are judged as well. In a simulated pool half of these ends are within 5 % of those of a run under fair sharing, and
    nine of ten within 15 %. Jobs that did not finish, or have GPUs, are not judged, nor pools that never had the policy
    ``steepest``.
    """

    name = "fair-end"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._is_on = False
        self._submitted_ms: dict[str, int] = {}
        self._placed: dict[str, tuple[int, str]] = {}
        self._ended_ms: dict[str, int] = {}
        self._used_ms: dict[str, int] = {}
        self._counters: dict[tuple[str, int, int], int] = {}
        self._given: list[tuple[int, dict[str, int]]] = []

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        match event:
            case c.PoolConfigured():
                self._is_on = self._is_on or event.parameters.steepest.on
            case c.JobSubmitted() if not any(role.requests.all_gpus_m for role in event.spec.all_roles):
                self._submitted_ms.setdefault(event.job, received.at_ms)
            case c.PlacementPlanned() if event.job in self._submitted_ms:
                self._placed.setdefault(event.job, (received.at_ms, event.nodes[0]))
            case c.NodeUsage():
                for progress in event.progress:
                    if progress.job in self._placed and progress.cpu_ms is not None:
                        self._give(event.node, progress, progress.cpu_ms, received.at_ms)
            case c.JobEnded(outcome=c.Outcome.FINISHED) if event.job in self._placed:
                self._ended_ms.setdefault(event.job, received.at_ms)

    def _give(self, node: str, progress: c.ReplicaProgress, cpu_ms: int, at_ms: int) -> None:
        counter = (progress.job, progress.replica, progress.incarnation)
        more = cpu_ms - self._counters.get(counter, 0)
        if more <= 0:
            return
        self._counters[counter] = cpu_ms
        self._used_ms[progress.job] = self._used_ms.get(progress.job, 0) + more
        if not self._given or not 0 <= at_ms - self._given[-1][0] < TOGETHER_MS:
            self._given.append((at_ms, {}))
        given = self._given[-1][1]
        given[node] = given.get(node, 0) + more

    def later(self) -> dict[str, float]:
        """By which share of its fair completion time each job ended later; below 0: sooner."""
        waiting = sorted(self._placed, key=lambda job: self._placed[job][0], reverse=True)
        copies: dict[str, FairCopy] = {}
        running: list[FairCopy] = []
        for at_ms, nodes in self._given:
            while waiting and self._placed[waiting[-1]][0] <= at_ms:
                name = waiting.pop()
                copies[name] = FairCopy(self._placed[name][1], self._used_ms.get(name, 0))
                running.append(copies[name])
            for node, given in nodes.items():
                _divide(given, [copy for copy in running if copy.node == node] or running, at_ms)
                running = [copy for copy in running if copy.end_ms is None]
        found = {}
        for name, ended_ms in self._ended_ms.items():
            end_ms = copies[name].end_ms if name in copies else None
            fair_ms = max((ended_ms if end_ms is None else end_ms) - self._submitted_ms[name], 1)
            found[name] = (ended_ms - self._submitted_ms[name]) / fair_ms - 1
        return found

    def summary(self) -> str:
        """How many jobs ended, how many of them late, and the latest ones."""
        later = self.later() if self._is_on else {}
        late = sorted((name for name, share in later.items() if share > LATE), key=lambda name: (-later[name], name))
        shown = ", ".join(f"{name} {later[name]:+.0%}" for name in late[:SHOWN])
        return f"jobs that finished: {len(later)}, more than {LATE:.0%} after their fair end: {len(late)}" + (
            f" ({shown}{', …' if late[SHOWN:] else ''})" if late else ""
        )


def _divide(given: float, copies: list[FairCopy], at_ms: int) -> None:
    """Give equal parts, up to what each lacks."""
    while given > EXHAUSTED and copies:
        each = min(given / len(copies), *(copy.lacks for copy in copies))
        given -= each * len(copies)
        for copy in copies:
            copy.lacks -= each
            if copy.lacks <= EXHAUSTED:
                copy.end_ms = at_ms
        copies = [copy for copy in copies if copy.end_ms is None]
