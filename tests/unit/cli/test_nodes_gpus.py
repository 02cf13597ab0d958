"""``steepest nodes`` shows the GPUs of nodes that have some, and who has which."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from tests.unit.cli.test_gone import folder_with

from steepest.app.state_folder import StateFolder
from steepest.cli.commands.nodes import nodes
from steepest.cluster.folders.adapter_folder import AdapterFolder, spec_record
from steepest.cluster.folders.gpu_table import GpuTable
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events import cluster as c
from steepest.events.common import Resources

JOINED = c.NodeJoined(node="gpu1", capacity=Resources(cpu_m=4_000, gpus=3))


def assign(folder: StateFolder) -> None:
    """Two replicas of a job have GPUs."""
    state = AdapterFolder(folder.cluster)
    state.make()
    for index, asked in enumerate((Resources(gpus=1), Resources(gpu_m=1_500))):
        there = state.incarnation(ReplicaId("a", index), 1)
        GpuTable(state, {"gpu1": (0, 1, 2)}).assign(there, "gpu1", asked)
        there.make(spec_record("gpu1", ReplicaSpec(command=("train",))))


def test_programs_see_which_job_has_which_gpus(tmp_path: Path) -> None:
    """With ``--json``: how many there are, how many are reserved, and the ids by job."""
    folder = folder_with(tmp_path, JOINED)
    assign(folder)
    shown = CliRunner().invoke(nodes, ["--state", str(folder.root), "--json"])
    found = {node["node"]: node["gpus"] for node in json.loads(shown.stdout)}

    assert found["gpu1"] == {"total": 3, "reserved": 0, "assigned": {"a": [0, 1, 2]}}
    assert found["n1"] == {"total": 0, "reserved": 0, "assigned": {}}


def test_people_see_gpus_where_there_are_some(tmp_path: Path) -> None:
    """A column that a pool without GPUs does not have."""
    with_gpus, without = (
        CliRunner().invoke(nodes, ["--state", str(folder_with(tmp_path / name, *more).root)]).stdout
        for name, more in (("with", (JOINED,)), ("without", ()))
    )

    assert "GPUs" in with_gpus
    assert "0 / 3" in with_gpus
    assert "GPUs" not in without


def test_a_damaged_table_is_a_warning(tmp_path: Path) -> None:
    """Nodes are shown all the same."""
    folder = folder_with(tmp_path, JOINED)
    AdapterFolder(folder.cluster).make()
    AdapterFolder(folder.cluster).gpus.write_text("{")
    shown = CliRunner().invoke(nodes, ["--state", str(folder.root), "--json"])

    assert json.loads(shown.stdout)
    assert "gpus.json cannot be read" in shown.stderr
