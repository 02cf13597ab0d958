"""ProCon: an arrival goes to the node whose jobs have least left to do, reckoned by their progress (Big Data 2019).

Read from its authors' code (fishercht1995/progress-based-k8s-scheduler, ``assistant/app.py`` for Algorithm 1 and
``customer_scheduler/scheduler.py`` for Algorithm 2), since of the paper only the abstract can be reached.

Algorithm 1, of a node with n jobs: U = the job's CPU / all CPU used there, P = (time of an iteration / U) · iterations left;
a job that has not reported yet has P = age · n · all its iterations. EJR[t] is the number of jobs with P > t, and
C = 1 + Σ EJR[t] over whole seconds t. A node that uses more than α of its CPU is out of its limit.
Algorithm 2: the node with the least C·n of those within their limits; if there is none, the least of all with U = 1/n.

As the authors' code has it: the CPU used is that of the jobs that have reported, times n over their number, and at most the
node's; a job that uses no CPU is left out of the sum; an iteration's time is measured while others run as well, so that
contention counts twice. α is 1 in their manifests, and then no node is ever out of its limit.

Reconstructed: equal nodes go by their names, where the code leaves it to a dictionary; a node without room for the arrival
is left out, where the code binds it regardless of room.

It owns the rule. Where the progress comes from is its asker's business: a pool's log does not hold it, so that only a
simulation can ask (:mod:`steepest_lab.sim.system.progress`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class IterationProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job on a node.

    Attributes:
        cpu_m: CPU that it uses, in millicores.
        iteration_s: Seconds of one of its iterations as it runs now; None: it has not reported yet.
        left: Iterations still to do.
        iterations: Of the whole run.
        age_s: Seconds since it was started.
    """

    cpu_m: float = 0.0
    iteration_s: float | None = None
    left: float = 0.0
    iterations: float = 0.0
    age_s: float = 0.0


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """A node and its jobs.

    Attributes:
        capacity_m: CPU in millicores.
        jobs: How many are there or on their way, those in ``known`` among them.
        known: What is known of them.
    """

    name: str
    capacity_m: int
    jobs: int
    known: Sequence[IterationProgress]


def procon(crowds: Sequence[Crowd], alpha: float = 1.0) -> Crowd | None:
    """The node for an arrival (Algorithm 2); None where there is no node. Work: O(nodes + jobs)."""
    within = [crowd for crowd in crowds if not _is_out_of_limit(crowd, alpha)]
    if within:
        return min(within, key=lambda crowd: (work(crowd) * crowd.jobs, crowd.name))
    return min(crowds, key=lambda crowd: (work(crowd, equal=True) * crowd.jobs, crowd.name), default=None)


def work(crowd: Crowd, *, equal: bool = False) -> int:
    """C of a node (Algorithm 1), in seconds; with ``equal``, as if all its jobs used as much.

    As P > t for ⌈P⌉ whole seconds t from 0 on, C = 1 + Σ ⌈P⌉.
    """
    used_m = _used_m(crowd)
    return 1 + sum(math.ceil(_left_s(job, crowd.jobs, used_m, equal=equal)) for job in crowd.known)


def _left_s(job: IterationProgress, jobs: int, used_m: float, *, equal: bool) -> float:
    """P of a job."""
    if job.iteration_s is None:
        return job.age_s * jobs * job.iterations
    if equal:
        return job.iteration_s * jobs * job.left
    return job.iteration_s * used_m / job.cpu_m * job.left if job.cpu_m else 0.0


def _used_m(crowd: Crowd) -> float:
    """CPU that all jobs use, estimated from those that have reported."""
    reported = [job for job in crowd.known if job.iteration_s is not None]
    if not reported:
        return 0.0
    used_m = sum(job.cpu_m for job in reported if job.left > 0)
    return min(used_m * crowd.jobs / len(reported), float(crowd.capacity_m))


def _is_out_of_limit(crowd: Crowd, alpha: float) -> bool:
    return _used_m(crowd) > alpha * crowd.capacity_m
