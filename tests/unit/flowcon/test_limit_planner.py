"""FlowCon's Algorithms 1 and 2: when a node is looked at, what a run plans, and what it says of it."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import START_MS, placement, used
from tests.unit.flowcon.scene import CL, ITVAL_MS, NL, WL, FlowConPool, bucket

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import ProgressUnit, Resource
from steepest.policies.flowcon.limit_planner import LimitPlanner
from steepest.view.cluster_view import ClusterView


def two() -> FlowConPool:
    """Two jobs on a node of eight cores."""
    pool = FlowConPool(w1=8_000)
    pool.run("mnist", "w1")
    pool.run("vae", "w1")
    return pool


def planned(
    pool: FlowConPool, number: int, **jobs: tuple[float, int]
) -> dict[str, tuple[c.GrowthList | None, int | None]]:
    """What the run at the end of an interval plans; nothing where it plans nothing."""
    plans = pool.interval(number, **jobs)
    assert len(plans) <= 1
    return {one.job: (one.growth_list, one.cpu_m) for plan in plans for one in plan.limits}


# --- Algorithm 1 ------------------------------------------------------------------------------------------------------


def test_the_thesis_example_from_start_to_free_competition() -> None:
    """VAE slows down beside MNIST: it is watched, completes and gets 1/(n+1); once both complete, both are free again.

    A newborn is judged as having no efficiency: both are in WL from their first run on and in CL from the second, where
    both are free.
    """
    pool = two()
    assert (pool.limit("mnist"), pool.limit("vae")) == ((WL, None), (WL, None))
    # One bucket is no progress.
    assert planned(pool, 1, mnist=(1.0, 4_000), vae=(1.0, 4_000)) == {"mnist": (CL, None), "vae": (CL, None)}
    # P = 0.02 a second on half the node each: G = 0.04 ≥ α = 0.03. Limits are of the lists before, so CL: free.
    assert planned(pool, 2, mnist=(0.8, 4_000), vae=(0.8, 4_000)) == {"mnist": (NL, None), "vae": (NL, None)}
    # G is 0.04 and 0.002: shares of 20/21 and of 1/21, of which the floor 1/3 is more.
    assert planned(pool, 3, mnist=(0.6, 4_000), vae=(0.79, 4_000)) == {"mnist": (NL, 7_619), "vae": (WL, 2_666)}
    assert planned(pool, 4, mnist=(0.4, 6_000), vae=(0.785, 2_000)) == {"mnist": (WL, 7_441), "vae": (CL, 2_666)}
    # MNIST keeps what it has, being watched; vae has max(G/ΣG, 1/3) as before.
    assert planned(pool, 5, mnist=(0.39, 6_000), vae=(0.784, 2_000)) == {"mnist": (CL, 7_441), "vae": (CL, 2_666)}
    # The back-off counts from the run that found all completing; the next one comes after twice the interval.
    assert planned(pool, 6, mnist=(0.389, 6_000), vae=(0.784, 2_000)) == {}
    assert planned(pool, 7, mnist=(0.388, 6_000), vae=(0.784, 2_000)) == {"mnist": (CL, None), "vae": (CL, None)}


def test_whole_cores_give_a_quarter() -> None:
    """Cut down as the authors cut: 8/3 cores are 2, which is the limit of 0.25 in the thesis."""
    pool = two()
    pool.configure(granularity_m=1_000)
    for number, mean in enumerate((1.0, 0.8), 1):
        pool.interval(number, mnist=(mean, 4_000), vae=(mean, 4_000))
    assert planned(pool, 3, mnist=(0.6, 4_000), vae=(0.79, 4_000))["vae"] == (WL, 2_000)


def test_a_job_that_learns_again_is_new_again() -> None:
    """G ≥ α brings it back to NL from CL, in one run."""
    pool = two()
    pool.interval(1, mnist=(1.0, 4_000), vae=(0.5, 4_000))
    pool.interval(2, mnist=(0.8, 4_000), vae=(0.499, 4_000))
    assert pool.limit("vae") == (CL, None)
    assert planned(pool, 3, mnist=(0.6, 4_000), vae=(0.199, 4_000)) == {"mnist": (NL, 3_200), "vae": (NL, 4_800)}


def test_silence_is_no_second_proof() -> None:
    """A job without a new bucket keeps its list and its efficiency, however many runs go by."""
    pool = two()
    for number, mean in enumerate((1.0, 0.8, 0.6), 1):
        pool.interval(number, mnist=(mean, 4_000), vae=(1.0 - number / 1_000, 4_000))
    assert pool.limit("vae")[0] is CL
    before = pool.limit("mnist")
    for number in range(4, 8):
        pool.interval(number, vae=(0.99 - number / 10_000, 4_000))

    assert pool.limit("mnist")[0] is before[0] is NL


def test_a_job_that_says_nothing_is_watched_and_not_limited() -> None:
    """No loss, no progress, no limit: only its list changes, once."""
    pool = FlowConPool(w1=1_000)
    pool.run("silent", "w1")
    for number in range(1, 6):
        assert pool.interval(number) == []

    assert pool.limit("silent") == (WL, None)


def test_use_that_nobody_measures_is_not_zero() -> None:
    """Without a measurement of its CPU a job has no efficiency, and no limit."""
    pool = two()
    for number, mean in enumerate((1.0, 0.8, 0.6), 1):
        pool.interval(number, mnist=(mean, 4_000))
        pool.fold(bucket("vae", number, mean))

    assert pool.limit("vae") == (WL, None)
    assert pool.limit("mnist")[0] is NL


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ((Resource.CPU,), NL),
        ((Resource.CPU, Resource.MEMORY), NL),
        ((Resource.MEMORY, Resource.NETWORK_IO), WL),
    ],
)
def test_an_unmeasured_resource_is_left_out(resources: tuple[Resource, ...], wanted: c.GrowthList) -> None:
    """Of the configured resources only the measured ones are considered; where none is, no job is judged."""
    pool = two()
    pool.configure(resources=resources)
    for number, mean in enumerate((1.0, 0.8), 1):
        pool.interval(number, mnist=(mean, 4_000), vae=(mean, 4_000))

    assert pool.limit("mnist")[0] is wanted


def test_a_job_is_measured_by_the_resource_of_which_it_uses_most() -> None:
    """Of 8 cores and 1 GiB one job uses half the CPU, the other nearly all memory: that is what each one's G is for."""
    pool = two()
    pool.fold(c.NodeJoined(node="w1", capacity=Resources(cpu_m=8_000, memory_mib=1_000)))
    pool.configure(resources=(Resource.CPU, Resource.MEMORY))
    plans = []
    for number, mean in enumerate((1.0, 0.8, 0.6), 1):
        others = {"mnist": c.OtherUse(memory_mib=100), "vae": c.OtherUse(memory_mib=900)}
        plans += pool.interval(number, others, mnist=(mean, 4_000), vae=(mean, 1_000))

    because = plans[-1].because
    assert because.resources == (Resource.CPU, Resource.MEMORY)
    assert [(one.job, one.use, one.resource) for one in because.jobs] == [
        ("mnist", 0.5, None),
        ("vae", 0.9, Resource.MEMORY),
    ]
    assert [one.efficiency for one in because.jobs] == [pytest.approx(0.04), pytest.approx(0.02 / 0.9)]


def test_io_is_shared_out_of_what_all_jobs_move() -> None:
    """No capacity of it is known: of 40 MB/s a job that moves 30 has three quarters."""
    pool = two()
    pool.configure(resources=(Resource.NETWORK_IO,))
    plans = []
    for number, mean in enumerate((1.0, 0.8, 0.6), 1):
        others = {"mnist": c.OtherUse(network_bytes_s=30_000_000), "vae": c.OtherUse(network_bytes_s=10_000_000)}
        plans += pool.interval(number, others, mnist=(mean, 4_000), vae=(mean, 1_000))

    assert [one.use for one in plans[-1].because.jobs] == [0.75, 0.25]


def test_a_resource_that_is_unknown_of_one_job_is_left_out_for_all() -> None:
    """Otherwise jobs would be compared by different measures."""
    pool = two()
    pool.configure(resources=(Resource.CPU, Resource.MEMORY))
    plans = []
    for number, mean in enumerate((1.0, 0.8, 0.6), 1):
        plans += pool.interval(number, {"vae": c.OtherUse(memory_mib=900)}, mnist=(mean, 4_000), vae=(mean, 1_000))

    assert plans[-1].because.resources == ()
    assert [one.resource for one in plans[-1].because.jobs] == [None, None]


def test_alpha_can_be_read_per_interval() -> None:
    """0.002 a second is 0.02 an interval of ten seconds: on half the node an efficiency of 0.04."""
    for unit, wanted in ((ProgressUnit.SECOND, CL), (ProgressUnit.INTERVAL, NL)):
        pool = two()
        pool.configure(per=unit)
        for number, mean in enumerate((1.0, 0.98), 1):
            pool.interval(number, mnist=(mean, 4_000), vae=(mean, 4_000))

        assert pool.limit("mnist")[0] is wanted


def test_a_run_explains_itself() -> None:
    """The plan has every job's list, efficiency, progress and use, and ΣG, β, the floor and the interval."""
    pool = two()
    pool.interval(1, mnist=(1.0, 4_000), vae=(1.0, 4_000))
    pool.interval(2, mnist=(0.8, 4_000), vae=(0.8, 4_000))
    (plan,) = pool.interval(3, mnist=(0.6, 4_000), vae=(0.79, 4_000))
    because = plan.because

    assert because.rule == "an interval is over: Algorithm 1: limits by growth efficiency"
    assert because.jobs == (
        c.GrowthSeen("mnist", NL, efficiency=0.04, progress=0.02, use=0.5),
        c.GrowthSeen("vae", NL, efficiency=0.002, progress=0.001, use=0.5),
    )
    assert (because.total, because.beta, because.floor) == pytest.approx((0.042, 1.5, 1 / 3))
    assert (because.count, because.interval_ms) == (2, ITVAL_MS)


# --- Algorithm 2 ------------------------------------------------------------------------------------------------------


def test_a_start_triggers_a_run_immediately() -> None:
    """The run is triggered by the record of the process's start, and uses the last complete buckets."""
    pool = two()
    for number, mean in enumerate((1.0, 0.8, 0.6), 1):
        pool.interval(number, mnist=(mean, 4_000), vae=(1.0 - number / 1_000, 4_000))
    assert pool.limit("vae") == (CL, 2_666)
    before = len(pool.decided)
    pool.run("gru", "w1")
    (plan,) = [event for event in pool.decided[before:] if isinstance(event, c.LimitsPlanned)]

    assert plan.because.rule.startswith("a job started or stopped")
    assert [one.job for one in plan.limits] == ["gru", "mnist", "vae"]
    # ΣG is 0.0402 as before, and α for the newborn; the floor is 1/4. Only the newborn is judged, because nothing
    # new was measured.
    assert {one.job: (one.growth_list, one.cpu_m) for one in plan.limits} == {
        "gru": (WL, None),
        "mnist": (NL, 4_558),
        "vae": (CL, 2_000),
    }


def test_a_stop_is_looked_at_at_once() -> None:
    """Who is left is alone, and has the node."""
    pool = two()
    for number, mean in enumerate((1.0, 0.8, 0.6), 1):
        pool.interval(number, mnist=(mean, 4_000), vae=(0.5, 4_000))
    pool.run("gru", "w1")
    assert pool.limit("vae")[1] is not None
    pool.end("gru")
    pool.end("mnist")

    assert pool.limit("vae") == (CL, None)


def test_one_that_starts_while_another_stops_is_a_change() -> None:
    """A new incarnation of the same job on the same node is another process, and starts again."""
    pool = two()
    for number, mean in enumerate((1.0, 0.8, 0.6), 1):
        pool.interval(number, mnist=(mean, 4_000), vae=(0.5, 4_000))
    pool.fold(pool.stopped("vae", 1))
    pool.feed(c.RetryPlanned(job="vae", incarnation=1, charged=False, not_before_ms=0, reason=""))
    pool.fold(placement("vae", "w1", incarnation=1))
    pool.carry_out("vae")

    assert pool.job("vae").incarnation == 2
    assert pool.limit("vae") == (WL, None)


@pytest.mark.parametrize(("cap", "spans"), [(5, [40, 80, 160]), (1, [20, 20, 20]), (0, [10, 10, 10])])
def test_the_interval_doubles_while_all_complete(cap: int, spans: list[int]) -> None:
    """20, 40, 80, … seconds up to the cap, without which it would go on."""
    pool = FlowConPool(w1=1_000)
    pool.configure(most_doublings=cap)
    pool.run("a", "w1")
    due: dict[int, None] = {}
    for number in range(1, 30):
        pool.interval(number, a=(1.0, 500))
        if number > 1:  # the second bucket is the first that shows no growth
            due[pool.planner.state.rounds["w1"].due_counted_ms // 1_000] = None

    assert [later - earlier for earlier, later in itertools.pairwise(due)][:3] == spans


def test_a_start_takes_the_back_off_back() -> None:
    """The next run after it is one plain interval away."""
    pool = FlowConPool(w1=1_000)
    pool.run("a", "w1")
    for number in range(1, 10):
        pool.interval(number, a=(1.0, 500))
    assert pool.planner.state.rounds["w1"].doublings > 0
    pool.run("b", "w1")
    round_ = pool.planner.state.rounds["w1"]

    assert (round_.doublings, round_.due_counted_ms) == (0, pool.view.counted_ms + ITVAL_MS)


def test_nodes_know_nothing_of_each_other() -> None:
    """A run is about one node; its neighbour's jobs are in no sum."""
    pool = FlowConPool(w1=1_000, w2=1_000)
    pool.run("a", "w1")
    pool.run("b", "w2")
    for number, mean in enumerate((1.0, 0.8), 1):
        plans = pool.interval(number, a=(mean, 500), b=(mean, 500))

    assert {plan.node: [one.job for one in plan.limits] for plan in plans} == {"w1": ["a"], "w2": ["b"]}


def test_intervals_are_multiples_of_the_categorizers() -> None:
    """A run every ten seconds of buckets of four takes twelve."""
    pool = FlowConPool(w1=1_000)
    pool.configure(specon_ms=4_000)
    pool.run("a", "w1")

    assert pool.planner.state.rounds["w1"].due_counted_ms == pool.view.counted_ms + 12_000


# --- on, off, and what comes of a plan --------------------------------------------------------------------------------


def test_off_is_off() -> None:
    """Without FlowCon nothing is planned and nothing remembered."""
    pool = FlowConPool(on=False, w1=1_000)
    pool.run("a", "w1")
    pool.interval(1, a=(1.0, 500))

    assert pool.decided == []
    assert pool.planner.state == LimitPlanner().state


def test_switching_off_lifts_every_limit() -> None:
    """Switching off also forgets all state; switching on again starts from nothing."""
    pool = two()
    for number, mean in enumerate((1.0, 0.8, 0.6), 1):
        pool.interval(number, mnist=(mean, 4_000), vae=(1.0 - (number > 1) * 0.2 - (number > 2) * 0.01, 4_000))
    assert pool.limit("vae")[1] is not None
    (plan,) = pool.configure(on=False)

    assert isinstance(plan, c.LimitsPlanned)
    assert {one.job: one.cpu_m for one in plan.limits} == {"mnist": None, "vae": None}
    assert pool.planner.state == LimitPlanner().state
    assert pool.configure(on=True) != []
    assert pool.limit("vae") == (WL, None)


def test_what_the_engine_refused_is_asked_for_again() -> None:
    """At the next run, because what is in force is not what it is to be."""
    pool = two()
    for number, mean in enumerate((1.0, 0.8, 0.6), 1):
        plans = pool.interval(number, mnist=(mean, 4_000), vae=(1.0 - (number > 1) * 0.2 - (number > 2) * 0.01, 4_000))
    pool.apply("mnist")
    no = c.LimitsRefused(plan=plans[0].plan, node="w1", job="vae", incarnation=1, code="x", definite=True, message="no")
    assert pool.fold(no)
    pool.interval(4, mnist=(0.4, 4_000), vae=(0.789, 4_000))  # watched: it keeps what is in force, which is nothing
    assert pool.limit("vae") == (CL, None)
    (again,) = pool.interval(5, mnist=(0.2, 4_000), vae=(0.788, 4_000))

    assert next(one.cpu_m for one in again.limits if one.job == "vae") == 2_666
    limit = pool.job("vae").limit
    assert limit is not None
    assert (limit.answered, limit.refused, limit.plan) == (False, "", again.plan)


def test_a_lost_node_is_not_planned_for() -> None:
    """A plan could not reach it; its jobs are judged again after its next heartbeat."""
    pool = two()
    pool.fold(c.NodeLost(node="w1", silent_ms=1))
    pool.feed(*(bucket(job, number, 1.0) for job in ("mnist", "vae") for number in (1, 2)))
    assert pool.interval(3) == []
    pool.feed(used("w1", 10), *(bucket(job, 4, 0.5) for job in ("mnist", "vae")))
    assert [plan.node for plan in pool.interval(5, mnist=(0.2, 4_000), vae=(0.2, 4_000))] == ["w1"]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_run_on_a_node_that_is_lost_is_made_once_it_is_back(*, is_lost: bool) -> None:
    """Also where nothing changes any more: of one job nothing is heard, and the other one trains on as before."""
    pool = two()
    pool.interval(1, mnist=(1.0, 4_000), vae=(1.0, 4_000))
    pool.interval(2, mnist=(0.8, 4_000), vae=(0.8, 4_000))
    pool.now_ms = START_MS + 3 * ITVAL_MS - ITVAL_MS // 2
    pool.fold(used("w1", 8_000, mnist=4_000, vae=4_000))
    pool.now_ms = START_MS + 3 * ITVAL_MS
    pool.feed(bucket("mnist", 3, 0.6), bucket("vae", 3, 0.79))
    if is_lost:
        pool.fold(c.NodeLost(node="w1", silent_ms=10_000))
    pool.fold(c.Tick(counted_ms=pool.view.counted_ms + ITVAL_MS))
    believed = {name: job.limit_m for name, job in pool.planner.state.jobs.items()}
    assert believed == {name: None if (limit := pool.job(name).limit) is None else limit.cpu_m for name in believed}
    pool.feed(used("w1", 8_000, mnist=4_000, vae=4_000), c.Tick(counted_ms=pool.view.counted_ms + 1_000))
    for number in range(4, 12):
        pool.interval(number, mnist=(0.6 - (number - 3) * 0.2, 4_000))

    assert (pool.limit("mnist"), pool.limit("vae")) == ((NL, 7_619), (WL, 2_666))


def test_a_snapshot_goes_on_where_it_was() -> None:
    """State written and read in the middle plans the same as state that was never written."""
    first, second = two(), two()
    for number, mean in enumerate((1.0, 0.8, 0.6, 0.4, 0.39, 0.38), 1):
        for pool in (first, second):
            pool.interval(number, mnist=(mean, 4_000), vae=(0.5, 3_000))
        state = msgspec.msgpack.encode(second.planner.state)
        planner = LimitPlanner(msgspec.msgpack.decode(state, type=LimitPlanner.state_type))
        second.restore(ClusterView.restore(second.view.snapshot()), [planner])

    assert first.decided == second.decided
    assert first.planner.state == second.planner.state
