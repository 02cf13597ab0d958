"""From a policy's order to shares on nodes: which jobs fit, keep their place, or move.

It goes through an order. It must never know what a start costs.

Each class returns the jobs that run, in the policy's order, and those of them that have a new share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, cast

from steepest_lab.baselines.policy import ServiceOrder
from steepest_lab.sim.allocation.job import Place, RunningJob
from steepest_lab.sim.allocation.nodes import FreeUnits

Runs = list[RunningJob]


class Shares(Protocol):
    """A way to assign shares in a policy's order."""

    def serve(self, order: ServiceOrder, running: Runs, turn: int) -> tuple[Runs, Runs]:
        """The jobs that run now, and those with a new share; other jobs in ``running`` are preempted."""
        ...

    def ever_fits(self, job: RunningJob) -> bool:
        """Whether a job fits an empty cluster."""
        ...

    def release(self, job: RunningJob) -> None:
        """Free the share of a job that has ended."""
        ...


class CountedShares:
    """Units are only counted, not placed on nodes."""

    def __init__(self, nodes: FreeUnits) -> None:
        self.total = nodes.total

    def ever_fits(self, job: RunningJob) -> bool:
        """Whether the cluster has enough units."""
        return job.asked <= self.total

    def release(self, job: RunningJob) -> None:
        """Do nothing: each decision counts all jobs again."""

    def serve(self, order: ServiceOrder, running: Runs, turn: int) -> tuple[Runs, Runs]:
        """Grant units until none is left."""
        free, runs, fresh = self.total, [], []
        for job, units in wanted(order):
            if units <= free:
                free -= units
                job.turn = turn
                runs.append(job)
                if job.units != units:
                    fresh.append(job)
                    job.units = units
                if not free:
                    break
            elif order.stops:
                break
        _preempt(running, turn)
        return runs, fresh


class RepackedShares:
    """Each decision empties all nodes and places every job again, in the policy's order."""

    def __init__(self, nodes: FreeUnits) -> None:
        self.nodes = nodes

    def ever_fits(self, job: RunningJob) -> bool:
        """Whether the rule finds a place on empty nodes."""
        self.nodes.empty()
        return self.nodes.yarn(job.asked) is not None

    def release(self, job: RunningJob) -> None:
        """Do nothing: each decision counts all jobs again."""

    def serve(self, order: ServiceOrder, running: Runs, turn: int) -> tuple[Runs, Runs]:
        """Place one job after the other; a job that changes its node is not charged for it."""
        self.nodes.empty()
        runs, fresh = [], []
        for job, units in wanted(order):
            place = self.nodes.yarn(units)
            if place is None:
                if order.stops:
                    break
                continue
            self.nodes.take(place)
            if job.units != units:
                fresh.append(job)
            job.turn, job.units, job.place = turn, units, place
            runs.append(job)
        _preempt(running, turn)
        return runs, fresh


class StickyShares:
    """Jobs that keep running keep their place. A share may be split into single units, so it can always be placed."""

    def __init__(self, nodes: FreeUnits, rule: Callable[[int], Place | None]) -> None:
        self.nodes = nodes
        self.rule = rule

    def ever_fits(self, job: RunningJob) -> bool:
        """Whether the cluster has enough units."""
        return job.asked <= self.nodes.total

    def release(self, job: RunningJob) -> None:
        """Free its place."""
        self.nodes.give_back(job.place)

    def serve(self, order: ServiceOrder, running: Runs, turn: int) -> tuple[Runs, Runs]:
        """Count the jobs that run, free the shares of the others, then place the new shares."""
        runs = granted(order, self.nodes.total, turn)
        fresh = [(job, units) for job, units in runs if job.units != units]
        for job in running:
            if job.turn != turn:
                self.nodes.give_back(job.place)
        _preempt(running, turn)
        for job, _ in fresh:
            if job.units:
                self.nodes.give_back(job.place)
                job.migrations += 1
        for job, units in fresh:
            place = self.rule(units)
            assert place is not None, "units that were counted can be placed"  # noqa: S101
            self.nodes.take(place)
            job.place, job.units = place, units
        return [job for job, _ in runs], [job for job, _ in fresh]


class EqualPieces:
    """Shares in equal pieces, each on one node, for the replicas of a job that requests CPU.

    No piece may fit the free units of any node. A job then takes the place of jobs later in the order, last first;
    these find their old place again if it is still free when it is their turn.
    """

    def __init__(self, nodes: FreeUnits) -> None:
        self.nodes = nodes

    def ever_fits(self, job: RunningJob) -> bool:
        """Whether empty nodes take all pieces."""
        piece = job.asked // job.pieces
        return sum(capacity // piece for capacity in self.nodes.capacity) >= job.pieces

    def release(self, job: RunningJob) -> None:
        """Free its place."""
        self.nodes.give_back(job.place)

    def serve(self, order: ServiceOrder, running: Runs, turn: int) -> tuple[Runs, Runs]:
        """Place one job after the other; jobs that keep running hold their places from the beginning."""
        wishes = list(wanted(order))
        keeps = {job.number: job.place for job, units in wishes if job.units == units}
        for job in running:
            if job.number not in keeps:
                self.nodes.give_back(job.place)
        behind = [job for job, _ in wishes if job.number in keeps]
        runs, fresh = [], []
        for job, units in wishes:
            place = self._place(job, units, keeps, behind)
            if place is None:
                if order.stops:
                    break
                continue
            if place != job.place:
                fresh.append(job)
                job.migrations += bool(job.units)
            job.turn, job.place, job.units = turn, place, units
            runs.append(job)
        for job in behind:
            if job.turn != turn and job.number in keeps:
                self.nodes.give_back(job.place)
        _preempt(running, turn)
        return runs, fresh

    def _place(self, job: RunningJob, units: int, keeps: dict[int, Place], behind: Runs) -> Place | None:
        """Take a place for the job and return it; None if there is none."""
        kept = keeps.pop(job.number, None)
        if kept is not None:
            behind.remove(job)
            return kept
        if job.units == units and self.nodes.fits(job.place):
            self.nodes.take(job.place)
            return job.place
        while True:
            place = self.nodes.consolidated(units, units // job.pieces)
            if place is not None:
                self.nodes.take(place)
                return place
            if not behind:
                return None
            loser = behind.pop()
            del keeps[loser.number]
            self.nodes.give_back(loser.place)


def wanted(order: ServiceOrder) -> Iterable[tuple[RunningJob, int]]:
    """Jobs and the units that each should get."""
    jobs = cast("Sequence[RunningJob]", order.jobs)
    if order.units is None:
        return zip(jobs, [job.asked for job in jobs], strict=True)
    return zip(jobs, order.units, strict=True)


def granted(order: ServiceOrder, free: int, turn: int) -> list[tuple[RunningJob, int]]:
    """The jobs of an order for which units suffice, marked with the decision's number."""
    runs = []
    for job, units in wanted(order):
        if units <= free:
            free -= units
            job.turn = turn
            runs.append((job, units))
        elif order.stops:
            break
    return runs


def _preempt(running: Runs, turn: int) -> None:
    for job in running:
        if job.turn != turn:
            job.units = 0
            job.place = ()
            job.preemptions += 1
