"""``steepest nodes gone`` on the log of a pool that no process runs on, and on the folders of its emulated nodes."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.harness.scenarios.log_builder import LogBuilder

from steepest.app.installation import open_cluster
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.cli.commands.nodes import nodes
from steepest.cli.pool.stored_pool import look
from steepest.clock import SystemClock
from steepest.cluster.folders.adapter_folder import AdapterFolder, spec_record
from steepest.cluster.local.cluster import LocalCluster
from steepest.cluster.observation import recorded_end
from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.errors import UncertainError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import new_record
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.view.state import Phase

NODES = tuple(NodeSpec(name, Resources(1_000)) for name in ("n1", "n2"))


def folder_with(root: Path, *more: c.ClusterEvent) -> StateFolder:
    """A state folder in whose log a job runs on n1."""
    folder = StateFolder(root / "state")
    installation = Installation(nodes=NODES)
    folder.create(installation)
    story = LogBuilder().opened(n1=1_000, n2=1_000).running("a", "n1").add(*more)
    events = [
        c.PoolConfigured(),
        *(one.event for one in story.records if not isinstance(one.event, c.LogOpened | c.PoolConfigured)),
    ]

    async def write() -> None:
        log = FileLog(folder.log, installation.layout.partitions())
        await open_partitions(log, installation.layout, SystemClock())
        await log.append([new_record(installation.layout.of_pool("default"), "default", one, 1) for one in events])
        await log.close()

    asyncio.run(write())
    return folder


def run(folder: StateFolder, node: str) -> Result:
    """The command's output and exit status."""
    return CliRunner().invoke(nodes, ["gone", node, "--state", str(folder.root), "--json"])


LOST = c.NodeLost(node="n1", silent_ms=15_000)


@pytest.mark.parametrize(("node", "why"), [("n9", "there is no node 'n9'"), ("n1", "node n1 is not lost")])
def test_it_is_refused_where_it_may_not_be_so(tmp_path: Path, node: str, why: str) -> None:
    """Of a node that is not there, or is heard of."""
    folder = folder_with(tmp_path)
    before = look(read_settings({"state_dir": folder.root})).view.position
    done = run(folder, node)

    assert why in str(done.exception)
    assert look(read_settings({"state_dir": folder.root})).view.position == before


def test_its_jobs_are_free_and_what_ran_there_has_ended(tmp_path: Path) -> None:
    """What is reached of the node is killed, so that no older incarnation refuses or outlives the next one."""
    folder = folder_with(tmp_path, LOST)
    replica, spec = ReplicaId("a"), ReplicaSpec(command=(sys.executable, "-c", "import time; time.sleep(600)"))

    async def start(incarnation: int, node: str) -> ReplicaPhase:
        cluster = open_cluster(folder, folder.read(), "default")
        assert isinstance(cluster, LocalCluster)
        try:
            await cluster.start(replica, incarnation, node, spec, None)
            status = await cluster.lookup(replica)
            assert status is not None
            if incarnation == 2:
                await cluster.stop(replica, 2, grace_s=0.0)
            return status.phase
        finally:
            await cluster.close()

    asyncio.run(start(1, "n1"))
    done = run(folder, "n1")
    view = look(read_settings({"state_dir": folder.root})).view

    assert json.loads(done.stdout) == {"node": "n1", "jobs": ["a"]}
    assert "n1" not in view.nodes
    assert (view.jobs["a"].phase, view.jobs["a"].alive) == (Phase.STOPPED, False)
    assert asyncio.run(start(2, "n2")) is ReplicaPhase.RUNNING


def test_what_does_not_answer_is_taken_for_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on record, where every adapter looks first."""
    folder = folder_with(tmp_path, LOST)
    there = AdapterFolder(folder.cluster).incarnation(ReplicaId("a"), 1)
    there.make(spec_record("n1", ReplicaSpec(command=("train",))))

    async def no_answer(*_: object, **__: object) -> None:
        raise UncertainError("no answer")

    monkeypatch.setattr(LocalCluster, "stop", no_answer)
    run(folder, "n1")
    end = recorded_end(there)

    assert end is not None
    assert (end.phase, end.reason) == (ReplicaPhase.GONE, "node n1 is gone for good, an operator said")
