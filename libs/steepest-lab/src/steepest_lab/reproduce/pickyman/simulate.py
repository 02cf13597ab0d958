"""The event loop of a preemption run.

It owns time, GPUs, the storage's bandwidth, and what a start and a suspension cost. It must never know a rule.

At each arrival, end, suspension or load, and every ``LOOK_EVERY_S`` while jobs wait, waiting jobs start in the rule's order
where there is room; then jobs give way to the first ones that have none. A job that gives way trains until its epoch ends,
and then leaves its GPUs to the one that it gave way to. A start takes time to launch, and then reads, at an equal part of
the bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from steepest_lab.reproduce.pickyman.jobs import LAUNCH_S, PreemptibleJob, PreemptionPhase
from steepest_lab.reproduce.pickyman.rules import (
    BY_PREDICTION,
    PreemptionRun,
    ending,
    first_served,
    gives_way,
    in_order,
)

LOOK_EVERY_S = 60.0
LOOKED_AT = 16
"""Waiting jobs without room that are looked at, as the live planner does."""

MIN_RUN_S = 60.0
MOST_SUSPENSIONS = 5
"""Limits that protect running jobs under every rule; the defaults of a pool."""

TINY = 1e-9


class OverheadSeen(msgspec.Struct, frozen=True):
    """A suspension or a resumption: its predicted and its measured duration, in seconds."""

    job: str
    kind: str
    predicted_s: float
    took_s: float


class PreemptionResult(msgspec.Struct, frozen=True):
    """The result of a run; times are seconds.

    Attributes:
        waits_s: Of each job, all of its waiting.
        completions_s: Of each job, from its submission to its end.
    """

    waits_s: Sequence[float]
    completions_s: Sequence[float]
    makespan_s: float
    suspensions: int
    overheads: Sequence[OverheadSeen]

    @property
    def mean_wait_s(self) -> float:
        """The mean over the jobs."""
        return math.fsum(self.waits_s) / len(self.waits_s)


def simulate_preemption(jobs: Sequence[PreemptibleJob], gpus: int, rule: str, *, gib_s: float) -> PreemptionResult:
    """Run jobs, sorted by submission, until all are done.

    Args:
        jobs: None asks for more GPUs than there are.
        gpus: Of the cluster.
        rule: Of :mod:`steepest_lab.reproduce.pickyman.rules`.
        gib_s: Bandwidth of the storage, in GiB a second.
    """
    return PreemptionLoop(jobs, gpus, rule, gib_s).run()


class PreemptionLoop:
    """A run under a rule; a subclass may serve by a rule of its own."""

    def __init__(self, jobs: Sequence[PreemptibleJob], gpus: int, rule: str, gib_s: float) -> None:
        self.jobs = {job.name: job for job in jobs}
        self.coming = list(reversed(jobs))
        self.free = gpus
        self.rule = rule
        self.view = PreemptionRun(0.0, {}, 0, gib_s, LAUNCH_S)
        self.waiting: dict[str, PreemptibleJob] = {}
        self.held: dict[str, PreemptibleJob] = {}
        self.overheads: list[OverheadSeen] = []
        self.looks_s = math.inf

    @property
    def now_s(self) -> float:
        """The time."""
        return self.view.now_s

    def run(self) -> PreemptionResult:
        """Until all jobs are done."""
        while self.coming or self.waiting or self.held:
            self._advance(self._next_s())
            self._arrive()
            self._change()
            self._serve()
        done = list(self.jobs.values())
        ends = [job.end_s or 0.0 for job in done]
        return PreemptionResult(
            waits_s=[job.waited_s for job in done],
            completions_s=[end - job.submit_s for end, job in zip(ends, done, strict=True)],
            makespan_s=max(ends) - min(job.submit_s for job in done),
            suspensions=sum(job.suspensions for job in done),
            overheads=self.overheads,
        )

    def _readers(self) -> list[PreemptibleJob]:
        return [
            job
            for job in self.held.values()
            if job.phase is PreemptionPhase.LOADING and job.launched_s <= self.now_s + TINY
        ]

    def _next_s(self) -> float:
        times = [self.coming[-1].submit_s] if self.coming else []
        readers = self._readers()
        for job in self.held.values():
            if job.phase is PreemptionPhase.LOADING:
                if job.launched_s > self.now_s + TINY:
                    times.append(job.launched_s)
                else:
                    times.append(self.now_s + job.left_gib * len(readers) / self.view.gib_s)
            else:
                times.append(min(job.since_s + job.work_s - job.done_s, job.stops_s))
        if self.waiting:
            times.append(self.looks_s)
        return max(min(times), self.now_s)

    def _advance(self, now_s: float) -> None:
        readers = self._readers()
        read = (now_s - self.now_s) * self.view.gib_s / max(len(readers), 1)
        for job in readers:
            job.left_gib = max(job.left_gib - read, 0.0)
        self.view.now_s = now_s

    def _arrive(self) -> None:
        while self.coming and self.coming[-1].submit_s <= self.now_s + TINY:
            self._wait(self.coming.pop())

    def _wait(self, job: PreemptibleJob) -> None:
        job.phase, job.since_s = PreemptionPhase.WAITING, self.now_s
        self.waiting[job.name] = job

    def _change(self) -> None:
        for job in list(self.held.values()):
            if job.phase is PreemptionPhase.LOADING:
                if job.launched_s <= self.now_s + TINY and job.left_gib <= TINY:
                    self._loaded(job)
            elif job.since_s + job.work_s - job.done_s <= self.now_s + TINY:
                self._done(job)
            elif job.stops_s <= self.now_s + TINY:
                self._suspended(job)

    def _loaded(self, job: PreemptibleJob) -> None:
        took = self.now_s - job.since_s
        job.attained_s += took
        if job.starts > 1:
            self.overheads.append(OverheadSeen(job.name, "resumption", job.predicted_s, took))
        job.phase, job.since_s = PreemptionPhase.TRAINING, self.now_s

    def _done(self, job: PreemptibleJob) -> None:
        self.view.profiled[job.model] = self.view.profiled.get(job.model, 0) + 1
        job.done_s, job.end_s = job.work_s, self.now_s
        self._leave(job)
        job.phase = PreemptionPhase.DONE

    def _suspended(self, job: PreemptibleJob) -> None:
        job.done_s = job.trained_s(self.now_s)
        self.overheads.append(OverheadSeen(job.name, "suspension", job.predicted_s, self.now_s - job.asked_s))
        job.suspensions += 1
        self._leave(job)
        self._wait(job)

    def _leave(self, job: PreemptibleJob) -> None:
        job.attained_s += self.now_s - job.since_s
        job.stops_s = math.inf
        del self.held[job.name]
        if not job.room_for:
            self.free += job.gpus
            return
        to, job.room_for = self.jobs[job.room_for], ""
        to.reserved += job.gpus
        to.room_from.remove(job.name)
        if not to.room_from:
            self.free += to.reserved
            to.reserved = 0
            self._start(to)

    def _start(self, job: PreemptibleJob) -> None:
        self.free -= job.gpus
        job.waited_s += self.now_s - job.since_s
        del self.waiting[job.name]
        self.view.readers = sum(1 for one in self.held.values() if one.phase is PreemptionPhase.LOADING)
        job.predicted_s = self.view.start_s(job, self.view.readers)
        job.phase, job.since_s, job.launched_s = PreemptionPhase.LOADING, self.now_s, self.now_s + LAUNCH_S
        job.left_gib = job.load_gib
        job.starts += 1
        self.held[job.name] = job

    def _serve(self) -> None:
        order = sorted(
            (job for job in self.waiting.values() if not job.room_from),
            key=lambda job: first_served(self.rule, job, self.view),
        )
        rest = []
        for job in order:
            if job.gpus <= self.free:
                self._start(job)
            else:
                rest.append(job)
        if rest:
            self._make_rooms(rest[:LOOKED_AT])
        self.looks_s = self.now_s + LOOK_EVERY_S

    def _make_rooms(self, waiting: Sequence[PreemptibleJob]) -> None:
        self.view.readers = sum(1 for one in self.held.values() if one.phase is PreemptionPhase.LOADING)
        running = [
            one
            for one in self.held.values()
            if one.phase is PreemptionPhase.TRAINING
            and self.now_s - one.since_s >= MIN_RUN_S
            and one.suspensions < MOST_SUSPENSIONS
        ]
        running = in_order(self.rule, running, self.view)
        self._look_at_ends()
        hopeless: set[int] = set()
        for job in waiting:
            if job.gpus in hopeless:
                continue
            victims = gives_way(self.rule, job, running, self.free, self.view)
            if victims:
                self._make_room(job, victims)
                running = [one for one in running if one.phase is PreemptionPhase.TRAINING]
                self._look_at_ends()
            elif self.rule in BY_PREDICTION:
                hopeless.add(job.gpus)  # those behind it that ask for the same are longer

    def _look_at_ends(self) -> None:
        if self.rule == "pickyman":
            stays = (one for one in self.held.values() if one.phase is not PreemptionPhase.STOPPING)
            self.view.ending = ending(stays, self.view)

    def _make_room(self, job: PreemptibleJob, victims: Sequence[PreemptibleJob]) -> None:
        given = min(self.free, max(job.gpus - sum(one.gpus for one in victims), 0))
        self.free -= given
        job.reserved = given
        for one in victims:
            one.phase, one.room_for = PreemptionPhase.STOPPING, job.name
            one.asked_s, one.predicted_s = self.now_s, self.view.stop_s(one)
            one.stops_s = self.now_s + one.epoch_left_s(self.now_s)
            job.room_from.append(one.name)
