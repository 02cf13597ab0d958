"""Heartbeats in a whole system: how often a node's use becomes a fact of the pool."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import FoldedPool
from tests.harness.system.fake_cluster import FakeCluster
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import Rig
from tests.harness.waiting import until

from steepest.cluster.port import NodeTerms, ReplicaId
from steepest.events import cluster as c
from steepest.events.common import (
    LabelOperator,
    LabelRequirement,
    NodeRule,
    Resources,
    Taint,
    Toleration,
    TolerationOperator,
)
from steepest.events.parameters import FlowConParameters, PoolParameters, Resource, SpeConParameters, SteepestParameters
from steepest.policies.monitor.others import usage_of
from steepest.policies.monitor.use import usage_every_ms
from steepest.policies.placement.standing import Waits, standings
from steepest.view.progress import time_left, total_steps
from steepest.view.state import Phase


def configured(*, interval_ms: int = 30_000, node_lost_ms: int = 15_000, steepest: bool = False) -> c.PoolConfigured:
    """A pool with these parameters."""
    parameters = PoolParameters(
        specon=SpeConParameters(interval_ms=interval_ms),
        node_lost_ms=node_lost_ms,
        steepest=SteepestParameters(on=steepest),
    )
    return c.PoolConfigured(parameters=parameters)


@pytest.mark.parametrize(
    ("configured", "every_ms"),
    [
        (configured(), 5_000),
        (configured(interval_ms=12_000), 2_000),
        (configured(node_lost_ms=6_000), 2_000),
        (configured(interval_ms=500), 500),
        (configured(steepest=True), 1_000),
    ],
)
def test_use_is_told_often_enough_for_silence_and_for_buckets(configured: c.PoolConfigured, every_ms: int) -> None:
    """Three times before a node is lost, six times in a bucket."""
    pool = FoldedPool(w1=1_000)
    pool.fold(configured)

    assert usage_every_ms(pool.view) == every_ms


@pytest.mark.parametrize(("on", "wanted"), [(True, (Resource.MEMORY, Resource.BLOCK_IO)), (False, ())])
def test_use_besides_cpu_is_asked_for_where_flowcon_considers_it(*, on: bool, wanted: tuple[Resource, ...]) -> None:
    """Otherwise it never becomes a fact."""
    resources = (Resource.CPU, Resource.MEMORY, Resource.BLOCK_IO)
    pool = FoldedPool(w1=1_000)
    pool.fold(c.PoolConfigured(parameters=PoolParameters(flowcon=FlowConParameters(on=on, resources=resources))))

    assert usage_of(pool.view) == wanted


def terms(_: FakeCluster, node: str) -> NodeTerms:
    """The second node is for those that tolerate its taint, and has a label."""
    is_second = node == "n2"
    taints = (Taint(key="gpu"),) if is_second else ()
    return NodeTerms(capacity=Resources(500), labels={"zone": "a"} if is_second else {}, taints=taints)


ZONE_A = NodeRule(
    requires=(LabelRequirement(key="zone", operator=LabelOperator.IN, values=("a",)),),
    tolerates=(Toleration(key="gpu", operator=TolerationOperator.EXISTS),),
)


async def test_a_node_says_which_jobs_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its taints, and its labels once a job requires any; that job then runs there."""
    monkeypatch.setattr(FakeCluster, "node_terms", terms)
    async with contextlib.aclosing(Rig(tmp_path, {"n1": 500, "n2": 500})) as rig:
        process = rig.start("placer", "worker-monitor", "migrator", "log-collector")
        await rig.append(c.PoolConfigured())
        await until(lambda: "n2" in process.view.nodes and process.view.nodes["n2"].taints)
        for number in range(3):
            await rig.submit(f"plain-{number}", "--steps", "100", "--step-s", "1", cpu_m=200)
        await until(lambda: sum(job.alive for job in process.view.jobs) == 2)
        before = [one for one in await rig.of_type(c.NodeJoined) if one.node == "n2"]
        spec = c.JobSpec(command=(PROGRAM, "--steps", "5", "--step-s", "1"), requests=Resources(100), node_rule=ZONE_A)
        await rig.append(c.JobSubmitted(job="choosy", request="r", spec=spec))
        await until(lambda: "choosy" in process.view.jobs and process.view.jobs["choosy"].phase is Phase.ENDED)
        placed = [one for one in await rig.of_type(c.PlacementPlanned) if one.job == "choosy"]
        after = [one for one in await rig.of_type(c.NodeJoined) if one.node == "n2"]

        assert all(one.labels is None for one in before)
        assert [one.nodes for one in placed] == [("n2",)]
        assert (after[-1].labels, after[-1].taints) == ({"zone": "a"}, (Taint(key="gpu"),))
        assert await rig.broken() == []


async def test_a_gang_runs_on_the_nodes_that_it_may_run_on_and_waits_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every replica starts on the tainted node, beside an emptier one; another gang waits until its zone is there."""
    zone_b = msgspec.structs.replace(
        ZONE_A, requires=(LabelRequirement(key="zone", operator=LabelOperator.IN, values=("b",)),)
    )
    labels: dict[str, dict[str, str]] = {"n1": {}, "n2": {"zone": "a"}, "n3": {"zone": "d"}}

    def of(_: FakeCluster, node: str) -> NodeTerms:
        taints = (Taint(key="gpu"),) if node == "n2" else ()
        return NodeTerms(capacity=Resources(500), labels=labels[node], taints=taints)

    monkeypatch.setattr(FakeCluster, "node_terms", of)
    async with contextlib.aclosing(Rig(tmp_path, dict.fromkeys(labels, 500))) as rig:
        process = rig.start("placer", "worker-monitor", "migrator", "log-collector")
        await rig.append(c.PoolConfigured())
        await until(lambda: len(list(process.view.nodes)) == len(labels))
        for job, rule in (("here", ZONE_A), ("later", zone_b)):
            spec = c.JobSpec(
                command=(PROGRAM, "--steps", "5", "--step-s", "1"),
                requests=Resources(100),
                replicas=2,
                node_rule=rule,
            )
            await rig.append(c.JobSubmitted(job=job, request=job, spec=spec))
        await until(lambda: "here" in process.view.jobs and process.view.jobs["here"].phase is Phase.ENDED)
        waiting = standings(process.view)["later"]
        labels["n3"] = {"zone": "b"}
        await until(lambda: process.view.jobs["later"].phase is Phase.ENDED)
        placed = {one.job: one.nodes for one in await rig.of_type(c.PlacementPlanned)}

        assert placed == {"here": ("n2", "n2"), "later": ("n3", "n3")}
        assert waiting.waits_for is Waits.NODES
        assert waiting.reason.startswith("it may not run on any of the 3 nodes that take jobs: the label zone In [b]")
        assert {job.outcome for job in process.view.jobs} == {c.Outcome.FINISHED}
        assert await rig.broken() == []


async def test_what_a_job_prints_is_its_progress(tmp_path: Path) -> None:
    """Loss and epoch are read from its output, CPU time is measured, and the job's own step goes before a printed one."""
    async with contextlib.aclosing(Rig(tmp_path, {"n1": 500})) as rig:
        process = rig.start("placer", "worker-monitor", "migrator", "log-collector")
        await rig.append(configured(interval_ms=6_000))
        await rig.submit("a", "--steps", "40", "--step-s", "1")
        await until(lambda: "a" in process.view.jobs and process.view.jobs["a"].alive)
        training = rig.nodes.newest(ReplicaId("a"))
        assert training is not None
        rig.nodes.witness.files(training).output.write_text("epoch=3 step=2 loss=0.25\n")
        await until(lambda: process.view.jobs["a"].phase is Phase.ENDED, within_s=300)
        found = process.view.jobs["a"].progress
        facts = [one for usage in await rig.of_type(c.NodeUsage) for one in usage.progress]

        assert (found.step, found.epoch, found.loss) == (40, 3.0, 0.25)
        assert found.cpu_ms is not None
        assert 40 / 1.5 <= len(facts) <= 45, "about one a second"
        assert await rig.broken() == []


async def test_a_quiet_pool_writes_little(tmp_path: Path) -> None:
    """One fact a node in five seconds, which stands for all that was measured; no node is lost, and none joins twice."""
    async with contextlib.aclosing(Rig(tmp_path, {"n1": 500, "n2": 500})) as rig:
        process = rig.start("placer", "worker-monitor", "migrator", "log-collector")
        await rig.append(configured())
        await rig.submit("a", "--steps", "100", "--step-s", "1")
        await until(lambda: "a" in process.view.jobs and process.view.jobs["a"].phase is Phase.ENDED, within_s=300)
        usages = await rig.of_type(c.NodeUsage)

        assert len(usages) <= 2 * (100 / 5 + 8)
        assert sum(one.measured for one in usages) >= 2 * 100
        assert await rig.of_type(c.NodeLost) == []
        assert [one.node for one in await rig.of_type(c.NodeJoined)] == ["n1", "n2"]
        assert await rig.broken() == []


PRINTED = {
    "a total": ("step {n}/40 loss=0.5", 40),
    "a total that shrinks": ("step {n}/{shrinking} loss=0.5", None),
    "a total of nothing": ("step {n}/0 loss=0.5", None),
    "a total without end": ("step {n}/1000000000000 loss=0.5", None),
    "a total in words": ("step {n}/many loss=0.5", None),
}


@pytest.mark.parametrize("printed", PRINTED)
async def test_what_is_left_is_known_of_a_total_that_can_be_right(tmp_path: Path, printed: str) -> None:
    """From the line that a job prints to what the pool's view believes of it."""
    line, total = PRINTED[printed]
    async with contextlib.aclosing(Rig(tmp_path, {"n1": 500})) as rig:
        process = rig.start("placer", "worker-monitor", "migrator", "log-collector")
        await rig.append(configured(steepest=True))
        await rig.submit("a", "--steps", "40", "--step-s", "1")
        await until(lambda: "a" in process.view.jobs and process.view.jobs["a"].alive)
        training = rig.nodes.newest(ReplicaId("a"))
        assert training is not None
        for number in range(1, 31):
            with rig.nodes.witness.files(training).output.open("a") as output:
                output.write(line.format(n=number, shrinking=4_000 // number) + "\n")
            await rig.clock.sleep(1)
        found = process.view.jobs["a"]

        assert total_steps(found) == total
        assert (found.progress.step or 0) > 20
        assert (time_left(found) is None) == (total is None)
