"""The promises of every cluster about starts, stops, ends and steps.

It owns these promises as tests. It must never know which adapter it runs on.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.harness.contracts.cluster_harness import JOB, PATIENCE_S, ClusterFixture, refused

from steepest.cluster.port import ReplicaPhase, ReplicaSpec
from steepest.events.common import CheckpointRef
from steepest.events.heartbeat import ReplicaState


class LifecycleContract:
    """A replica starts once, on the node of its start, and ends by itself or by a stop."""

    # Start

    async def test_a_started_replica_runs_where_it_was_put(self, stage: ClusterFixture) -> None:
        """After a start the process trains, and lookup says on which node and in which incarnation."""
        await stage.train(node=stage.there)
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert (status.node, status.incarnation, status.phase) == (stage.there, 1, ReplicaPhase.RUNNING)
        assert (status.step or 0) >= 1
        assert status.restored_step is None

    async def test_what_was_never_started_is_not_known(self, stage: ClusterFixture) -> None:
        """Lookup of a replica that was never started gives None."""
        assert await stage.cluster.lookup(JOB) is None

    async def test_starting_again_changes_nothing(self, stage: ClusterFixture) -> None:
        """A start of an incarnation that runs already starts no second process."""
        await stage.train()
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job(), None)
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

        assert stage.output().count("begins") == 1

    async def test_concurrent_starts_start_one_process(self, stage: ClusterFixture) -> None:
        """Concurrent starts of one incarnation start one process."""
        starts = (stage.cluster.start(JOB, 1, stage.here, stage.harness.job(), None) for _ in range(5))
        await asyncio.gather(*starts)
        await stage.reach(1)
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

        assert stage.output().count("begins") == 1

    async def test_an_ended_incarnation_is_not_started_again(self, stage: ClusterFixture) -> None:
        """A start of an incarnation that has ended succeeds and runs nothing."""
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job("--steps", "1"), None)
        await stage.end()
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job(), None)

        assert await stage.phase() == ReplicaPhase.EXITED
        assert stage.output().count("begins") == 1

    async def test_a_late_start_of_an_older_incarnation_is_refused(self, stage: ClusterFixture) -> None:
        """A zombie that starts an incarnation older than the newest known one is refused, and the newest runs on."""
        await stage.train(incarnation=2)
        with refused("stale-incarnation"):
            await stage.cluster.start(JOB, 1, stage.there, stage.harness.job(), None)

        assert await stage.reach(2, incarnation=2) >= 2

    async def test_a_new_incarnation_waits_for_the_end_of_the_older(self, stage: ClusterFixture) -> None:
        """Two incarnations of a replica never run at the same time: a start is refused while an older one may run."""
        await stage.train()
        with refused("still-running"):
            await stage.cluster.start(JOB, 2, stage.there, stage.harness.job(), None)

        status = await stage.cluster.lookup(JOB)
        assert status is not None
        assert status.incarnation == 1

    async def test_an_incarnation_has_one_node(self, stage: ClusterFixture) -> None:
        """The same incarnation on another node is refused."""
        await stage.train()
        with refused("wrong-node"):
            await stage.cluster.start(JOB, 1, stage.there, stage.harness.job(), None)

    async def test_an_unknown_node_is_refused(self, stage: ClusterFixture) -> None:
        """A start on a node that does not exist is refused, and nothing is known of the replica."""
        with refused("unknown-node"):
            await stage.cluster.start(JOB, 1, "nowhere", stage.harness.job(), None)

        assert await stage.cluster.lookup(JOB) is None

    async def test_a_missing_program_is_refused_without_a_trace(self, stage: ClusterFixture) -> None:
        """A program that is not there is refused, and the same incarnation may then start with one that is."""
        with refused("no-such-program"):
            await stage.cluster.start(JOB, 1, stage.here, ReplicaSpec(command=("/no/such/program",)), None)
        assert await stage.cluster.lookup(JOB) is None

        await stage.train()

    async def test_a_restore_from_nothing_is_refused(self, stage: ClusterFixture) -> None:
        """A start from a checkpoint that is not on the volume is refused, and nothing starts."""
        missing = CheckpointRef(name="step-00000007-i0001", step=7, digest="sha256:00")
        with refused("checkpoint-refused"):
            await stage.cluster.start(JOB, 1, stage.here, stage.harness.job(), missing)

        assert await stage.cluster.lookup(JOB) is None

    # Stop

    async def test_a_stopped_job_saves_and_leaves(self, stage: ClusterFixture) -> None:
        """SIGTERM lets the job save: stop gives status 85, the last step, and the checkpoint of that step."""
        await stage.train("--mode", "on-stop")
        stopped = await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

        assert stopped.exit_status == 85
        assert stopped.checkpoint is not None
        assert stopped.checkpoint.step == stopped.step
        assert await stage.phase() == ReplicaPhase.EXITED

    async def test_a_job_that_ignores_sigterm_is_killed(self, stage: ClusterFixture) -> None:
        """After its grace a job ends by SIGKILL, and stop returns only then."""
        await stage.train("--ignore-term")
        stopped = await stage.cluster.stop(JOB, 1, grace_s=0.1)

        assert stopped.exit_status == -9
        assert await stage.phase() == ReplicaPhase.EXITED

    async def test_stopping_again_tells_how_it_ended(self, stage: ClusterFixture) -> None:
        """A second stop succeeds and reports the same end."""
        await stage.train()
        first = await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

        assert await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S) == first

    async def test_a_late_stop_of_an_older_incarnation_spares_the_newer(self, stage: ClusterFixture) -> None:
        """A stop names what it stops: one of an ended incarnation leaves the newer one alone."""
        await stage.train()
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        await stage.train(incarnation=2, node=stage.there)
        late = await stage.cluster.stop(JOB, 1, grace_s=0.0)

        assert late.exit_status == 85
        status = await stage.cluster.lookup(JOB)
        assert status is not None
        assert (status.incarnation, status.phase) == (2, ReplicaPhase.RUNNING)

    async def test_what_was_never_started_cannot_be_stopped(self, stage: ClusterFixture) -> None:
        """A stop of an incarnation that was never started is refused, also where another one runs."""
        with refused("unknown-incarnation"):
            await stage.cluster.stop(JOB, 1, grace_s=0.0)
        await stage.train()
        with refused("unknown-incarnation"):
            await stage.cluster.stop(JOB, 2, grace_s=0.0)

        assert await stage.phase() == ReplicaPhase.RUNNING

    # How it ends

    @pytest.mark.parametrize("status", [0, 3, 85])
    async def test_the_exit_status_is_known(self, stage: ClusterFixture, status: int) -> None:
        """Lookup gives the exit status of a process that left by itself."""
        arguments = ("--steps", "2", "--exit", str(status))
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job(*arguments), None)

        assert await stage.end() == (ReplicaPhase.EXITED, status)

    async def test_a_killed_job_has_its_signal_as_status(self, stage: ClusterFixture) -> None:
        """A process that SIGKILL ended has status −9."""
        await stage.train()
        await stage.harness.kill(JOB)

        assert await stage.end() == (ReplicaPhase.EXITED, -9)

    @pytest.mark.parametrize("by", ["lose", "end_place"])
    async def test_an_end_that_says_nothing_of_the_job_is_gone(self, stage: ClusterFixture, by: str) -> None:
        """Its place ended, or the end was not seen: it has a reason and no status; the next incarnation may start."""
        await stage.train()
        await getattr(stage.harness, by)(JOB)
        report = await stage.report(lambda found: found.state is not ReplicaState.RUNNING)
        status = await stage.cluster.lookup(JOB)
        stopped = await stage.cluster.stop(JOB, 1, grace_s=0.0)

        assert (report.state, report.exit_status, bool(report.reason)) == (ReplicaState.GONE, None, True)
        assert status is not None
        assert (status.phase, status.exit_status, status.reason) == (ReplicaPhase.GONE, None, report.reason)
        assert (stopped.exit_status, stopped.reason) == (None, report.reason)
        await stage.train(incarnation=2, node=stage.there)

    # Steps

    async def test_a_complete_training_satisfies_any_step(self, stage: ClusterFixture) -> None:
        """A job that ended with status 0 has done all that it will: waiting gives its last step."""
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job("--steps", "3"), None)

        assert await stage.reach(1000) == 3

    async def test_a_failed_job_reaches_no_step(self, stage: ClusterFixture) -> None:
        """Waiting for a step ends as soon as the job has failed."""
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job("--steps", "1", "--exit", "3"), None)
        with refused("ended"):
            await stage.reach(1000)

    async def test_a_step_that_does_not_come_times_out(self, stage: ClusterFixture) -> None:
        """Waiting for a step ends after its time limit."""
        await stage.train()
        with refused("step-timeout"):
            await stage.cluster.wait_for_step(JOB, 1, at_least=10**9, timeout_s=0.1)
        with refused("not-running"):
            await stage.cluster.wait_for_step(JOB, 2, at_least=1, timeout_s=0.1)
