"""The promises of every cluster about checkpoints, holds and releases.

It owns these promises as tests. It must never know which adapter it runs on.
"""

from __future__ import annotations

from tests.harness.contracts.cluster_harness import JOB, PATIENCE_S, ClusterFixture, refused

from steepest.cluster.port import ReplicaPhase
from steepest.events.common import CheckpointRef


class CheckpointContract:
    """A job saves on request, waits for its stop or release, and loses no step; every wait has a time limit."""

    async def test_a_migration_loses_no_step(self, stage: ClusterFixture) -> None:
        """Checkpoint, hold, stop, start elsewhere: the job resumes from exactly the last step that it reported."""
        await stage.train()
        saved = await stage.ask()
        stopped = await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        await stage.cluster.start(JOB, 2, stage.there, stage.harness.job(), saved)
        await stage.reach(saved.step + 1, incarnation=2)
        status = await stage.cluster.lookup(JOB)

        assert stopped.step == saved.step
        assert stopped.checkpoint == saved
        assert status is not None
        assert (status.node, status.restored_step) == (stage.there, saved.step)

    async def test_a_restore_names_what_it_restores(self, stage: ClusterFixture) -> None:
        """A start from a checkpoint whose content is not the one that was chosen is refused, and nothing starts."""
        await stage.train()
        saved = await stage.ask()
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        another = CheckpointRef(name=saved.name, step=saved.step, digest="sha256:" + "0" * 64)
        with refused("checkpoint-refused"):
            await stage.cluster.start(JOB, 2, stage.there, stage.harness.job(), another)
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert (status.incarnation, status.phase) == (1, ReplicaPhase.EXITED)

    async def test_a_released_job_trains_on(self, stage: ClusterFixture) -> None:
        """After release the job goes on, long before its hold is over."""
        await stage.train()
        saved = await stage.ask()
        await stage.cluster.release(JOB, 1, request="r1")

        assert await stage.reach(saved.step + 1) > saved.step

    async def test_a_checkpoint_that_is_to_be_kept_is_still_there_after_later_ones(self, stage: ClusterFixture) -> None:
        """A job that goes wrong later can go on from before that, however often it has saved since."""
        await stage.train()
        good = await stage.ask("r1")
        await stage.cluster.keep(JOB, 1, good.name)
        newest = good
        for request in ("r1", "r2", "r3"):
            await stage.cluster.release(JOB, 1, request=request)
            await stage.reach(newest.step + 1)
            newest = await stage.ask(f"r{int(request[1]) + 1}")
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        await stage.cluster.start(JOB, 2, stage.there, stage.harness.job(), good)
        await stage.reach(good.step + 1, incarnation=2)
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert status.restored_step == good.step < newest.step

    async def test_a_hold_ends_by_itself(self, stage: ClusterFixture) -> None:
        """If neither stop nor release comes, the job goes on after ``hold_s``."""
        await stage.train()
        saved = await stage.ask(hold_s=0.1)

        assert await stage.reach(saved.step + 1) > saved.step

    async def test_release_does_not_disturb_a_job_that_does_not_wait(self, stage: ClusterFixture) -> None:
        """A release without a waiting job changes nothing: a later request still holds until its own release."""
        await stage.train()
        await stage.cluster.release(JOB, 1, request="r0")
        saved = await stage.ask("r1")
        await stage.cluster.release(JOB, 1, request="r0")
        stopped = await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

        assert stopped.step == saved.step

    async def test_asking_again_gives_the_same_checkpoint(self, stage: ClusterFixture) -> None:
        """The same request, made twice, is one request."""
        await stage.train()

        assert await stage.ask("r1") == await stage.ask("r1")

    async def test_a_job_may_refuse_to_checkpoint(self, stage: ClusterFixture) -> None:
        """The refusal of a job that saves only when stopped is passed on, and the job trains on."""
        await stage.train("--mode", "on-stop")
        with refused("checkpoint-refused"):
            await stage.ask()

        assert await stage.phase() == ReplicaPhase.RUNNING

    async def test_a_job_that_does_not_answer_times_out(self, stage: ClusterFixture) -> None:
        """Without an answer the call ends after its time limit, and the job trains on."""
        await stage.train("--silent")
        with refused("checkpoint-timeout"):
            await stage.ask(timeout_s=0.1)

        assert await stage.phase() == ReplicaPhase.RUNNING

    async def test_a_withdrawn_request_holds_nobody(self, stage: ClusterFixture) -> None:
        """A job that answers after the time limit does not wait: no stop or release would ever come."""
        await stage.train("--save-s", "0.3")
        with refused("checkpoint-timeout"):
            await stage.ask(timeout_s=0.1)
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert await stage.reach((status.step or 0) + 20)

    async def test_a_spoilt_checkpoint_is_not_taken(self, stage: ClusterFixture) -> None:
        """A checkpoint that does not match its own manifest is refused, is never restored, and holds no job."""
        await stage.train("--spoil")
        with refused("checkpoint-invalid"):
            await stage.ask()
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert status.checkpoint is None
        assert await stage.reach((status.step or 0) + 2)

    async def test_a_lookup_verifies_the_checkpoint_on_request(self, stage: ClusterFixture) -> None:
        """With ``verify=False`` the phase and step are as proven as before, and there is no checkpoint."""
        await stage.train()
        saved = await stage.ask()
        verified = await stage.cluster.lookup(JOB)
        plain = await stage.cluster.lookup(JOB, verify=False)

        assert verified is not None
        assert plain is not None
        assert (verified.checkpoint, plain.checkpoint) == (saved, None)
        assert (plain.phase, plain.incarnation, plain.step) == (verified.phase, 1, verified.step)

    async def test_only_what_runs_can_be_asked(self, stage: ClusterFixture) -> None:
        """A checkpoint of an ended or never started incarnation is refused."""
        with refused("not-running"):
            await stage.ask()
        await stage.train()
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        with refused("not-running"):
            await stage.ask()
