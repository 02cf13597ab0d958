"""Where each node has a log-collector, a job's losses are read on the node that it is on, and its end is said once."""

from __future__ import annotations

from collections.abc import Sequence

from tests.harness.system.fake_cluster import FakeCluster
from tests.harness.system.rig import POOL, Rig, RigProcess, events_of
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaFiles
from steepest.collector.losses import LossCollector
from steepest.events.cluster import LogOpened
from steepest.events.loss import JobUnwatched, LossReported
from steepest.events.received import SOURCE
from steepest.runtime.service import Service
from steepest.view.state import Phase


class FilledMeanwhile(FakeCluster):
    """Jobs are placed after all nodes' files were listed, and before one node's are."""

    def files(self, node: str | None = None, *, job: str | None = None) -> Sequence[ReplicaFiles]:
        """See ``Cluster.files``."""
        return [] if node is None else super().files(node, job=job)


def agent(rig: Rig, node: str, kind: type[FakeCluster] = FakeCluster) -> RigProcess:
    """The log-collector of one node; all share one folder."""
    cluster = kind(rig.nodes, POOL, rig.clock)
    folder = rig.folder / "collector"
    collector = Service(
        name=f"log-collector of {node}",
        effectors=lambda _: (LossCollector(cluster, rig.clock, POOL, folder, node=node),),
    )
    return rig.start(collector)


async def sent(rig: Rig) -> list[object]:
    """All that was sent to ``loss``, in the order of its partitions."""
    found = [one.event for at in rig.layout.of_topic("loss") for one in await events_of(rig.log, at)]
    return [event for event in found if not isinstance(event, LogOpened)]


async def steps(rig: Rig, job: str) -> list[tuple[int, int | None]]:
    """The incarnations and steps that were reported of a job."""
    return [(one.incarnation, one.step) for one in await sent(rig) if isinstance(one, LossReported) and one.job == job]


async def over(rig: Rig, process: RigProcess, job: str) -> None:
    """Wait until a job is over, and unwatched."""
    await until(lambda: job in process.view.jobs and process.view.jobs[job].phase is Phase.ENDED, within_s=300)
    while job not in {one.job for one in await sent(rig) if isinstance(one, JobUnwatched)}:
        await rig.clock.sleep(0.1)


async def test_only_the_agent_of_its_node_reads_a_job(rig: Rig) -> None:
    """The other one sends nothing of it, neither a report nor its end."""
    agent(rig, "n2")
    await rig.submit("a", "--steps", "6", "--step-s", "1", "--flat-after", "5", node="n1")
    await rig.clock.sleep(60)
    assert await sent(rig) == []

    process = agent(rig, "n1")
    await over(rig, process, "a")
    assert await steps(rig, "a") == [(1, step) for step in range(1, 7)]
    assert [one for one in await sent(rig) if isinstance(one, JobUnwatched)] == [JobUnwatched(job="a")]


async def test_a_job_that_moves_is_read_on_both_nodes_and_ends_once(rig: Rig) -> None:
    """Each incarnation by one agent, from sources of its own; the agent of the last node says that no more will come."""
    first, second = agent(rig, "n1"), agent(rig, "n2")
    await rig.submit("a", "--steps", "60", "--step-s", "1", "--flat-after", "50", node="n1")
    await until(lambda: "a" in first.view.jobs and first.view.jobs["a"].alive)
    await rig.clock.sleep(5)
    await rig.migrate("a", "n1", "n2")
    await over(rig, second, "a")

    found = await steps(rig, "a")
    assert {incarnation for incarnation, _ in found} == {1, 2}
    assert len(set(found)) == len(found)
    assert {step for _, step in found} == set(range(1, 61))
    assert [one for one in await sent(rig) if isinstance(one, JobUnwatched)] == [JobUnwatched(job="a")]


async def test_a_job_that_is_placed_while_an_agent_begins_is_read(rig: Rig) -> None:
    """An agent that lists what there is twice does not rely on finding the same."""
    other = agent(rig, "n2")
    await rig.submit("a", "--steps", "6", "--step-s", "1", "--flat-after", "5", node="n1")
    await until(lambda: "a" in other.view.jobs and other.view.jobs["a"].alive)
    await over(rig, agent(rig, "n1", FilledMeanwhile), "a")
    assert await steps(rig, "a") == [(1, step) for step in range(1, 7)]


async def test_an_agent_that_was_away_reads_the_rest_and_leaves_others_cursors(rig: Rig) -> None:
    """What a job reported meanwhile is read once; where other agents read on is not removed."""
    other, away = agent(rig, "n2"), agent(rig, "n1")
    await rig.submit("here", "--steps", "30", "--step-s", "1", "--flat-after", "5", node="n1")
    await rig.submit("there", "--steps", "200", "--step-s", "1", "--flat-after", "5", node="n2")
    await until(lambda: "there" in other.view.jobs and other.view.jobs["there"].alive)
    await rig.clock.sleep(10)
    away.kill()
    await until(lambda: other.view.jobs["here"].phase is Phase.ENDED, within_s=300)
    again = agent(rig, "n1")
    await over(rig, again, "here")

    numbered = {
        (one.headers[SOURCE], one.event.step)
        for at in rig.layout.of_topic("loss")
        for one in await events_of(rig.log, at)
        if isinstance(one.event, LossReported) and one.event.job == "here"
    }
    assert sorted(step or 0 for _, step in numbered) == list(range(1, 31))
    assert (rig.folder / "collector" / "there").is_dir()
    await over(rig, other, "there")
    assert [step for _, step in await steps(rig, "there")] == list(range(1, 201))
