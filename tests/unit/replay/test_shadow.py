"""A candidate beside the live policy: what it reads, and that its first difference is what it would have done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from steepest.errors import LogVersionError
from steepest.events import cluster as c
from steepest.events.dragon_parameters import DragonParameters
from steepest.events.parameters import PoolParameters
from steepest.events.received import ID, DecisionId, Received
from steepest.events.registry import READS, encode
from steepest.log.base import Record, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.replay.shadow import Shadow, ShadowedJob
from steepest.replay.shadow_plans import Choice, DifferenceKind, PlanDifference, ShadowPlans
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.policies import LIVE
from steepest_lab.sim.system.simulate import simulate_system
from steepest_lab.sim.workloads.arrivals import arrivals

GOLDEN = Path(__file__).parents[2] / "golden"
GOLDENS = sorted(folder.parent.name for folder in GOLDEN.glob("*/recording.json"))
CLUSTER = TopicPartition("cluster")
Change = Callable[[PoolParameters], PoolParameters]


def as_live(parameters: PoolParameters) -> PoolParameters:
    """The live policy."""
    return parameters


def placed_by(placement: str) -> Change:
    """The live policy but for its placement."""
    return lambda parameters: msgspec.structs.replace(parameters, placement=placement)


def records(golden: str) -> list[Record]:
    """The recording's losses and the pool's log, partition by partition."""

    async def read() -> list[Record]:
        log = FileLog.open(GOLDEN / golden, read_only=True)
        found: list[Record] = []
        for at in [*await log.partitions("loss"), CLUSTER]:
            end, reader = await log.end(at), log.reader({at: 0})
            while end:
                some = await reader.poll()
                found.extend(some)
                end -= len(some)
            await reader.close()
        await log.close()
        return found

    return asyncio.run(read())


def shadowed(heard: Sequence[Record], change: Change) -> dict[str, ShadowedJob]:
    """What is found of each job."""
    shadow = Shadow(change)
    for record in heard:
        shadow.hear(record)
    return {one.job: one for one in shadow.comparisons()}


def chosen(heard: Sequence[Record], kind: type[Any]) -> list[Any]:
    """The events of a type on ``cluster``."""
    name = kind.__name__.encode()
    values = [one.value for one in heard if one.at == CLUSTER and b'"type":"%s"' % name in one.value]
    return [msgspec.json.decode(value, type=kind) for value in values]


@pytest.mark.parametrize("golden", GOLDENS)
@pytest.mark.parametrize("order", ["losses first", "cluster first", "cut off"])
def test_a_candidate_that_is_the_live_policy_never_differs(golden: str, order: str) -> None:
    """However the topics come beside each other, and wherever the log ends."""
    heard = records(golden)
    if order == "cluster first":
        heard = sorted(heard, key=lambda one: one.at)
    if order == "cut off":
        half = sum(one.at == CLUSTER for one in heard) // 2
        heard = [one for one in heard if one.at != CLUSTER or one.offset < half]
    found = shadowed(heard, as_live)

    assert [job for job, one in found.items() if one.differs] == []
    assert {event.job for event in chosen(heard, c.JobSubmitted)} == set(found)
    assert all(one.live.intervals == one.candidate.intervals for one in found.values())
    assert any(one.live.intervals for one in found.values())


def test_a_candidate_that_never_moves_differs_where_the_live_one_did() -> None:
    """Each job that was moved is reported, with its first target; nothing else is."""
    heard = records("moves")
    moved: dict[str, str] = {}
    for event in chosen(heard, c.MigrationPlanned):
        moved.setdefault(event.job, event.target)
    found = shadowed(heard, LIVE["spread"].parameters)

    assert moved
    assert {
        job: [(plan.kind, plan.live and plan.live.value, plan.candidate) for plan in one.plans]
        for job, one in found.items()
        if one.differs
    } == {job: [(DifferenceKind.MOVE, target, None)] for job, target in moved.items()}


def test_a_candidate_that_limits_is_told_beside_one_that_does_not() -> None:
    """What FlowCon would have capped, and by how much; and, the other way round, what it has capped."""
    without = shadowed(records("moves"), LIVE["flowcon"].parameters)
    limits = [plan for one in without.values() for plan in one.plans if plan.kind is DifferenceKind.LIMIT]
    assert limits
    assert all(plan.live is None and plan.candidate and isinstance(plan.candidate.value, int) for plan in limits)

    heard = records("limits")
    first: dict[str, int] = {}
    for event in chosen(heard, c.LimitsPlanned):
        for limit in event.limits:
            if limit.cpu_m is not None:
                first.setdefault(limit.job, limit.cpu_m)
    found = shadowed(heard, LIVE["specon"].parameters)
    assert {
        job: (plan.live and plan.live.value, plan.candidate)
        for job, one in found.items()
        for plan in one.plans
        if plan.kind is DifferenceKind.LIMIT
    } == {job: (cpu_m, None) for job, cpu_m in first.items()}


def test_a_candidate_that_scales_no_gang_differs_where_dragon_did() -> None:
    """Each gang that was scaled is reported, with where its replicas were to be; before that, both place the same."""
    heard = records("dragon")
    scaled = {event.job for event in chosen(heard, c.TransitionPlanned) if event.kind is c.Transition.SCALE}
    found = shadowed(heard, lambda live: msgspec.structs.replace(live, dragon=_unscaled(live.dragon)))
    scalings = {job: plan for job, one in found.items() for plan in one.plans if plan.kind is DifferenceKind.SCALE}

    assert scaled
    assert {*scalings} == scaled
    assert all(plan.live and "replica" in str(plan.live.value) and plan.candidate is None for plan in scalings.values())


def _unscaled(rules: DragonParameters) -> DragonParameters:
    return msgspec.structs.replace(rules, scaling=False)


def test_dragon_is_told_beside_a_policy_that_lets_jobs_give_way() -> None:
    """It starts the gang on the same nodes, and would not have made room for the urgent one."""
    found = shadowed(records("gangs"), LIVE["dragon-fixed"].parameters)
    (place,) = found["urgent"].plans

    assert not found["gang"].differs
    assert (place.kind, place.candidate) == (DifferenceKind.PLACE, None)
    assert place.live
    assert place.live.value == "n1 (1 replica), n2 (1 replica)"


def test_another_placement_is_told_with_both_nodes() -> None:
    """FlowCon 2.0's placement on uneven nodes: some arrivals go elsewhere, and where live put them is what was recorded."""
    heard = records("limits")
    went = {event.job: event.nodes[0] for event in chosen(heard, c.PlacementPlanned)}
    found = shadowed(heard, placed_by("flowcon2"))
    plans = [(job, plan) for job, one in found.items() for plan in one.plans]

    assert 0 < len(plans) < len(went)
    for job, plan in plans:
        assert plan.kind is DifferenceKind.PLACE
        assert plan.live is not None
        assert plan.candidate is not None
        assert plan.live.value == went[job] != plan.candidate.value


# --- the first difference is what would have happened --------------------------------------------------------------------

Decided = dict[tuple[int, str, DifferenceKind], str | int | None]


@cache
def simulated(policy: str, placement: str, seed: int) -> list[Received[Any]]:
    """The log of a pool under a policy."""
    cluster = open_cluster("3x8cpu+2x4cpu")
    log: list[Received[Any]] = []
    parameters = placed_by(placement)(LIVE[policy].parameters(PoolParameters()))
    simulate_system(arrivals("mixed-20", seed), cluster, policy, parameters, seed, watch=log.append)
    return log


def decided(log: Sequence[Received[Any]]) -> Decided:
    """Where each job was to go, by the record that was the cause; and its limits, by the time."""
    found: Decided = {}
    for one in log:
        cause = DecisionId.parse(one.headers.get(ID, ""))
        match one.event:
            case c.PlacementPlanned(job=job, nodes=nodes) if cause:
                found[cause.offset, job, DifferenceKind.PLACE] = nodes[0]
            case c.MigrationPlanned(job=job, target=target) if cause:
                found[cause.offset, job, DifferenceKind.MOVE] = target
            case c.LimitsPlanned(limits=limits):
                for limit in limits:
                    found[one.at_ms, limit.job, DifferenceKind.LIMIT] = limit.cpu_m
    return found


def first_of(differences: Mapping[tuple[int, str, DifferenceKind], tuple[Any, Any]]) -> dict[Any, tuple[Any, Any]]:
    """Those at the first place where there are any."""
    first = min((key[0] for key in differences), default=None)
    return {key: both for key, both in differences.items() if key[0] == first}


def really(live: Decided, candidate: Decided, kinds: Sequence[DifferenceKind]) -> dict[Any, tuple[Any, Any]]:
    """Where two runs part: what each one decided there."""
    keys = [key for key in dict.fromkeys((*live, *candidate)) if key[2] in kinds]
    return first_of({key: (live.get(key), candidate.get(key)) for key in keys if live.get(key) != candidate.get(key)})


def differences(
    live: Sequence[Received[Any]], change: Change, kinds: Sequence[DifferenceKind]
) -> dict[Any, tuple[Any, Any]]:
    """The differences that a shadow finds from the live log alone."""
    shadow = ShadowPlans(change)
    for one in live:
        shadow.decide(one)

    def place(one: PlanDifference) -> int:
        return one.at_ms if one.kind is DifferenceKind.LIMIT else one.offset

    def there(one: PlanDifference, choice: Choice | None) -> str | int | None:
        return choice.value if choice is not None and choice.offset == one.offset else None

    return first_of(
        {
            (place(one), job, kind): (there(one, one.live), there(one, one.candidate))
            for (job, kind), one in shadow.differences.items()
            if kind in kinds
        }
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("live", "candidate", "kinds"),
    [
        (("spread", "spread"), ("specon", "spread"), [DifferenceKind.PLACE, DifferenceKind.MOVE]),
        (("specon", "spread"), ("spread", "spread"), [DifferenceKind.PLACE, DifferenceKind.MOVE]),
        (("spread", "spread"), ("spread", "flowcon2"), [DifferenceKind.PLACE, DifferenceKind.MOVE]),
        (("specon", "flowcon2"), ("specon", "spread"), [DifferenceKind.PLACE, DifferenceKind.MOVE]),
        (("spread", "spread"), ("flowcon", "spread"), [DifferenceKind.LIMIT]),
        (("specon", "spread"), ("specon+flowcon", "spread"), [DifferenceKind.LIMIT]),
    ],
)
def test_the_first_difference_is_what_a_run_under_the_candidate_does(
    live: tuple[str, str], candidate: tuple[str, str], kinds: Sequence[DifferenceKind], seed: int
) -> None:
    """Two simulated pools, each under one policy, part exactly where the shadow of one says, and as it says."""
    one, other = simulated(*live, seed), simulated(*candidate, seed)
    policy, placement = candidate

    def change(parameters: PoolParameters) -> PoolParameters:
        return placed_by(placement)(LIVE[policy].parameters(parameters))

    parted = really(decided(one), decided(other), kinds)
    assert parted
    assert differences(one, change, kinds) == parted


# --- what comes from outside ---------------------------------------------------------------------------------------------


def on_cluster(offset: int, value: bytes) -> Record:
    """A record of the pool."""
    return Record(at=CLUSTER, offset=offset, key="default", value=value, at_ms=offset)


def test_a_record_that_nobody_can_read_is_passed_over() -> None:
    """Neither side counts it, and both go on with the next one."""
    heard = [one for one in records("moves") if one.at == CLUSTER]
    usages = [place for place, one in enumerate(heard) if b'"NodeUsage"' in one.value]
    for place in usages[::50]:
        heard[place] = on_cluster(place, b"\xff no event")

    found = shadowed(heard, as_live)
    assert len(found) == len(chosen(heard, c.JobSubmitted))
    assert not any(one.plans for one in found.values())


def test_a_log_of_tomorrow_is_refused() -> None:
    """Where the pool asks for a newer reader, a candidate of today has nothing to say."""
    shadow = Shadow(as_live)
    with pytest.raises(LogVersionError):
        shadow.hear(on_cluster(0, encode(c.PoolConfigured(reads=READS + 1))))
