"""Gangs under the policy ``steepest``: they share nodes with jobs of one replica, and all end sooner, few later."""

from __future__ import annotations

import statistics
from typing import Any

import msgspec
import pytest

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.invariants import Status, check
from steepest.policies.named import under
from steepest.policies.steepest.gangs.gang_part import limit_of
from steepest.policies.steepest.gangs.unmanaged_replicas import UnmanagedReplicas
from steepest.policies.steepest.managed_job import ManagedJob
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.policies.steepest.steepest_planner import SteepestPlanner
from steepest.view.cluster_view import ClusterView
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import Workload
from steepest_lab.sim.workloads.read import open_workload

EVERY = 4
"""One job in so many is a gang of two."""

LATE_BY = 0.05
LATE = 0.05
"""Share of the jobs that may be later than that, by twice as much."""


@pytest.fixture(scope="module")
def workload() -> Workload:
    """Twenty jobs for two nodes; each of a gang's two replicas has as much to do as its job of one had."""
    found = open_workload("thesis:mixed-20", seed=0)
    jobs = [
        msgspec.structs.replace(job, replicas=2 if number % EVERY == EVERY - 1 else 1)
        for number, job in enumerate(found.jobs)
    ]
    return msgspec.structs.replace(found, jobs=jobs)


def completions(policy: str, workload: Workload) -> tuple[dict[str, float], list[Received[Any]]]:
    """The completion time of each job, and the log."""
    log: list[Received[Any]] = []
    parameters = under(policy, PoolParameters())
    result = simulate_system(workload, open_cluster("2x8cpu"), policy, parameters, 0, watch=log.append)
    return {job.name: job.jct_s for job in result.jobs}, log


def test_gangs_and_others_end_sooner_and_hardly_any_late(workload: Workload) -> None:
    """Beside gangs that nothing limits, the others would get less than under fair sharing."""
    fair, _ = completions("spread", workload)
    ours, log = completions("steepest", workload)
    for replicas in (1, 2):
        of_size = [job.name for job in workload.jobs if job.replicas == replicas]
        assert statistics.fmean(ours[name] for name in of_size) < statistics.fmean(fair[name] for name in of_size)
    later = [ours[name] / fair[name] - 1 for name in fair]
    assert sum(by > LATE_BY for by in later) <= LATE * len(later)
    assert max(later) < 2 * LATE_BY
    assert [verdict for verdict in check(log) if verdict.status is Status.BROKEN] == []


def test_a_gangs_standing_is_explained(workload: Workload) -> None:
    """Plans say its fair end, its due time and its index, as of other jobs."""
    gangs = {job.name for job in workload.jobs if job.replicas > 1}
    _, log = completions("steepest", workload)
    plans = [received.event for received in log if isinstance(received.event, c.LimitsPlanned)]
    seen = {one.job for plan in plans for one in plan.because.standing if one.due_ms is not None and one.index}
    limited = {limit.job for plan in plans for limit in plan.limits if limit.cpu_m is not None}
    assert seen >= gangs
    assert limited & gangs


def replicas_on(node: str, count: int, limit_m: int | None, *, trains: bool = True) -> UnmanagedReplicas:
    """Replicas that the plan of their node would limit."""
    use = ManagedJob(node, "", 1, 0.0, 0.0, 0.0)
    return UnmanagedReplicas(1, count, Resources(), trains, use, limit_m)


def test_the_lowest_limit_holds_for_all_replicas_of_a_gang() -> None:
    """They wait for the slowest of them; nodes on which none trains say nothing."""
    state = SteepestPlannerState()
    state.unmanaged["gang"] = {
        "n1": replicas_on("n1", 2, 900),
        "n2": replicas_on("n2", 1, 400),
        "n3": replicas_on("n3", 1, None),
        "n4": replicas_on("n4", 1, 100, trains=False),
    }
    assert limit_of(state, "gang") == 400
    state.unmanaged["gang"] = {"n3": replicas_on("n3", 1, None)}
    assert limit_of(state, "gang") is None


def replayed(log: list[Received[Any]]) -> SteepestPlanner:
    """A planner that has seen a log."""
    view, planner = ClusterView(), SteepestPlanner()
    for received in log:
        view.fold(received)
        planner.step(view, received)
    return planner


def test_gangs_teach_what_other_jobs_of_their_model_are_taken_for(workload: Workload) -> None:
    """When they had learned most, as jobs of one replica do."""
    of_two = [msgspec.structs.replace(job, replicas=2) for job in workload.jobs[:6]]
    _, log = completions("steepest", msgspec.structs.replace(workload, jobs=of_two))
    learned = replayed(log).state.learned
    assert {job.model for job in of_two} <= set(learned.models)


def test_fair_ends_beside_gangs_are_those_of_a_run_under_fair_sharing(workload: Workload) -> None:
    """Of the gangs too, from the same first nodes: half of them are off by less than what jobs may be later."""
    cluster, parameters = open_cluster("2x8cpu"), under("steepest", PoolParameters())
    fair = simulate_system(workload, cluster, "spread", under("spread", PoolParameters()), 0)
    log: list[Received[Any]] = []
    first_nodes = {job.name: job.first_node for job in fair.jobs}
    simulate_system(workload, cluster, "steepest", parameters, 0, first_nodes=first_nodes, watch=log.append)
    started_ms = log[0].at_ms
    ends_s = {
        one.job: (one.fair_end_ms - started_ms) / 1000
        for received in log
        if isinstance(received.event, c.LimitsPlanned)
        for one in received.event.because.standing
        if one.fair_end_ms is not None
    }
    wrong = {job.name: abs(ends_s[job.name] - job.submit_s - job.jct_s) / job.jct_s for job in fair.jobs}
    assert statistics.median(wrong.values()) < parameters.steepest.lateness
    assert len([name for name, share in wrong.items() if share > LATE_BY]) <= 3
