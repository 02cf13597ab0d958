"""What the steepest-planner does over a pool: limits, moves, and nothing where nothing is known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import FoldedPool

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, SteepestParameters
from steepest.events.received import Received
from steepest.invariants import Status, check
from steepest.max_min import max_min
from steepest.policies.named import POLICIES, named, under
from steepest.policies.steepest.gangs.unmanaged_replicas import UnmanagedReplicas
from steepest.policies.steepest.managed_job import ManagedJob, measure_node
from steepest.policies.steepest.node_plan import JobOnNode, plan_node
from steepest.policies.steepest.planner_fold import REFUSED_S, fold
from steepest.policies.steepest.planner_state import SteepestPlannerState
from steepest.view.cluster_view import ClusterView
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import Workload
from steepest_lab.sim.workloads.read import open_workload


def simulated(policy: str, workload: Workload) -> tuple[list[float | None], list[Received[Any]]]:
    """The ends of the jobs on two nodes, and the log."""
    log: list[Received[Any]] = []
    parameters = under(policy, PoolParameters())
    result = simulate_system(workload, open_cluster("2x8cpu"), policy, parameters, 0, watch=log.append)
    return [job.end_s for job in result.jobs], log


@pytest.fixture(scope="module")
def workload() -> Workload:
    """Twelve jobs."""
    found = open_workload("thesis:mixed-20", seed=0)
    return msgspec.structs.replace(found, jobs=found.jobs[:12])


def about(job: str) -> ClusterView:
    """The view of a pool where the newest record is about this job."""
    pool = FoldedPool(n=8_000)
    pool.run(job, "n")
    return pool.view


def of(kind: type, log: list[Received[Any]]) -> list[Any]:
    """The events of a type."""
    return [received.event for received in log if isinstance(received.event, kind)]


def test_a_pool_in_which_no_total_is_known_runs_as_under_fair_sharing(workload: Workload) -> None:
    """No limits, no moves, the same ends."""
    unknown = msgspec.structs.replace(
        workload, jobs=[msgspec.structs.replace(job, announced=0.0) for job in workload.jobs]
    )
    ends, log = simulated("steepest", unknown)
    assert ends == simulated("spread", unknown)[0]
    assert not of(c.LimitsPlanned, log)
    assert not of(c.MigrationPlanned, log)


def test_a_log_under_the_policy_breaks_no_invariant(workload: Workload) -> None:
    """Limits and moves are planned, are valid, and say how each job stands against its fair end."""
    ends, log = simulated("steepest", workload)
    assert None not in ends
    limits = of(c.LimitsPlanned, log)
    assert any(limit.cpu_m for plan in limits for limit in plan.limits)
    assert all(limit.growth_list is None for plan in limits for limit in plan.limits)
    seen = [standing for plan in limits for standing in plan.because.standing]
    assert any(one.due_ms is not None and one.fair_end_ms is not None and one.due_ms >= one.fair_end_ms for one in seen)
    assert {plan.kind for plan in of(c.MigrationPlanned, log)} <= {c.MoveKind.STEEPEST}
    assert [verdict for verdict in check(log) if verdict.status is Status.BROKEN] == []


def test_the_names_of_policies_stand_for_their_parameters() -> None:
    """Each name gives parameters that have that name."""
    assert [named(under(name, PoolParameters())) for name in POLICIES] == list(POLICIES)


def test_time_never_falls_and_no_clock_moves_it_by_more_than_a_tick() -> None:
    """Record times jump back and forth; counted time goes on."""
    state = SteepestPlannerState(tick_ms=1_000)
    assert state.time_s(5_000, 1_400, 1_000) == pytest.approx(5.4)
    assert state.time_s(5_000, 90_000_000, 1_000) == pytest.approx(6.0)
    assert state.time_s(5_000, 3, 1_000) == pytest.approx(6.0)
    assert state.time_s(7_000, 3, 1_000) == pytest.approx(7.0)


def running(model: str = "mlp", **fields: Any) -> ManagedJob:
    """A job that has trained for a minute."""
    return ManagedJob("n", model, 1, 0.0, 0.0, 55.0, **fields)


def test_demand_shows_where_nothing_holds_a_job_back() -> None:
    """On a full node it hides; where CPU is idle, that of a job without a limit shows."""
    jobs = {"a": running(), "b": running()}
    assert measure_node(jobs, {"a": 4000, "b": 4000}, 8000, 60.0)[0] == []
    jobs["b"].limit(1000)
    assert measure_node(jobs, {"a": 4000, "b": 1000}, 8000, 65.0)[0] == ["a"]
    assert (jobs["a"].demand, jobs["b"].demand) == (4.0, None)


def test_a_job_whose_demand_has_not_shown_can_use_what_others_of_its_model_can() -> None:
    """Else it is halfway from the mean of all to the whole node; at least what it was seen to use, at most its node."""
    state = SteepestPlannerState()
    assert state.demand(running(), 8.0) == 8.0
    for model, cpu in (("mlp", 2.0), ("mlp", 3.0), ("mlp", 2.5), ("rnn", 6.5)):
        state.learn_demand(running(model=model, cpu=cpu))
    assert state.demand(running(), 8.0) == 2.5
    assert state.demand(running(most=4.0), 8.0) == 4.0
    assert state.demand(running(), 2.0) == 2.0
    assert (
        state.demand(running(model="gru"), 8.0) == state.demand(running(model=""), 8.0) == pytest.approx((3.5 + 8) / 2)
    )
    assert state.demand(running(demand=1.0), 8.0) == 1.0


def test_jobs_that_want_more_than_there_is_show_no_demand() -> None:
    """Throttled, they use a little less than the node has, as measured over a second."""
    jobs = {"a": running(), "b": running()}
    for now_s in (60.0, 65.0, 70.0):
        assert measure_node(jobs, {"a": 3500, "b": 3500}, 8000, now_s)[0] == []


def test_a_use_is_no_demand_of_a_job_that_gets_less_than_before() -> None:
    """Others on the machine take what is idle; what the jobs use is what the node gives."""
    jobs = {"a": running(most=4.0), "b": running()}
    first, second = (measure_node(jobs, {"a": 2000, "b": 1000}, 8000, now_s) for now_s in (60.0, 65.0))
    assert first == ([], False)
    assert second == ([], True)


@pytest.mark.parametrize("gives", [8.0, 5.6])
def test_a_job_that_sleeps_leaves_its_cpu_to_the_others(gives: float) -> None:
    """It waits for data, also on a host that gives less than it declares; awake, it has its part again."""
    state, jobs = SteepestPlannerState(), {name: running() for name in ("sleeper", "a", "b")}
    caps: dict[str, float] = dict.fromkeys(jobs, 8.0)
    used = dict[str, float]()
    for look in range(60):
        state.now_s = now_s = 60.0 + 5 * look
        wants = [0.01 if name == "sleeper" and 10 <= look < 40 else cap for name, cap in caps.items()]
        used = dict(zip(jobs, max_min(gives, wants), strict=True))
        _, short = measure_node(jobs, {name: round(1000 * cpu) for name, cpu in used.items()}, 8000, now_s)
        cores = state.deliver("n", 8.0, sum(used.values()), short=short, limited=min(caps.values()) < 8.0)
        planned = [
            JobOnNode(
                name=name, demand=state.demand(one, cores), left=2_000.0, due_s=now_s + 900 + rank, index=1 / rank
            )
            for rank, (name, one) in enumerate(jobs.items(), 1)
        ]
        plan_node(cores, planned, SteepestParameters(), now_s)
        for one in planned:
            jobs[one.name].limit(one.limit_m)
            caps[one.name] = 8.0 if one.limit_m is None else one.limit_m / 1000
        if look in {9, 39, 59}:
            assert sum(used.values()) > 0.95 * gives
            assert (used["sleeper"] > 1) == (look != 39)


def test_a_suspended_job_works_on_nothing() -> None:
    """What it was measured to use is not taken for its use while it waits."""
    state = SteepestPlannerState(tick_ms=1_000)
    state.running["a"] = job = running(cpu=2.0)
    used = job.used_by(60.0)
    fold(state, about("a"), c.JobSuspended(plan="p", job="a", step=10), 60.0)
    assert used == 10.0
    assert job.used_by(600.0) == used


def test_a_refused_limit_is_not_planned_again_soon() -> None:
    """What was in force before stays so: for a job of one replica, and for each replica of a gang."""
    state = SteepestPlannerState(tick_ms=1_000)
    state.running["a"] = job = running(limit_m=500)
    gang = UnmanagedReplicas(1, 2, Resources(), trains=True, use=running(limit_m=500))
    state.unmanaged["gang"] = {"n": gang}
    for name in ("a", "gang"):
        of_it: dict[str, Any] = {"plan": "p", "node": "n", "job": name, "incarnation": 1}
        fold(state, about(name), c.LimitsApplied(**of_it, cpu_m=800), 59.0)
        fold(state, about(name), c.LimitsRefused(**of_it, code="EINVAL", definite=True, message="too low"), 60.0)
    assert (job.limit_m, gang.use.limit_m) == (800, 800)
    assert job.unlimited_until_s == gang.use.unlimited_until_s == 60.0 + REFUSED_S


def test_the_size_of_a_job_that_is_moved_stays_known() -> None:
    """Its new incarnation says nothing until its first steps. Were its size unknown, the fair ends of others would move."""
    _, log = simulated("steepest", open_workload("thesis:mixed-30", seed=100))
    known, moving, seen = dict[str, None](), dict[str, None](), 0
    for event in (received.event for received in log):
        match event:
            case c.MigrationPlanned() if event.job in known:
                moving[event.job] = None
            case c.MigrationFinished():
                moving.pop(event.job, None)
            case c.LimitsPlanned():
                for standing in event.because.standing:
                    known |= {standing.job: None} if standing.left_ms is not None else {}
                    if standing.job in moving:
                        assert standing.left_ms is not None
                        seen += 1
    assert seen
