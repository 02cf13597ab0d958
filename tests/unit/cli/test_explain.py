"""How ``steepest explain`` shows a job's story, and what it adds to it from the job's losses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner
from tests.unit.cli.conftest import Holding

from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.cli.main import main
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import LabelOperator, LabelRequirement, NodeRule, Resources
from steepest.events.loss import JobWatched
from steepest.events.parameters import SpeConParameters
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import new_record
from steepest.runtime.recovery.log_identity import open_partitions


def watched(job: str, incarnation: int, left_out: int) -> JobWatched:
    """What the log-collector says of a job."""
    return JobWatched(
        job=job,
        pool="default",
        incarnation=incarnation,
        metric="loss",
        parameters=SpeConParameters(),
        left_out=left_out,
    )


async def write(folder: StateFolder, installation: Installation, *said: JobWatched) -> None:
    """A log of two jobs, and of what the log-collector says of them."""
    log = FileLog(folder.log, installation.layout.partitions())
    await open_partitions(log, installation.layout, SystemClock())
    pool = installation.layout.of_pool("default")
    for job in ("flood", "quiet"):
        submitted = c.JobSubmitted(job=job, request=job, spec=c.JobSpec(command=("train",)))
        await log.append([new_record(pool, "default", submitted, 1)])
    for one in said:
        await log.append([new_record(installation.layout.of_key("loss", one.job), one.job, one, 1)])
    await log.close()


def test_how_many_records_were_left_out_is_said(tmp_path: Path) -> None:
    """The newest count of each incarnation of that job, added up; nothing where nothing was left out."""
    folder = StateFolder(tmp_path / "state")
    installation = Installation(nodes=(NodeSpec("n1", Resources(1_000)),))
    folder.create(installation)
    said = [watched("flood", 1, 0), watched("flood", 1, 900), watched("flood", 2, 0), watched("flood", 2, 700)]
    asyncio.run(write(folder, installation, *said, watched("quiet", 1, 0)))

    def explain(*arguments: str) -> str:
        return CliRunner().invoke(main, ["explain", "--state", str(folder.root), *arguments]).stdout

    assert "1,600 of its loss records" in explain("flood")
    assert "left out" not in explain("quiet")
    assert json.loads(explain("flood", "--json"))["left_out"] == 1_600


def test_a_gang_that_has_no_room_says_which_nodes_it_may_not_run_on(holding: Holding) -> None:
    """Beside what is short on those that it may run on."""
    rule = NodeRule(requires=(LabelRequirement(key="zone", operator=LabelOperator.IN, values=("a",)),))
    spec = c.JobSpec(command=("train",), replicas=2, requests=Resources(1_000), node_rule=rule)
    folder = holding(
        c.PoolConfigured(),
        c.NodeJoined(node="n1", capacity=Resources(1_000), labels={"zone": "a"}),
        c.NodeJoined(node="n2", capacity=Resources(1_000), labels={"zone": "b"}),
        c.JobSubmitted(job="g", request="r", spec=spec),
        c.JobAdmitted(job="g", request="r"),
    )
    said = CliRunner().invoke(main, ["explain", "--state", str(folder.root), "g"]).stdout

    assert "the nodes that it may run on have room for 1 of the 2 replicas that it needs" in said
    assert "the job may not run on node n2: the label zone In [a], which does not hold" in said
    assert "may not run on node n1" not in said


def test_only_the_newest_limit_is_shown(holding: Holding) -> None:
    """A policy changes a limit every few seconds: earlier ones are shown on request."""
    limits = [
        c.LimitsPlanned(
            plan=f"l{cpu_m}",
            node="n1",
            limits=(c.JobLimit(job="a", incarnation=1, cpu_m=cpu_m),),
            because=c.LimitsBecause(rule="flowcon"),
        )
        for cpu_m in (100, 200, 300)
    ]
    folder = holding(
        c.NodeJoined(node="n1", capacity=Resources(1_000)),
        c.JobSubmitted(job="a", request="r", spec=c.JobSpec(command=("train",))),
        c.JobAdmitted(job="a", request="r"),
        c.PlacementPlanned(plan="p", job="a", incarnation=0, nodes=("n1",), because=c.Because(rule="spread")),
        c.JobPlaced(plan="p", attempt=1, job="a", incarnation=1, node="n1"),
        *limits,
    )
    short, long = (
        CliRunner().invoke(main, ["explain", "--state", str(folder.root), "a", *options]).stdout
        for options in ((), ("--verbose",))
    )

    assert [cpu for cpu in ("100m", "200m", "300m") if f"{cpu} CPU planned" in short] == ["300m"]
    assert "2 steps left out: see them with --verbose" in short
    assert long.count("CPU planned") == 3


def test_steps_are_shown_on_request(holding: Holding) -> None:
    """By default their number stands for them, and every decision and outcome is there."""
    folder = holding(
        c.NodeJoined(node="n1", capacity=Resources(1_000)),
        c.JobSubmitted(job="a", request="r", spec=c.JobSpec(command=("train",))),
        c.JobAdmitted(job="a", request="r"),
        c.PlacementPlanned(plan="p", job="a", incarnation=0, nodes=("n1",), because=c.Because(rule="spread")),
        c.StepBegun(plan="p", step=c.Step.START, attempt=1, job="a", incarnation=1, node="n1"),
        c.JobPlaced(plan="p", attempt=1, job="a", incarnation=1, node="n1"),
    )
    short, long = (
        CliRunner().invoke(main, ["explain", "--state", str(folder.root), "a", *options]).stdout
        for options in ((), ("--verbose",))
    )

    assert "a: start planned on n1" in short
    assert "a is placed on n1" in short
    assert "a: starting on n1" not in short
    assert "1 step left out: see them with --verbose" in short
    assert "a: starting on n1" in long
    assert "left out" not in long
