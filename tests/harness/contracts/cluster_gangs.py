"""The promises of every cluster about gangs: replicas of one job that start together and find each other.

It owns these promises as tests. It must never know which adapter it runs on.
"""

from __future__ import annotations

import pytest
from tests.harness.contracts.cluster_harness import JOB, OTHER, PATIENCE_S, ClusterFixture, refused

from steepest.cluster.port import ReplicaId, ReplicaPhase
from steepest.events.heartbeat import ReplicaState

SECOND = ReplicaId(JOB.job, 1)
THIRD = ReplicaId(JOB.job, 2)


class GangContract:
    """Each call acts on one replica; what a gang's replicas share is their job, their incarnation and their addresses."""

    # Start

    async def test_each_replica_runs_where_it_was_put(self, stage: ClusterFixture) -> None:
        """The replicas of one job run on several nodes, and lookup finds each by its index."""
        await stage.start_gang([stage.here, stage.there])
        await stage.reach_all(1, 2)
        found = [await stage.cluster.lookup(replica) for replica in (JOB, SECOND)]

        assert [(one.replica, one.node, one.phase) for one in found if one] == [
            (JOB, stage.here, ReplicaPhase.RUNNING),
            (SECOND, stage.there, ReplicaPhase.RUNNING),
        ]
        assert await stage.cluster.lookup(THIRD) is None

    @pytest.mark.parametrize("on_one_node", [True, False])
    async def test_replicas_find_each_other(self, stage: ClusterFixture, *, on_one_node: bool) -> None:
        """Three replicas do each step together, on one node as well as on two."""
        await stage.start_gang([stage.here, stage.here if on_one_node else stage.there, stage.here], "--meet")

        await stage.reach_all(3, 3)

    async def test_two_gangs_do_not_meet(self, stage: ClusterFixture) -> None:
        """Gangs on the same nodes have their own addresses: each does its steps with its own replicas."""
        for job in (JOB.job, OTHER.job):
            await stage.start_gang([stage.here, stage.there], "--meet", job=job)

        await stage.reach_all(3, 2, job=JOB.job)
        await stage.reach_all(3, 2, job=OTHER.job)

    async def test_a_gang_is_completed_by_the_next_adapter(self, stage: ClusterFixture) -> None:
        """A replica that a new adapter starts finds those which the adapter before it has started."""
        await stage.start_gang([stage.here, stage.there], "--meet", ranks=[0])
        await stage.harness.leave()
        await stage.harness.come_back()
        await stage.start_gang([stage.here, stage.there], "--meet", ranks=[1])

        await stage.reach_all(3, 2)

    async def test_a_part_of_a_gang_waits_and_can_be_stopped(self, stage: ClusterFixture) -> None:
        """A replica whose peer was never started does no step; it is taken back, and the gang starts whole."""
        await stage.start_gang([stage.here, stage.there], "--meet", ranks=[0])
        with refused("step-timeout"):
            await stage.cluster.wait_for_step(JOB, 1, at_least=1, timeout_s=0.5)
        with refused("unknown-incarnation"):
            await stage.cluster.stop(SECOND, 1, grace_s=0.0)
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        await stage.start_gang([stage.there, stage.there], "--meet", incarnation=2)

        await stage.reach_all(2, 2, incarnation=2)

    async def test_a_replica_that_dies_as_it_starts_leaves_the_others(self, stage: ClusterFixture) -> None:
        """The end of one replica is its own: its status is known, and its peer runs until it is stopped."""
        await stage.start_gang([stage.here, stage.here], "--meet", "--fail-start", "1")

        assert await stage.end(SECOND) == (ReplicaPhase.EXITED, 7)
        assert await stage.phase() == ReplicaPhase.RUNNING
        with refused("ended"):
            await stage.reach(1, replica=SECOND)
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        await stage.start_gang([stage.here, stage.here], "--meet", incarnation=2)
        await stage.reach_all(1, 2, incarnation=2)

    async def test_a_lost_peer_ends_the_others_with_a_failure(self, stage: ClusterFixture) -> None:
        """Replicas that step together see that a peer was killed; their status is neither 0 nor 85."""
        await stage.start_gang([stage.here, stage.there], "--meet")
        await stage.reach_all(1, 2)
        await stage.harness.kill(SECOND)

        assert await stage.end(SECOND) == (ReplicaPhase.EXITED, -9)
        phase, status = await stage.end(JOB)
        assert phase == ReplicaPhase.EXITED
        assert status not in {None, 0, 85}

    # Stop

    async def test_stopping_a_replica_leaves_the_others(self, stage: ClusterFixture) -> None:
        """A stop ends the replica that it names, and no other."""
        await stage.start_gang([stage.here, stage.here])
        await stage.reach_all(1, 2)
        stopped = await stage.cluster.stop(SECOND, 1, grace_s=PATIENCE_S)
        status = await stage.cluster.lookup(JOB)

        assert stopped.exit_status == 85
        assert status is not None
        assert await stage.reach((status.step or 0) + 1)

    async def test_a_replica_that_waits_for_its_peers_leaves_when_it_is_stopped(self, stage: ClusterFixture) -> None:
        """While the chief holds its checkpoint, the others wait for it in their step; each leaves with 85."""
        await stage.start_gang([stage.here, stage.there, stage.here], "--meet")
        await stage.reach_all(1, 3)
        await stage.ask()
        for index in (1, 2, 0):
            stopped = await stage.cluster.stop(ReplicaId(JOB.job, index), 1, grace_s=PATIENCE_S)
            assert stopped.exit_status == 85

    # Incarnations

    async def test_a_late_start_of_a_replaced_gang_is_refused(self, stage: ClusterFixture) -> None:
        """A zombie starts no replica of an older incarnation, not even one that the newer gang does not have."""
        await stage.start_gang([stage.here, stage.there, stage.there])
        for index in (0, 1, 2):
            await stage.cluster.stop(ReplicaId(JOB.job, index), 1, grace_s=PATIENCE_S)
        await stage.start_gang([stage.here, stage.there], incarnation=3)
        for index in (0, 1, 2):
            with refused("stale-incarnation"):
                await stage.start_gang([stage.here, stage.there, stage.there], incarnation=2, ranks=[index])

        status = await stage.cluster.lookup(THIRD)
        assert status is not None
        assert status.incarnation == 1

    async def test_a_gang_waits_for_the_end_of_the_older_one(self, stage: ClusterFixture) -> None:
        """No replica of a new incarnation starts while one of an older incarnation may run: two gangs would train."""
        await stage.start_gang([stage.here, stage.there])
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        with refused("still-running"):
            await stage.start_gang([stage.here], incarnation=2)
        await stage.cluster.stop(SECOND, 1, grace_s=PATIENCE_S)
        await stage.start_gang([stage.here], incarnation=2)

        await stage.reach(1, incarnation=2)

    # Checkpoints

    async def test_replica_0_saves_for_the_gang(self, stage: ClusterFixture) -> None:
        """The chief's checkpoint is the gang's: another replica refuses, and all resume from it in another number."""
        await stage.start_gang([stage.here, stage.there, stage.there], "--meet")
        await stage.reach_all(1, 3)
        with refused("checkpoint-refused"):
            await stage.cluster.checkpoint(SECOND, 1, request="r0", hold_s=0.0, timeout_s=PATIENCE_S)
        saved = await stage.ask()
        for index in (2, 1, 0):
            await stage.cluster.stop(ReplicaId(JOB.job, index), 1, grace_s=PATIENCE_S)
        await stage.start_gang([stage.there, stage.here], "--meet", incarnation=2, restore=saved)
        await stage.reach_all(saved.step + 2, 2, incarnation=2)
        found = [await stage.cluster.lookup(replica) for replica in (JOB, SECOND)]

        assert [one.restored_step for one in found if one] == [saved.step, saved.step]

    # Limits

    async def test_each_replica_has_a_limit_of_its_own(self, stage: ClusterFixture) -> None:
        """Of two that compute all the time, the one with a twentieth of the other's cap uses clearly less."""
        node = max(stage.harness.nodes, key=lambda name: stage.harness.nodes[name].cpu_m)
        capacity_m = min(stage.harness.nodes[node].cpu_m, 1000)
        await stage.start_gang([node, node], "--burn")
        await stage.reach_all(1, 2)
        await stage.cluster.limit(JOB, 1, capacity_m * 4 // 10)
        await stage.cluster.limit(SECOND, 1, capacity_m // 50)
        used = await stage.use_on(node, lambda used: used[SECOND] * 2 < used[JOB])

        assert used[SECOND] * 2 < used[JOB], used

    # Reports

    async def test_heartbeats_tell_of_each_replica(self, stage: ClusterFixture) -> None:
        """A node reports each of its replicas, with its index and its own end."""
        await stage.start_gang([stage.here, stage.here])
        await stage.reach_all(1, 2)
        first = await stage.report(lambda report: report.replica == 0 and (report.step or 0) >= 1)
        await stage.harness.kill(SECOND)
        second = await stage.report(lambda report: report.replica == 1 and report.state != ReplicaState.RUNNING)

        assert (first.job, first.incarnation, first.state) == (JOB.job, 1, ReplicaState.RUNNING)
        assert (second.job, second.incarnation, second.exit_status) == (JOB.job, 1, -9)

    async def test_replicas_on_one_node_have_their_own_files(self, stage: ClusterFixture) -> None:
        """The output and reports of replicas are kept apart, on the same node too, and found by their indices."""
        await stage.start_gang([stage.here, stage.here, stage.there])
        await stage.reach_all(1, 3)
        for index in (0, 1, 2):
            await stage.cluster.stop(ReplicaId(JOB.job, index), 1, grace_s=PATIENCE_S)
        here, there = stage.cluster.files(stage.here), stage.cluster.files(stage.there)

        assert [files.replica for files in (*here, *there)] == [JOB, SECOND, THIRD]
        assert len({files.reports for files in (*here, *there)}) == 3
        for files in (*here, *there):
            assert files.output.read_text().split() == ["begins", JOB.job, "1", str(files.replica.index)]
            assert '"step": 1' in files.reports.read_text()

    async def test_a_gang_is_forgotten_whole(self, stage: ClusterFixture) -> None:
        """Forget is refused while any replica runs; then nothing is known of any."""
        await stage.start_gang([stage.here, stage.there])
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        with refused("still-running"):
            await stage.cluster.forget(JOB.job)
        await stage.cluster.stop(SECOND, 1, grace_s=PATIENCE_S)
        await stage.cluster.forget(JOB.job)

        assert [await stage.cluster.lookup(replica) for replica in (JOB, SECOND)] == [None, None]
