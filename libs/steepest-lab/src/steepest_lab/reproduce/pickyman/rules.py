"""Who is served first, and who gives way: PickyMan and its baselines, on the same jobs at the same costs.

PickyMan's choice is the live planner's (:mod:`steepest.policies.pickyman.division`). The baselines: ``fifo``; ``sjf`` and
``srtf`` by the same predictions, ``srtf`` without regard to what a preemption costs; ``tiresias`` by levels of attained GPU
time (NSDI 2019, §3.2); ``round-robin`` by time slices (Gandiva, OSDI 2018, §3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

import msgspec

from steepest.events.common import Resources
from steepest.policies.pickyman.division import EndingJob, Victim, Wanted, best_block, room_in_ms
from steepest.policies.pickyman.preemption_planner import CANDIDATES
from steepest.policies.queueing.ranks import service_level
from steepest.policies.queueing.wish import Wish
from steepest_lab.reproduce.pickyman.jobs import SEEN_ERROR, PreemptibleJob

CLUSTER = "cluster"
"""GPUs are counted, and not placed: the cluster is one node to the planner."""

LEVELS_GPU_S = (3_250.0, 7_200.0)
"""Ends of the first Tiresias levels, as in the simulator published with the paper."""

BY_PREDICTION = frozenset({"pickyman", "srtf"})
"""The rules whose queue is in the order of remaining times, and in which only longer jobs give way."""

SLICE_S = 600.0
"""Gandiva's slices are a minute, where a suspension takes 100 ms; here it waits for the end of an epoch."""


class PreemptionRun(msgspec.Struct):
    """The inputs of a rule: the time, predictions, and the cost of starting another job.

    Attributes:
        profiled: How many jobs of each model have trained.
        readers: Jobs that read from the storage now.
        ending: All that run and do not give way, the one first that ends first.
        known: Predictions at the time ``known_s``.
    """

    now_s: float
    profiled: dict[str, int]
    readers: int
    gib_s: float
    launch_s: float
    ending: Sequence[EndingJob] = ()
    known: dict[str, float] = {}
    known_s: float = -1.0

    def left_s(self, job: PreemptibleJob) -> float:
        """Predicted time that a job still trains."""
        if self.known_s != self.now_s:
            self.known, self.known_s = {}, self.now_s
        left = self.known.get(job.name)
        if left is None:
            left = self.known[job.name] = job.predicted_left_s(self.now_s, self.profiled.get(job.model, 0))
        return left

    def stop_s(self, job: PreemptibleJob) -> float:
        """Predicted time until a job's epoch ends."""
        return max(job.epoch_left_s(self.now_s) + SEEN_ERROR * job.luck * job.epoch_s, 0.0)

    def start_s(self, job: PreemptibleJob, beside: int) -> float:
        """Predicted time of a start while others read."""
        return self.launch_s + job.load_gib * (beside + 1) / self.gib_s


def ending(held: Iterable[PreemptibleJob], run: PreemptionRun) -> Sequence[EndingJob]:
    """The jobs as those that leave their GPUs when they have trained, the one first that ends first."""
    known = [
        EndingJob(remaining_ms=1000 * left_s, leaves={CLUSTER: Resources(gpus=job.gpus)})
        for job in held
        if (left_s := run.left_s(job)) > 0
    ]
    return sorted(known, key=lambda one: one.remaining_ms)


def first_served(rule: str, job: PreemptibleJob, run: PreemptionRun) -> tuple[float, float, str]:
    """A waiting job's place in the queue: the least first."""
    key = 0.0
    if rule in {"pickyman", "srtf"}:
        key = run.left_s(job)
    elif rule == "sjf":
        key = run.left_s(job) + job.done_s
    elif rule == "tiresias":
        key = float(service_level(job.attained_s * job.gpus, LEVELS_GPU_S))
    elif rule == "round-robin":
        key = job.since_s
    return (key, job.submit_s, job.name)


def in_order(rule: str, running: Sequence[PreemptibleJob], run: PreemptionRun) -> list[PreemptibleJob]:
    """The running jobs in the order in which a rule looks at them, which is the same for every waiting job."""
    if rule in BY_PREDICTION:
        return sorted(running, key=lambda one: (-run.left_s(one), one.name))
    if rule == "tiresias":
        return sorted(running, key=lambda one: (-_attained(one, run.now_s) * one.gpus, one.name))
    if rule == "round-robin":
        return sorted(running, key=lambda one: (one.since_s, one.name))
    return []


def gives_way(
    rule: str, wanted: PreemptibleJob, running: Sequence[PreemptibleJob], free: int, run: PreemptionRun
) -> Sequence[PreemptibleJob]:
    """The running jobs that give way to a waiting one; none where no room can be made, or it is not worth it.

    ``running`` is in the rule's order (:func:`in_order`).
    """
    if rule in BY_PREDICTION:
        left = run.left_s(wanted)
        longer = list(takewhile(lambda one: run.left_s(one) > left, running))
        return _block(wanted, longer, free, run) if rule == "pickyman" else _enough(wanted, longer, free)
    if rule == "tiresias":
        level = service_level(wanted.attained_s * wanted.gpus, LEVELS_GPU_S)
        return _enough(wanted, [one for one in running if _level(one, run.now_s) > level], free)
    return _enough(wanted, [one for one in running if run.now_s - one.since_s >= SLICE_S], free)


def _attained(job: PreemptibleJob, now_s: float) -> float:
    return job.attained_s + now_s - job.since_s


def _level(job: PreemptibleJob, now_s: float) -> int:
    return service_level(_attained(job, now_s) * job.gpus, LEVELS_GPU_S)


def _enough(wanted: PreemptibleJob, order: Sequence[PreemptibleJob], free: int) -> Sequence[PreemptibleJob]:
    taken: list[PreemptibleJob] = []
    for one in order:
        if free >= wanted.gpus:
            break
        taken.append(one)
        free += one.gpus
    if free < wanted.gpus:
        return ()
    for one in sorted(taken, key=lambda one: (one.gpus, one.name)):
        if free - one.gpus >= wanted.gpus:
            taken.remove(one)
            free -= one.gpus
    return taken


def _block(
    wanted: PreemptibleJob, longer: Sequence[PreemptibleJob], free: int, run: PreemptionRun
) -> Sequence[PreemptibleJob]:
    looked_at = longer[:CANDIDATES]
    if free + sum(one.gpus for one in looked_at) < wanted.gpus:
        return ()
    victims = [
        Victim(
            name=one.name,
            remaining_ms=1000 * run.left_s(one),
            suspension_ms=1000 * run.stop_s(one),
            resumption_ms=1000 * run.start_s(one, run.readers),
            leaves={CLUSTER: Resources(gpus=one.gpus)},
        )
        for one in looked_at
    ]
    room = {CLUSTER: Resources(gpus=free)}
    asked = Wanted(wanted.name, 1000 * run.left_s(wanted), Wish(Resources(gpus=wanted.gpus), None, ("queue default",)))
    asked = msgspec.structs.replace(asked, room_in_ms=room_in_ms(asked, room, run.ending))
    block = best_block(asked, room, {CLUSTER: victims})
    if block is None:
        return ()
    by_name = {one.name: one for one in looked_at}
    return [by_name[one.name] for one in block.victims]
