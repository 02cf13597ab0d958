"""``steepest nodes`` shows the GPUs of nodes that have some, and who has which."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from tests.unit.cli.test_gone import folder_with

from steepest.cli.commands.explain import explain
from steepest.cli.commands.jobs import jobs
from steepest.cli.commands.nodes import nodes
from steepest.events import cluster as c
from steepest.events.common import Resources

JOINED = c.NodeJoined(node="gpu1", capacity=Resources(cpu_m=4_000, gpus=3))


RUNS = (
    c.JobSubmitted(job="b", request="r", spec=c.JobSpec(command=("x",), requests=Resources(cpu_m=100, gpu_m=1_500))),
    c.PlacementPlanned(plan="place-b", job="b", incarnation=0, nodes=("gpu1",), because=c.Because(rule="")),
    c.StepBegun(plan="place-b", step=c.Step.START, attempt=1, job="b", incarnation=1, node="gpu1"),
    c.ReplicaStarted(job="b", incarnation=1, node="gpu1", gpus=(0, 2)),
    c.JobPlaced(plan="place-b", attempt=1, job="b", incarnation=1, node="gpu1"),
)


def test_people_and_programs_see_which_job_has_which_gpus(tmp_path: Path) -> None:
    """The ids by job on each node, and by node of each job, where its start says them."""
    state = str(folder_with(tmp_path, JOINED, *RUNS).root)
    shown = CliRunner().invoke(nodes, ["--state", state, "--json"])
    found = {node["node"]: node["gpus"] for node in json.loads(shown.stdout)}

    assert found["gpu1"] == {"total": 3, "reserved": 1.5, "assigned": {"b": [0, 2]}, "failed": [], "use": []}
    assert found["n1"] == {"total": 0, "reserved": 0, "assigned": {}, "failed": [], "use": []}
    of_jobs = json.loads(CliRunner().invoke(jobs, ["--state", state, "--json"]).stdout)
    assert {row["job"]: row["gpus"] for row in of_jobs} == {"a": {}, "b": {"gpu1": [0, 2]}}
    assert "0,2" in CliRunner().invoke(jobs, ["--state", state]).stdout
    assert "it has on gpu1, GPUs 0, 2" in CliRunner().invoke(explain, ["b", "--state", state]).stdout


def test_people_see_gpus_where_there_are_some(tmp_path: Path) -> None:
    """A column that a pool without GPUs does not have."""
    with_gpus, without = (
        CliRunner().invoke(nodes, ["--state", str(folder_with(tmp_path / name, *more).root)]).stdout
        for name, more in (("with", (JOINED,)), ("without", ()))
    )

    assert "GPUs" in with_gpus
    assert "0 / 3" in with_gpus
    assert "GPUs" not in without


def test_people_see_a_gpu_that_failed(tmp_path: Path) -> None:
    """As the state of its node."""
    failed = c.NodeJoined(node="gpu1", capacity=Resources(cpu_m=4_000, gpus=2), failed_gpus=(c.FailedGpu(1, "Xid 79"),))
    shown = CliRunner().invoke(nodes, ["--state", str(folder_with(tmp_path, JOINED, failed).root)])

    assert "GPU 1 failed" in shown.stdout


def test_people_and_programs_see_why_a_slow_node_is_drained(tmp_path: Path) -> None:
    """In a line below the table, and in a field."""
    slow = c.NodeDrainRequested(node="n1", request="r", drained=True, why="steps of a take 2 times as long as before")
    state = str(folder_with(tmp_path, slow).root)
    shown = CliRunner().invoke(nodes, ["--state", state]).stdout

    assert "n1 is drained because it is slow: steps of a take 2 times as long as before" in shown
    (row, *_) = json.loads(CliRunner().invoke(nodes, ["--state", state, "--json"]).stdout)
    assert (row["drained"], row["slow"]) == (True, slow.why)
