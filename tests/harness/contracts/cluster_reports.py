"""The promises of every cluster about reports, output and limits, across adapters too.

It owns these promises as tests. It must never know which adapter it runs on.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.harness.contracts.cluster_harness import JOB, OTHER, PATIENCE_S, ClusterFixture, refused

from steepest.cluster.port import MetricsPlace, ReplicaId, ReplicaPhase
from steepest.errors import UntrustedError
from steepest.events.common import CheckpointMode
from steepest.events.heartbeat import NodeHeartbeat, ReplicaState
from steepest.untrusted import files


class ReportsContract:
    """A running job is adopted, limited, reported and forgotten as the port says."""

    # Adoption

    async def test_a_new_adapter_adopts_what_runs(self, stage: ClusterFixture) -> None:
        """Replicas outlive their adapter: a new one finds them running, at their step, and can stop them."""
        await stage.train()
        await stage.harness.leave()
        await stage.harness.come_back()

        assert await stage.phase() == ReplicaPhase.RUNNING
        await stage.cluster.start(JOB, 1, stage.here, stage.harness.job(), None)
        assert (await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)).exit_status == 85
        assert stage.output().count("begins") == 1

    async def test_a_new_adapter_learns_of_ends_while_it_was_away(self, stage: ClusterFixture) -> None:
        """The exit status of a replica that ended while no adapter ran is not lost."""
        await stage.train()
        await stage.harness.leave()
        await stage.harness.kill(JOB)
        await stage.harness.come_back()

        assert await stage.end() == (ReplicaPhase.EXITED, -9)

    async def test_closing_stops_nothing(self, stage: ClusterFixture) -> None:
        """Close lets go: what ran still runs under the next adapter."""
        await stage.train()
        await stage.cluster.close()
        await stage.harness.come_back()
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert await stage.reach((status.step or 0) + 1)

    # Limits

    async def test_limits_act(self, stage: ClusterFixture) -> None:
        """Of two jobs that compute all the time, the one with a twentieth of the other's cap uses clearly less."""
        node = max(stage.harness.nodes, key=lambda name: stage.harness.nodes[name].cpu_m)
        capacity_m = min(stage.harness.nodes[node].cpu_m, 1000)
        await stage.train("--burn", replica=JOB, node=node)
        await stage.train("--burn", replica=OTHER, node=node)
        await stage.cluster.limit(JOB, 1, capacity_m // 50)
        await stage.cluster.limit(OTHER, 1, capacity_m * 4 // 10)
        used = await stage.use_on(node, lambda used: used[JOB] * 2 < used[OTHER])

        assert used[JOB] * 2 < used[OTHER], used
        status = await stage.cluster.lookup(JOB)
        assert status is not None
        assert await stage.reach((status.step or 0) + 1)

    async def test_cpu_time_grows(self, stage: ClusterFixture) -> None:
        """Heartbeats say how much CPU time an incarnation has used since it started."""
        await stage.train("--burn")
        used: list[int] = []
        async for beat in stage.cluster.heartbeats():
            used += [one.cpu_ms for one in beat.replicas if one.job == JOB.job and one.cpu_ms is not None]
            if len(used) >= 4 and used[-1] > used[0]:
                break

        assert used == sorted(used)

    async def test_only_what_runs_can_be_limited(self, stage: ClusterFixture) -> None:
        """A limit of what was never started, or has ended, is refused."""
        with refused("not-running"):
            await stage.cluster.limit(JOB, 1, 100)
        await stage.train()
        await stage.cluster.limit(JOB, 1, 100)
        await stage.cluster.limit(JOB, 1, None)
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        with refused("not-running"):
            await stage.cluster.limit(JOB, 1, 100)

    async def test_memory_is_capped_or_the_cap_refused(self, stage: ClusterFixture) -> None:
        """A cap of memory is set and taken away where nodes can; where they cannot, it is refused, and never ignored."""
        await stage.train()
        await stage.cluster.limit(JOB, 1, 100, memory_limit_mib=None)
        if stage.harness.caps_memory:
            await stage.cluster.limit(JOB, 1, 100, memory_limit_mib=64)
            await stage.cluster.limit(JOB, 1, None)
            await stage.cluster.limit(JOB, 1, None, memory_limit_mib=None)
        else:
            with refused("limit-unsupported"):
                await stage.cluster.limit(JOB, 1, 100, memory_limit_mib=64)
        status = await stage.cluster.lookup(JOB)

        assert status is not None
        assert await stage.reach((status.step or 0) + 1)

    # Heartbeats, files, forget

    async def test_every_node_beats(self, stage: ClusterFixture) -> None:
        """Each node says its name, pool and capacity, with or without replicas."""
        found: dict[str, NodeHeartbeat] = {}
        async for beat in stage.cluster.heartbeats():
            found.setdefault(beat.node, beat)
            if len(found) == len(stage.harness.nodes):
                break

        assert {name: beat.capacity for name, beat in found.items()} == stage.harness.nodes
        assert {beat.pool for beat in found.values()} == {stage.harness.pool}

    async def test_heartbeats_tell_of_running_replicas(self, stage: ClusterFixture) -> None:
        """A running replica is reported with its step, how it can be checkpointed, and its newest checkpoint."""
        await stage.train()
        saved = await stage.ask(hold_s=0.0)
        report = await stage.report(lambda report: None not in (report.checkpoint, report.step, report.checkpoint_mode))

        assert (report.job, report.replica, report.incarnation) == (JOB.job, 0, 1)
        assert report.state == ReplicaState.RUNNING
        assert report.checkpoint_mode == CheckpointMode.ON_REQUEST
        assert report.checkpoint == saved
        assert (report.step or 0) >= 1

    async def test_heartbeats_tell_of_an_end_until_the_job_is_forgotten(self, stage: ClusterFixture) -> None:
        """A consumer that was away still learns of an end: the newest incarnation is reported until forget."""
        await stage.train()
        await stage.harness.kill(JOB)
        await stage.end()
        await stage.harness.leave()
        await stage.harness.come_back()
        report = await stage.report(lambda _: True)
        await stage.cluster.forget(JOB.job)

        assert (report.state, report.exit_status) == (ReplicaState.EXITED, -9), report
        async for beat in stage.cluster.heartbeats():
            assert not beat.replicas
            if beat.node == stage.here:
                break

    async def test_heartbeats_end_when_the_cluster_is_closed(self, stage: ClusterFixture) -> None:
        """Close ends every stream of heartbeats."""
        async for _ in stage.cluster.heartbeats():
            await stage.cluster.close()

    async def test_files_lead_to_output_and_reports(self, stage: ClusterFixture) -> None:
        """A reader on the node finds what every incarnation printed and reported, on its own node only."""
        await stage.train()
        await stage.cluster.stop(JOB, 1, grace_s=PATIENCE_S)
        await stage.train(incarnation=2, node=stage.there)
        (first,) = stage.cluster.files(stage.here)
        (second,) = stage.cluster.files(stage.there)

        assert (first.replica, first.incarnation, second.incarnation) == (JOB, 1, 2)
        assert first.output.read_text().split() == ["begins", JOB.job, "1"]
        assert '"step": 1' in second.reports.read_text()

    async def test_a_running_job_is_not_forgotten(self, stage: ClusterFixture) -> None:
        """Forget is refused while a replica may run."""
        await stage.train()
        with refused("still-running"):
            await stage.cluster.forget(JOB.job)

        assert await stage.phase() == ReplicaPhase.RUNNING

    async def test_a_forgotten_job_may_begin_anew(self, stage: ClusterFixture) -> None:
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


class MetricsContract:
    """Of adapters whose jobs write files: a user names a folder as the job's process has it, and gets no other one."""

    async def test_metrics_are_read_where_the_process_writes_them(self, stage: ClusterFixture) -> None:
        """The path that its process has leads to its files; a link among them leads nowhere."""
        place = stage.cluster.metrics_folder(JOB.job, await tracked(stage, JOB))

        assert files.read(place.folder / "loss", below=place.below, most=100) == b"1 0.5 1\n"
        with pytest.raises(UntrustedError):
            files.read(place.folder / "elsewhere" / "etc" / "hostname", below=place.below, most=1000)

    @pytest.mark.parametrize("asked", ["/", "/etc", "{own}/../../..", "{own}/../../other/checkpoints", "/etc\0"])
    async def test_a_folder_that_its_process_does_not_have_is_refused(self, stage: ClusterFixture, asked: str) -> None:
        """The job is not started, and leaves no trace. Where jobs have all rights of the adapter's user, any is taken."""
        asked = asked.format(own=Path(await tracked(stage, OTHER)).parent.parent)
        spec = msgspec.structs.replace(stage.harness.job(), metrics_folder=asked)
        if not stage.harness.confines:
            assert stage.cluster.metrics_folder(JOB.job, asked) == MetricsPlace(Path(asked), Path(asked))
            return
        with refused("no-such-program"):
            stage.cluster.metrics_folder(JOB.job, asked)
        with refused("no-such-program"):
            await stage.cluster.start(JOB, 1, stage.here, spec, None)

        assert await stage.cluster.lookup(JOB) is None


async def tracked(stage: ClusterFixture, replica: ReplicaId) -> str:
    """Where the process of a replica has written its metrics, by its own account."""
    await stage.cluster.start(replica, 1, stage.here, stage.harness.job("--metrics", "--steps", "1"), None)
    await stage.end(replica)
    return stage.output(replica).split()[-1]
