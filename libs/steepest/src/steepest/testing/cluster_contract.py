"""What every adapter of the cluster port must do, as tests that each adapter inherits.

It owns the promises of ``steepest.cluster.port`` in a form that can fail. It must never know which adapter it runs on,
and asks for nothing that containers on several machines cannot give.

To run it on an adapter, say how to make, drop and disturb it, and inherit::

    class TestMyCluster(ClusterContract):
        @pytest.fixture
        async def harness(self, tmp_path):
            async with contextlib.aclosing(MyHarness(tmp_path)) as harness:
                await harness.come_back()
                yield harness
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import Callable, Iterator

import pytest

from steepest.cluster.port import Cluster, ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.errors import RefusedError
from steepest.events.common import CheckpointMode, CheckpointRef, Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState

JOB = ReplicaId("mnist")
OTHER = ReplicaId("resnet")
PATIENCE_S = 60.0
"""How long to wait for what must come; it ends a hopeless test, and nothing is measured by it."""


class ClusterHarness(abc.ABC):
    """An adapter under test, and what a test does behind its back.

    Attributes:
        nodes: At least two nodes, and what they have; each has at least 200 millicores.
        pool: Their pool.
        cluster: The adapter in use now.
    """

    nodes: dict[str, Resources]
    pool: str
    cluster: Cluster

    @abc.abstractmethod
    def job(self, *arguments: str) -> ReplicaSpec:
        """A spec that runs ``steepest.testing.contract_job`` with these arguments."""

    @abc.abstractmethod
    async def leave(self) -> None:
        """Let the adapter vanish as if its process were killed: it is not closed, and what it runs goes on."""

    @abc.abstractmethod
    async def come_back(self) -> None:
        """Make a new adapter of the same cluster and put it in ``cluster``."""

    @abc.abstractmethod
    async def kill(self, replica: ReplicaId) -> None:
        """SIGKILL the first process of a running replica."""

    @abc.abstractmethod
    async def lose(self, replica: ReplicaId) -> None:
        """End a running replica in a way that nobody sees its exit status."""

    @abc.abstractmethod
    async def aclose(self) -> None:
        """End everything."""


@contextlib.contextmanager
def refused(code: str) -> Iterator[None]:
    """The block must be refused with this code."""
    with pytest.raises(RefusedError) as caught:
        yield
    assert caught.value.code == code
    assert caught.value.definite


class _Stage:
    """A harness with the acts that most tests share."""

    def __init__(self, harness: ClusterHarness) -> None:
        self.harness = harness
        self.here, self.there = list(harness.nodes)[:2]

    @property
    def cluster(self) -> Cluster:
        return self.harness.cluster

    async def train(self, *arguments: str, replica: ReplicaId = JOB, incarnation: int = 1, node: str = "") -> None:
        """Start the job and wait until it trains."""
        spec = self.harness.job(*arguments)
        await self.cluster.start(replica, incarnation, node or self.here, spec, None)
        await self.reach(1, replica=replica, incarnation=incarnation)

    async def reach(self, step: int, *, replica: ReplicaId = JOB, incarnation: int = 1) -> int:
        return await self.cluster.wait_for_step(replica, incarnation, at_least=step, timeout_s=PATIENCE_S)

    async def ask(self, request: str = "r1", *, hold_s: float = 600.0, timeout_s: float = PATIENCE_S) -> CheckpointRef:
        return await self.cluster.checkpoint(JOB, 1, request=request, hold_s=hold_s, timeout_s=timeout_s)

    async def phase(self, replica: ReplicaId = JOB) -> ReplicaPhase | None:
        status = await self.cluster.lookup(replica)
        return status.phase if status else None

    async def end(self, replica: ReplicaId = JOB) -> tuple[ReplicaPhase, int | None]:
        """Wait for the end of a replica; give its phase and exit status."""
        async for beat in self.cluster.heartbeats():
            if any(report.job == replica.job and report.state != ReplicaState.RUNNING for report in beat.replicas):
                break
        status = await self.cluster.lookup(replica)
        assert status is not None
        return status.phase, status.exit_status

    async def report(self, wanted: Callable[[ReplicaReport], bool], node: str = "") -> ReplicaReport:
        """The first report on a node that is as wanted."""
        async with contextlib.aclosing(self.cluster.heartbeats()) as beats:  # type: ignore[type-var]
            async for beat in beats:
                for found in beat.replicas if beat.node == (node or self.here) else ():
                    if wanted(found):
                        return found
        raise AssertionError("the heartbeats ended")

    def output(self, replica: ReplicaId = JOB, incarnation: int = 1) -> str:
        """What an incarnation printed so far."""
        for node in self.harness.nodes:
            for files in self.cluster.files(node):
                if (files.replica, files.incarnation) == (replica, incarnation):
                    return files.output.read_text()
        raise AssertionError(f"no files of {replica}/{incarnation}")


class ClusterContract:
    """Inherit it with a fixture ``harness`` that gives an empty cluster."""

    @pytest.fixture
    def stage(self, harness: ClusterHarness) -> _Stage:
        """The harness, with the acts that most tests share."""
        return _Stage(harness)

    # Start

    async def test_a_started_replica_runs_where_it_was_put(self, stage: _Stage) -> None:
        """After a start the process trains, and lookup says on which node and in which incarnation."""
        await stage.train(node=stage.there)
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert (status.node, status.incarnation, status.phase) == (stage.there, 1, ReplicaPhase.RUNNING)
        assert (status.step or 0) >= 1
        assert status.restored_step is None

    async def test_what_was_never_started_is_not_known(self, stage: _Stage) -> None:
        """Lookup of a replica that was never started gives None."""
        assert await stage.cluster.lookup(JOB) is None

    async def test_starting_again_changes_nothing(self, stage: _Stage) -> None:
        """A start of an incarnation that runs already starts no second process."""
        await stage.train()
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job(), None)
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

        assert stage.output().count("begins") == 1

    async def test_concurrent_starts_start_one_process(self, stage: _Stage) -> None:
        """However many starts of one incarnation come at once, one process runs."""
        starts = (stage.cluster.start(JOB, 1, stage.here, stage.harness.job(), None) for _ in range(5))
        await asyncio.gather(*starts)
        await stage.reach(1)
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

        assert stage.output().count("begins") == 1

    async def test_an_ended_incarnation_is_not_started_again(self, stage: _Stage) -> None:
        """A start of an incarnation that has ended succeeds and runs nothing."""
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job("--steps", "1"), None)
        await stage.end()
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job(), None)

        assert await stage.phase() == ReplicaPhase.EXITED
        assert stage.output().count("begins") == 1

    async def test_a_late_start_of_an_older_incarnation_is_refused(self, stage: _Stage) -> None:
        """A zombie that starts an incarnation older than the newest known one is refused, and the newest runs on."""
        await stage.train(incarnation=2)
        with refused("stale-incarnation"):
            await stage.cluster.start(JOB, 1, stage.there, stage.harness.job(), None)

        assert await stage.reach(2, incarnation=2) >= 2

    async def test_a_new_incarnation_waits_for_the_end_of_the_older(self, stage: _Stage) -> None:
        """Two incarnations of a replica never run at once: the newer start is refused while the older may run."""
        await stage.train()
        with refused("still-running"):
            await stage.cluster.start(JOB, 2, stage.there, stage.harness.job(), None)

        status = await stage.cluster.lookup(JOB)
        assert status is not None
        assert status.incarnation == 1

    async def test_an_incarnation_has_one_node(self, stage: _Stage) -> None:
        """The same incarnation on another node is refused."""
        await stage.train()
        with refused("wrong-node"):
            await stage.cluster.start(JOB, 1, stage.there, stage.harness.job(), None)

    async def test_an_unknown_node_is_refused(self, stage: _Stage) -> None:
        """A start on a node that does not exist is refused, and nothing is known of the replica."""
        with refused("unknown-node"):
            await stage.cluster.start(JOB, 1, "nowhere", stage.harness.job(), None)

        assert await stage.cluster.lookup(JOB) is None

    async def test_a_missing_program_is_refused_without_a_trace(self, stage: _Stage) -> None:
        """A program that is not there is refused, and the same incarnation may then start with one that is."""
        with refused("no-such-program"):
            await stage.cluster.start(JOB, 1, stage.here, ReplicaSpec(command=("/no/such/program",)), None)
        assert await stage.cluster.lookup(JOB) is None

        await stage.train()

    async def test_a_restore_from_nothing_is_refused(self, stage: _Stage) -> None:
        """A start from a checkpoint that is not on the volume is refused, and nothing starts."""
        missing = CheckpointRef(name="step-00000007-i0001", step=7, digest="sha256:00")
        with refused("checkpoint-refused"):
            await stage.cluster.start(JOB, 1, stage.here, stage.harness.job(), missing)

        assert await stage.cluster.lookup(JOB) is None

    # Stop

    async def test_a_stopped_job_saves_and_leaves(self, stage: _Stage) -> None:
        """SIGTERM lets the job save: stop gives status 85, the last step, and the checkpoint of that step."""
        await stage.train("--mode", "on-stop")
        stopped = await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

        assert stopped.exit_status == 85
        assert stopped.checkpoint is not None
        assert stopped.checkpoint.step == stopped.step
        assert await stage.phase() == ReplicaPhase.EXITED

    async def test_a_job_that_ignores_sigterm_is_killed(self, stage: _Stage) -> None:
        """After its grace a job ends by SIGKILL, and stop returns only then."""
        await stage.train("--ignore-term")
        stopped = await stage.cluster.stop(JOB, 1, grace_s=0.1)

        assert stopped.exit_status == -9
        assert await stage.phase() == ReplicaPhase.EXITED

    async def test_stopping_again_tells_how_it_ended(self, stage: _Stage) -> None:
        """A second stop succeeds and reports the same end."""
        await stage.train()
        first = await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

        assert await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S) == first

    async def test_a_late_stop_of_an_older_incarnation_spares_the_newer(self, stage: _Stage) -> None:
        """A stop names what it stops: one of an ended incarnation leaves the newer one alone."""
        await stage.train()
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        await stage.train(incarnation=2, node=stage.there)
        late = await stage.cluster.stop(JOB, 1, grace_s=0.0)

        assert late.exit_status == 85
        status = await stage.cluster.lookup(JOB)
        assert status is not None
        assert (status.incarnation, status.phase) == (2, ReplicaPhase.RUNNING)

    async def test_what_was_never_started_cannot_be_stopped(self, stage: _Stage) -> None:
        """A stop of an incarnation that was never started is refused, also where another one runs."""
        with refused("unknown-incarnation"):
            await stage.cluster.stop(JOB, 1, grace_s=0.0)
        await stage.train()
        with refused("unknown-incarnation"):
            await stage.cluster.stop(JOB, 2, grace_s=0.0)

        assert await stage.phase() == ReplicaPhase.RUNNING

    # Checkpoint and release

    async def test_a_migration_loses_no_step(self, stage: _Stage) -> None:
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

    async def test_a_released_job_trains_on(self, stage: _Stage) -> None:
        """After release the job goes on, long before its hold is over."""
        await stage.train()
        saved = await stage.ask()
        await stage.cluster.release(JOB, 1, request="r1")

        assert await stage.reach(saved.step + 1) > saved.step

    async def test_a_hold_ends_by_itself(self, stage: _Stage) -> None:
        """If neither stop nor release comes, the job goes on after ``hold_s``."""
        await stage.train()
        saved = await stage.ask(hold_s=0.1)

        assert await stage.reach(saved.step + 1) > saved.step

    async def test_release_does_not_disturb_a_job_that_does_not_wait(self, stage: _Stage) -> None:
        """A release that nobody waits for changes nothing: a later request still holds until its own release."""
        await stage.train()
        await stage.cluster.release(JOB, 1, request="r0")
        saved = await stage.ask("r1")
        await stage.cluster.release(JOB, 1, request="r0")
        stopped = await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)

        assert stopped.step == saved.step

    async def test_asking_again_gives_the_same_checkpoint(self, stage: _Stage) -> None:
        """The same request, made twice, is one request."""
        await stage.train()

        assert await stage.ask("r1") == await stage.ask("r1")

    async def test_a_job_may_refuse_to_checkpoint(self, stage: _Stage) -> None:
        """The refusal of a job that saves only when stopped is passed on, and the job trains on."""
        await stage.train("--mode", "on-stop")
        with refused("checkpoint-refused"):
            await stage.ask()

        assert await stage.phase() == ReplicaPhase.RUNNING

    async def test_a_job_that_does_not_answer_times_out(self, stage: _Stage) -> None:
        """Without an answer the call ends after its time limit, and the job trains on."""
        await stage.train("--silent")
        with refused("checkpoint-timeout"):
            await stage.ask(timeout_s=0.1)

        assert await stage.phase() == ReplicaPhase.RUNNING

    async def test_a_withdrawn_request_holds_nobody(self, stage: _Stage) -> None:
        """A job that answers after the time limit does not wait: nobody would ever stop or release it."""
        await stage.train("--save-s", "0.3")
        with refused("checkpoint-timeout"):
            await stage.ask(timeout_s=0.1)
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert await stage.reach((status.step or 0) + 20)

    async def test_a_spoilt_checkpoint_is_not_taken(self, stage: _Stage) -> None:
        """What does not match its own manifest is refused, is never offered for a restore, and holds nobody."""
        await stage.train("--spoil")
        with refused("checkpoint-invalid"):
            await stage.ask()
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert status.checkpoint is None
        assert await stage.reach((status.step or 0) + 2)

    async def test_only_what_runs_can_be_asked(self, stage: _Stage) -> None:
        """A checkpoint of an ended or never started incarnation is refused."""
        with refused("not-running"):
            await stage.ask()
        await stage.train()
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        with refused("not-running"):
            await stage.ask()

    # How it ends

    @pytest.mark.parametrize("status", [0, 3, 85])
    async def test_the_exit_status_is_known(self, stage: _Stage, status: int) -> None:
        """Lookup gives the exit status of a process that left by itself."""
        arguments = ("--steps", "2", "--exit", str(status))
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job(*arguments), None)

        assert await stage.end() == (ReplicaPhase.EXITED, status)

    async def test_a_killed_job_has_its_signal_as_status(self, stage: _Stage) -> None:
        """A process that SIGKILL ended has status −9."""
        await stage.train()
        await stage.harness.kill(JOB)

        assert await stage.end() == (ReplicaPhase.EXITED, -9)

    async def test_an_end_that_nobody_saw_is_gone(self, stage: _Stage) -> None:
        """A replica that surely does not run, without a known status, is gone; then the next incarnation may start."""
        await stage.train()
        await stage.harness.lose(JOB)

        assert await stage.end() == (ReplicaPhase.GONE, None)
        assert (await stage.cluster.stop(JOB, 1, grace_s=0.0)).exit_status is None
        await stage.train(incarnation=2, node=stage.there)

    # Steps

    async def test_a_complete_training_satisfies_any_step(self, stage: _Stage) -> None:
        """A job that ended with status 0 has done all that it will: waiting gives its last step."""
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job("--steps", "3"), None)

        assert await stage.reach(1000) == 3

    async def test_a_failed_job_reaches_no_step(self, stage: _Stage) -> None:
        """Waiting for a step ends as soon as the job has failed."""
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job("--steps", "1", "--exit", "3"), None)
        with refused("ended"):
            await stage.reach(1000)

    async def test_a_step_that_does_not_come_times_out(self, stage: _Stage) -> None:
        """Waiting for a step ends after its time limit."""
        await stage.train()
        with refused("step-timeout"):
            await stage.cluster.wait_for_step(JOB, 1, at_least=10**9, timeout_s=0.1)
        with refused("not-running"):
            await stage.cluster.wait_for_step(JOB, 2, at_least=1, timeout_s=0.1)

    # Adoption

    async def test_a_new_adapter_adopts_what_runs(self, stage: _Stage) -> None:
        """Replicas outlive their adapter: a new one finds them running, at their step, and can stop them."""
        await stage.train()
        await stage.harness.leave()
        await stage.harness.come_back()

        assert await stage.phase() == ReplicaPhase.RUNNING
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job(), None)
        assert (await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)).exit_status == 85
        assert stage.output().count("begins") == 1

    async def test_a_new_adapter_learns_of_ends_while_it_was_away(self, stage: _Stage) -> None:
        """The exit status of a replica that ended while nobody watched is not lost."""
        await stage.train()
        await stage.harness.leave()
        await stage.harness.kill(JOB)
        await stage.harness.come_back()

        assert await stage.end() == (ReplicaPhase.EXITED, -9)

    async def test_closing_stops_nothing(self, stage: _Stage) -> None:
        """Close lets go: what ran still runs under the next adapter."""
        await stage.train()
        await stage.cluster.close()
        await stage.harness.come_back()
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert await stage.reach((status.step or 0) + 1)

    # Limits

    async def test_limits_act(self, stage: _Stage) -> None:
        """Of two jobs that compute all the time, the one with a quarter of the other's cap uses clearly less."""
        node = max(stage.harness.nodes, key=lambda name: stage.harness.nodes[name].cpu_m)
        capacity_m = min(stage.harness.nodes[node].cpu_m, 1000)
        await stage.train("--burn", replica=JOB, node=node)
        await stage.train("--burn", replica=OTHER, node=node)
        await stage.cluster.limit(JOB, 1, capacity_m // 10)
        await stage.cluster.limit(OTHER, 1, capacity_m * 4 // 10)
        used = {JOB.job: 0, OTHER.job: 0}
        beats = 0
        async for beat in stage.cluster.heartbeats():
            # The first of them measure a time before the limits.
            beats += beat.node == node
            if beats > 4 and beat.node == node:
                for report in beat.replicas:
                    used[report.job] += report.cpu_m or 0
            if beats == 10:
                break

        assert 0 < used[JOB.job] * 2 < used[OTHER.job]

    async def test_only_what_runs_can_be_limited(self, stage: _Stage) -> None:
        """A limit of what was never started, or has ended, is refused."""
        with refused("not-running"):
            await stage.cluster.limit(JOB, 1, 100)
        await stage.train()
        await stage.cluster.limit(JOB, 1, 100)
        await stage.cluster.limit(JOB, 1, None)
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        with refused("not-running"):
            await stage.cluster.limit(JOB, 1, 100)

    # Heartbeats, files, forget

    async def test_every_node_beats(self, stage: _Stage) -> None:
        """Each node says its name, pool and capacity, with or without replicas."""
        found: dict[str, NodeHeartbeat] = {}
        async for beat in stage.cluster.heartbeats():
            found.setdefault(beat.node, beat)
            if len(found) == len(stage.harness.nodes):
                break

        assert {name: beat.capacity for name, beat in found.items()} == stage.harness.nodes
        assert {beat.pool for beat in found.values()} == {stage.harness.pool}

    async def test_heartbeats_tell_of_running_replicas(self, stage: _Stage) -> None:
        """A running replica is reported with its step, how it can be checkpointed, and its newest checkpoint."""
        await stage.train()
        saved = await stage.ask(hold_s=0.0)
        report = await stage.report(lambda report: None not in (report.checkpoint, report.step, report.checkpoint_mode))

        assert (report.job, report.replica, report.incarnation) == (JOB.job, 0, 1)
        assert report.state == ReplicaState.RUNNING
        assert report.checkpoint_mode == CheckpointMode.ON_REQUEST
        assert report.checkpoint == saved
        assert (report.step or 0) >= 1

    async def test_heartbeats_tell_of_an_end_until_the_job_is_forgotten(self, stage: _Stage) -> None:
        """A consumer that was away still learns of an end: the newest incarnation is reported until forget."""
        await stage.train()
        await stage.harness.kill(JOB)
        await stage.end()
        await stage.harness.leave()
        await stage.harness.come_back()
        report = await stage.report(lambda _: True)
        await stage.cluster.forget(JOB.job)

        assert (report.state, report.exit_status) == (ReplicaState.EXITED, -9)
        async for beat in stage.cluster.heartbeats():
            assert not beat.replicas
            if beat.node == stage.here:
                break

    async def test_heartbeats_end_when_the_cluster_is_closed(self, stage: _Stage) -> None:
        """Close ends every stream of heartbeats."""
        async for _ in stage.cluster.heartbeats():
            await stage.cluster.close()

    async def test_files_lead_to_output_and_reports(self, stage: _Stage) -> None:
        """A reader on the node finds what every incarnation printed and reported, on its own node only."""
        await stage.train()
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        await stage.train(incarnation=2, node=stage.there)
        (first,) = stage.cluster.files(stage.here)
        (second,) = stage.cluster.files(stage.there)

        assert (first.replica, first.incarnation, second.incarnation) == (JOB, 1, 2)
        assert first.output.read_text().split() == ["begins", JOB.job, "1"]
        assert '"step": 1' in second.reports.read_text()

    async def test_a_running_job_is_not_forgotten(self, stage: _Stage) -> None:
        """Forget is refused while a replica may run."""
        await stage.train()
        with refused("still-running"):
            await stage.cluster.forget(JOB.job)

        assert await stage.phase() == ReplicaPhase.RUNNING

    async def test_a_forgotten_job_may_begin_anew(self, stage: _Stage) -> None:
        """After forget nothing is known: the same name starts at incarnation 1 and inherits no checkpoint."""
        await stage.train()
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        await stage.cluster.forget(JOB.job)
        await stage.cluster.forget(JOB.job)
        assert await stage.cluster.lookup(JOB) is None
        assert not stage.cluster.files(stage.here)

        await stage.train()
        status = await stage.cluster.lookup(JOB)
        assert status is not None
        assert (status.incarnation, status.checkpoint) == (1, None)
