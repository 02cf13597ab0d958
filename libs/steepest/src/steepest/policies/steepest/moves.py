"""Which jobs move to another node, and for what gain. Pure.

Two reasons, in this order; at most one job is on its way to a node at a time, and a job moves only where the promises of
both nodes are kept as well as before:

* *balance*: the node with the most work left for its CPU gives a job that waits to the one with the least;
* *rescue*: promises cannot be kept on a node, and a move lessens what is late.

A large pool is not searched: only the ``MOST_SOURCES`` fullest and the ``MOST_TARGETS`` emptiest nodes are compared, which
:mod:`steepest.policies.steepest.residences` keeps in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from steepest.events.parameters import SteepestParameters
from steepest.policies.steepest.must_run import Promise, must_run
from steepest.policies.steepest.node_plan import LEAST_ROOM, JobOnNode
from steepest.policies.steepest.residences import Residence, Residences

WAITS_FOR_BALANCE = 0.5
"""A job that gets at most this share of what it can use waits."""

MOST_SOURCES = 16
MOST_TARGETS = 8
ALTERNATIVES = 4

SPARE = 0.5
"""For balance only a job moves that could still wait for this share of the time that it needs, the move's included,
and be in time: jobs that come to its new node later have promises too. In simulations fewer jobs are late by it, and none
of the gains is less."""

LESS_LATE = 0.05
"""A rescue lessens what is late by at least this share, and by a core-second."""

EQUAL = 1e-6

BALANCE = "a job that waits goes where least is left to do"
RESCUE = "promises cannot be kept on its node"
"""Why a job moves."""


class MoveChoice(msgspec.Struct, frozen=True):
    """A move, and what else was possible for the same reason.

    Attributes:
        gain_s: Seconds that the job, or the pool, gains after the move's cost; of a rescue the core-seconds less late.
    """

    job: JobOnNode
    source: str
    target: str
    reason: str
    gain_s: float
    alternatives: Sequence[MoveChoice] = ()


class MoveSearch:
    """The search for the moves to be made now; it changes the residences as if each was made.

    Args:
        nodes: All nodes that are open.
        parameters: Of the policy.
        fits: Whether the reservation of a job fits a node.
        takes_s: Seconds that a move of a job from a node to another one takes.
        now_s: Counted time.
    """

    def __init__(
        self,
        nodes: Residences,
        parameters: SteepestParameters,
        fits: Callable[[str, str], bool],
        takes_s: Callable[[str, str, str], float],
        now_s: float,
    ) -> None:
        self._nodes, self._parameters = nodes, parameters
        self._fits, self._takes_s, self._now_s = fits, takes_s, now_s
        self._sources = nodes.fullest(MOST_SOURCES)

    def moves(self) -> Iterator[MoveChoice]:
        """Those of both reasons."""
        yield from self.balance()
        yield from self.rescue()

    def balance(self) -> Iterator[MoveChoice]:
        """From the fullest node to the emptiest."""
        target = next((node for node in self._nodes.emptiest() if not node.awaits), None)
        if target is None:
            return
        source, found = self._sources[0], []
        for job, cost_s in self._leaving(source, target):
            waits = job.rate < WAITS_FOR_BALANCE * min(job.elsewhere, source.cores)
            needs_s = cost_s + job.backlog / min(job.elsewhere, target.cores)
            if not waits or (job.due_s is not None and job.due_s - self._now_s < (1 + SPARE) * needs_s):
                continue
            gap_s = source.fullness - target.fullness
            after_s = abs(gap_s - job.backlog / source.cores - job.backlog / target.cores)
            if gap_s - after_s > self._parameters.pays * cost_s:
                found.append(MoveChoice(job, source.name, target.name, BALANCE, gap_s - after_s))
        yield from self._first(found)

    def rescue(self) -> Iterator[MoveChoice]:
        """From nodes where promises cannot be kept."""
        for source in self._sources:
            late = self._late(source) if len(source.jobs) > 1 else 0.0
            if late <= EQUAL:
                continue
            found, without = [], {job.name: self._late(source, job) for job in source.jobs if job.free}
            for target in list(islice(self._nodes.emptiest(), MOST_TARGETS)):
                before = late + self._late(target)
                for job, cost_s in self._leaving(source, target):
                    gain = before - without[job.name] - self._late(target, None, job, cost_s)
                    if gain > LESS_LATE * late + 1:
                        found.append(MoveChoice(job, source.name, target.name, RESCUE, gain))
            yield from self._first(found, is_safe=True)

    def _leaving(self, source: Residence, target: Residence) -> Iterator[tuple[JobOnNode, float]]:
        """The jobs for which a move from one node to another pays, and the seconds that it takes."""
        for job in () if target is source or target.awaits else source.jobs:
            if job.free and job.left is not None:
                cost_s = self._takes_s(job.name, source.name, target.name)
                if job.left / min(job.elsewhere, source.cores) > self._parameters.pays * cost_s:
                    yield job, cost_s

    def _first(self, found: Sequence[MoveChoice], *, is_safe: bool = False) -> Iterator[MoveChoice]:
        """The move of the largest gain that breaks no promise, with the next ones beside it."""
        ranked = sorted(found, key=lambda move: (-move.gain_s, move.job.name, move.target))
        for rank, move in enumerate(ranked):
            source, target = self._nodes[move.source], self._nodes[move.target]
            if not self._fits(move.job.name, target.name):
                continue
            if not is_safe and not self._keeps_promises(move.job, source, target):
                continue
            source.jobs.remove(move.job)
            target.jobs.append(msgspec.structs.replace(move.job, free=False))
            target.awaits = True
            self._nodes.put(source)
            self._nodes.put(target)
            yield msgspec.structs.replace(move, alternatives=ranked[rank + 1 : rank + 1 + ALTERNATIVES])
            return

    def _keeps_promises(self, job: JobOnNode, source: Residence, target: Residence) -> bool:
        here, there = self._late(source), self._late(target)
        after = self._late(target, None, job, self._takes_s(job.name, source.name, target.name))
        return after <= there + EQUAL or after < here + there - EQUAL

    def _late(
        self, node: Residence, gone: JobOnNode | None = None, comes: JobOnNode | None = None, s: float = 0
    ) -> float:
        """Core-seconds that a node is late, without the job ``gone`` or with ``comes``, whose move takes ``s`` seconds."""
        stays = [job for job in node.jobs if job is not gone]
        promises = [
            Promise(job.left + (s * job.elsewhere if job is comes else 0.0), job.elsewhere, job.due_s - self._now_s)
            for job in [*stays, *([] if comes is None else [comes])]
            if job.left is not None and job.due_s is not None
        ]
        unknown = sum(job.fair_rate or 0.0 for job in stays if job.unknown)
        return must_run(promises, max(node.cores - unknown, LEAST_ROOM), self._parameters.slot_ms / 1000).late
