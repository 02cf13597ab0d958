"""Jobs with devices under the policy ``steepest``, from their submission to their ends, in simulated pools."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import FoldedPool, joined, placement, submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import LabelOperator, LabelRequirement, NodeRule, Resources
from steepest.events.parameters import (
    PoolParameters,
    PreemptionLimits,
    QueueLimits,
    QueueParameters,
    SpeConParameters,
    SteepestParameters,
)
from steepest.events.received import Received
from steepest.invariants import Status, check
from steepest.policies.pending import Pending
from steepest.policies.steepest.devices.device_jobs import KIND, kind_of, kinds, startable
from steepest.policies.steepest.devices.device_planner import DevicePlanner
from steepest.read_models.job_timeline import TimelineCollector
from steepest.view.cluster_view import ClusterView
from steepest.view.nodes import Nodes
from steepest.view.state import Job, Node
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.policies import POOL
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workload import SimJob, Workload

GPU = Resources(cpu_m=1_000, gpus=1)
LOG = list[Received[Any]]


def job(name: str, replicas: int, submit_s: float, work_s: float, **more: Any) -> SimJob:
    """A job of a GPU a replica, which reports its steps and their total."""
    fields = {"iterations": max(round(work_s), 1), "requests": GPU, "model": "net", **more}
    return SimJob(name=name, submit_s=submit_s, work_s=work_s, replicas=replicas, **fields)


def run(
    *jobs: SimJob,
    nodes: tuple[int, ...] = (4,),
    parameters: PoolParameters | None = None,
    lost: Mapping[str, float] | None = None,
    **limits: int,
) -> tuple[SimulationResult, LOG]:
    """The jobs on nodes of so many GPUs, of which ``lost`` are soon lost for so many seconds, and the pool's log."""
    log: LOG = []
    cluster = ClusterSpec(
        source="drawn",
        nodes=[
            SimNode(
                name=(name := f"node-{number}"),
                capacity=Resources(cpu_m=100_000, gpus=gpus),
                mtbf_s=100.0 if name in (lost or {}) else 0.0,
                repair_s=(lost or {}).get(name, 0.0),
            )
            for number, gpus in enumerate(nodes)
        ],
    )
    given = parameters or PoolParameters()
    preemption = PreemptionLimits(**{"min_run_ms": 10_000, "max_suspensions": 20, **limits})
    parameters = POOL["steepest"].parameters(msgspec.structs.replace(given, preemption=preemption))
    workload = Workload(source="drawn", format="drawn", jobs=sorted(jobs, key=lambda one: one.submit_s))
    result = simulate_system(workload, cluster, "steepest", parameters, 0, watch=log.append)
    return result, log


def events(log: LOG, kind: type) -> list[Any]:
    """The events of a type."""
    return [received.event for received in log if isinstance(received.event, kind)]


def broken(log: LOG) -> list[str]:
    """What is broken in a log."""
    return [verdict.message for verdict in check(log) if verdict.status is not Status.HOLDS]


def test_a_short_gang_takes_the_place_of_a_long_one_which_resumes() -> None:
    """The long one is suspended whole for it, continues afterwards, and both finish; the log breaks no invariant."""
    teacher = job("teacher", 4, 0.0, 60.0)
    result, log = run(teacher, job("long", 4, 70.0, 2_000.0), job("short", 4, 300.0, 60.0))
    ends = {one.name: one.end_s for one in result.jobs}
    plans = events(log, c.TransitionPlanned)

    assert [plan.job for plan in plans] == ["long"]
    assert plans[0].room_for == "short"
    assert plans[0].because.standing.devices_m == 4_000
    assert (ends["short"] or 0) < (ends["long"] or 0)
    assert {one.outcome for one in result.jobs} == {"finished"}
    assert broken(log) == []


def test_a_gang_grows_into_what_nobody_takes_and_gives_it_back() -> None:
    """It may have four replicas and names two: alone it has four; who waits gets two of them, and nobody is suspended."""
    elastic = job("elastic", 2, 0.0, 3_000.0, min_replicas=2, max_replicas=4)
    result, log = run(elastic, job("rigid", 2, 600.0, 400.0))
    scaled_ = [(plan.job, plan.kind, len(plan.nodes), plan.room_for) for plan in events(log, c.TransitionPlanned)]
    ends = {one.name: one.end_s or 0 for one in result.jobs}

    assert scaled_[:2] == [
        ("elastic", c.Transition.SCALE, 4, None),
        ("elastic", c.Transition.SCALE, 2, "rigid"),
    ]
    assert {kind for _, kind, *_ in scaled_} == {c.Transition.SCALE}
    assert ends["rigid"] < 1_100
    assert ends["elastic"] < 2_600
    assert broken(log) == []


def test_a_gang_does_not_grow_for_what_a_stop_costs() -> None:
    """One that soon ends keeps its size, and so does one that may have no more replicas."""
    _, log = run(job("short", 2, 0.0, 40.0, min_replicas=2, max_replicas=4), job("rigid", 1, 0.0, 2_000.0))

    assert events(log, c.TransitionPlanned) == []


def test_what_is_promised_stands_in_the_log() -> None:
    """A gang that waits is promised an end, with who holds the devices before it; it ends by then."""
    teacher, first = job("teacher", 4, 0.0, 280.0), job("first", 4, 300.0, 300.0)
    _, log = run(teacher, first, job("second", 4, 400.0, 280.0))
    revised = [received for received in log if isinstance(received.event, c.PromiseRevised)]
    said = {received.event.job: (received.at_ms, received.event) for received in reversed(revised)}
    ended = {received.event.job: received.at_ms for received in log if isinstance(received.event, c.JobEnded)}
    at_ms, promised = said["second"]

    assert [one.job for one in promised.ahead] == ["first"]
    assert promised.due_in_ms is not None
    assert ended["second"] <= at_ms + promised.due_in_ms


def test_explain_says_who_is_before_a_gang_that_waits_and_what_was_promised() -> None:
    """While it waits: who holds the devices and for how long, its fair end, and when it is due."""
    teacher, first = job("teacher", 4, 0.0, 280.0), job("first", 4, 300.0, 300.0)
    _, log = run(teacher, first, job("second", 4, 400.0, 280.0))
    view, timeline = ClusterView(), TimelineCollector("second")
    for received in log:
        accepted = view.fold(received)
        timeline.hear(view, received, accepted=accepted)
        if received.at_ms > 450_000 and view.jobs["second"].is_queued and isinstance(received.event, c.Tick):
            break
    now = timeline.timeline(view).now

    assert "of the GPUs before it, first holds 4 for 2 min" in now
    assert "it is due in " in now
    assert "(under fair sharing it ends in " in now


def test_a_job_that_cannot_be_saved_keeps_its_devices() -> None:
    """Its mode is none: nothing may take its place, and the other one waits."""
    _, log = run(job("long", 4, 0.0, 500.0), job("short", 4, 100.0, 30.0), max_suspensions=0)

    assert events(log, c.TransitionPlanned) == []
    assert [event.job for event in events(log, c.JobEnded)] == ["long", "short"]


def test_a_gang_that_no_nodes_could_hold_is_rejected() -> None:
    """It asks for more devices than there are; the others run."""
    _, log = run(job("huge", 5, 0.0, 10.0), job("small", 1, 0.0, 10.0))

    assert [event.job for event in events(log, c.JobRejected)] == ["huge"]
    assert [event.job for event in events(log, c.JobEnded)] == ["small"]


def test_jobs_without_devices_stay_with_the_rule_for_nodes() -> None:
    """They are placed by the placer, beside a gang that fills all devices."""
    plain = job("plain", 1, 5.0, 30.0, requests=Resources(cpu_m=1_000))
    _, log = run(job("gang", 4, 0.0, 200.0), plain)
    plans = {event.job: event.plan for event in events(log, c.PlacementPlanned)}

    assert plans["gang"].startswith("devices-")
    assert plans["plain"].startswith("place-")


def test_a_more_urgent_gang_is_not_stopped_for_a_less_urgent_one() -> None:
    """However short it is."""
    teacher = job("teacher", 4, 0.0, 60.0)
    _, log = run(teacher, job("urgent", 4, 70.0, 900.0, priority=10), job("short", 4, 300.0, 30.0))

    assert events(log, c.TransitionPlanned) == []


JOBS = st.lists(
    st.builds(
        lambda replicas, submit_s, work_s, model, priority: (replicas, submit_s, work_s, model, priority),
        st.sampled_from([1, 1, 2, 3, 4, 8]),
        st.integers(0, 600),
        st.integers(5, 900),
        st.sampled_from(["", "net", "other"]),
        st.sampled_from([0, 0, 0, 5]),
    ),
    min_size=2,
    max_size=12,
)


@pytest.mark.long
@settings(max_examples=scaled(25), deadline=None)
@given(drawn=JOBS)
def test_any_jobs_finish_and_no_invariant_breaks(drawn: list[tuple[int, int, int, str, int]]) -> None:
    """Gangs of any size on two nodes: each starts whole, none is lost, and what is promised is never put off in silence."""
    jobs = [
        job(f"job-{number}", replicas, float(submit_s), float(work_s), model=model, priority=priority)
        for number, (replicas, submit_s, work_s, model, priority) in enumerate(drawn)
    ]
    result, log = run(*jobs, nodes=(4, 4))

    assert {one.outcome for one in result.jobs} == {"finished"}
    assert broken(log) == []


def test_a_queue_holds_no_more_devices_than_its_limit() -> None:
    """A gang beyond it waits although devices are free; one that ends lets it start."""
    limits = (QueueLimits(queue="default", gpu_m=2_000),)
    parameters = PoolParameters(queueing=QueueParameters(limits=limits))
    result, log = run(job("first", 2, 0.0, 60.0), job("second", 2, 5.0, 60.0), parameters=parameters)
    starts = {one.name: one.start_s for one in result.jobs}
    ends = {one.name: one.end_s for one in result.jobs}

    assert (starts["second"] or 0) >= (ends["first"] or 0)
    assert broken(log) == []


def test_a_gang_that_waits_for_a_lost_node_keeps_the_others_from_nothing() -> None:
    """It was promised an end, and needs both nodes: what the other one has goes to whoever has room there meanwhile."""
    nothing = {"says": "nothing", "announced": 0.0, "model": ""}
    jobs = job("teacher", 1, 700.0, 100.0), job("big", 8, 900.0, 300.0), job("unknown", 1, 2_000.0, 300.0, **nothing)
    result, log = run(*jobs, nodes=(4, 4), lost={"node-1": 20_000.0})
    starts = {one.name: one.start_s or math.inf for one in result.jobs}

    assert starts["unknown"] < 2_100
    assert starts["big"] > 20_000
    assert broken(log) == []


def test_a_gang_beyond_its_queues_limit_takes_no_part() -> None:
    """Nothing gives way for it, so nothing is kept free for it; nor for one that the present nodes could not hold."""
    limits = (QueueLimits(queue="small", gpu_m=1_000),)
    pool = FoldedPool()
    pool.feed(c.PoolConfigured(parameters=PoolParameters(queueing=QueueParameters(limits=limits))))
    pool.feed(joined("w1", 8_000, gpus=4), joined("w2", 8_000, gpus=4))
    pool.fold(submitted("holds", requests=GPU, queue="small"))
    for name, queue, replicas in (("next", "small", 1), ("other", "default", 1), ("all", "default", 8)):
        pool.fold(submitted(name, requests=GPU, queue=queue, replicas=replicas))
    both = {node.name: node for node in pool.view.nodes}

    def of(nodes: dict[str, Node]) -> list[str]:
        may_start = startable(pool.view, Pending(), nodes)
        return [one.name for one in pool.view.jobs.queue if may_start(one)]

    assert of(both) == ["holds", "next", "other", "all"]
    pool.fold(placement("holds", "w1"))
    assert of(both) == ["other", "all"]
    assert of({"w2": both["w2"]}) == ["other"]


def test_copies_stand_still_while_no_node_with_devices_is_there() -> None:
    """Else the promises to all that wait would be put off once a node is back."""
    parameters = PoolParameters(steepest=SteepestParameters(on=True))
    planner = DevicePlanner()
    driver = DeciderDriver(planner)
    driver.feed(c.PoolConfigured(parameters=parameters), joined("w1", gpus=4), submitted("a", requests=GPU))
    shared = []
    for event in (c.NodeLost(node="w1", silent_ms=1), joined("w1", gpus=4)):
        driver.tick()
        shared.append(planner.state.fair[""].devices)
        driver.fold(event)
    driver.tick()

    assert [*shared, planner.state.fair[""].devices] == [4.0, 0.0, 4.0]


def test_nodes_with_other_devices_are_a_pool_of_their_own() -> None:
    """A job belongs to the pool with most devices; where its rule names the other kind, it is placed there."""
    nodes = Nodes({}, SpeConParameters())
    for name, gpus, kind in (("a", 2, "small"), ("b", 4, "large")):
        nodes.join(c.NodeJoined(node=name, capacity=Resources(cpu_m=1_000, gpus=gpus), labels={KIND: kind}), 0, 0)
    rule = NodeRule(requires=(LabelRequirement(key=KIND, operator=LabelOperator.IN, values=("small",)),))
    spec = c.JobSpec(command=("x",), requests=GPU)
    free = Job(name="x", request="x", spec=spec, submitted_counted_ms=0, submitted_ms=0, submitted_offset=0)
    bound = msgspec.structs.replace(free, spec=msgspec.structs.replace(free.spec, node_rule=rule))

    assert kind_of(free, kinds(nodes)) == "large"
    assert kind_of(bound, kinds(nodes)) == "small"


def test_an_elastic_gang_starts_smaller_where_all_of_it_has_no_room() -> None:
    """It takes what is free, and no other one gives way for that; it grows once the other has ended."""
    first, elastic = job("first", 3, 0.0, 200.0), job("elastic", 4, 10.0, 100.0, min_replicas=1, max_replicas=4)
    _, log = run(first, elastic)
    plans = {event.job: event for event in events(log, c.PlacementPlanned)}

    assert plans["elastic"].sizes == (1,)
    assert [(plan.job, len(plan.nodes)) for plan in events(log, c.TransitionPlanned)] == [("elastic", 4)]
    assert broken(log) == []


def test_what_is_left_is_for_the_gang_that_is_worth_most() -> None:
    """Of two that may have more replicas, the shorter one gets both GPUs, and the longer one what it leaves at its end."""
    long = job("long", 1, 0.0, 4_000.0, max_replicas=3, model="wide")
    _, log = run(long, job("short", 1, 1.0, 1_000.0, max_replicas=3))
    grown = [(plan.job, len(plan.nodes)) for plan in events(log, c.TransitionPlanned)]
    ended = [event.job for event in events(log, c.JobEnded)]

    assert grown == [("short", 3), ("long", 3)]
    assert ended == ["short", "long"]
    assert broken(log) == []


def test_a_gang_that_must_run_starts_smaller_where_none_gives_way() -> None:
    """Its promise does not wait for one that cannot be saved: it starts with what is free, and is not late for that."""
    teacher, keeps = job("teacher", 4, 0.0, 60.0), job("keeps", 3, 70.0, 2_000.0)
    wide = job("wide", 4, 80.0, 200.0, min_replicas=1, max_replicas=4)
    _, log = run(teacher, keeps, wide, max_suspensions=0)
    placed = {event.job: event for event in events(log, c.PlacementPlanned)}

    assert placed["wide"].sizes == (1,)
    assert "it would be late if it waited" in placed["wide"].because.rule
    assert [event.job for event in events(log, c.JobEnded)] == ["teacher", "wide", "keeps"]
    assert broken(log) == []
