"""FlowCon on real engines: limits in the containers' own groups, arrivals on uneven workers, an experiment to its report."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.harness.docker_harness import DockerHarness, why_not
from tests.harness.kernel_group import KernelGroup
from tests.harness.system.running_system import RunningSystem
from tests.harness.waiting import until
from tests.integration import two_trainings
from tests.integration.docker import slow_training

from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants import Status, check
from steepest_lab.docker_engines import images
from steepest_lab.docker_engines.engine_daemon import DockerEngine, running_engine
from steepest_lab.reproduce.experiments.placement import Start
from steepest_lab.reproduce.experiments.report import FILES, write
from steepest_lab.reproduce.testbed import nodes
from steepest_lab.reproduce.testbed.costs import costs
from steepest_lab.reproduce.testbed.flowcon import PAPER
from steepest_lab.reproduce.testbed.jobs import Cost
from steepest_lab.reproduce.testbed.node import node
from steepest_lab.reproduce.testbed.nodes import CPU_M
from steepest_lab.reproduce.testbed.reproduce import reproduced
from steepest_lab.reproduce.testbed.run import repetition
from steepest_lab.reproduce.verdict import Agreement

MEASURED = 8
WORKERS_M = {"a": 500, "b": 230, "c": 150, "d": 110}
JOBS = 8
SHORTER = 8


@pytest.fixture(scope="module")
def held() -> Iterator[DockerEngine]:
    """The experiments' engine, which runs alone: no other process uses its core."""
    if why := why_not():
        pytest.skip(why)
    with node() as engine:
        yield engine


@pytest.fixture(params=["hard", "soft"])
def system(request: pytest.FixtureRequest, tmp_path: Path, held: DockerEngine) -> Iterator[RunningSystem]:
    """The whole system on that engine under FlowCon, with limits of either kind."""
    for script in (two_trainings, slow_training):
        shutil.copy(str(script.__file__), tmp_path)
    running = RunningSystem(
        tmp_path / "state",
        *("--cluster", f"docker={held.url}", "--node", f"held={CPU_M}m", "--folder", str(tmp_path)),
        *("--policy", "flowcon", "--interval", "1s", "--heartbeat", "250ms"),
        *(["--soft-limits"] if request.param == "soft" else []),
    )
    running.start()
    yield running
    running.end()


def completes(system: RunningSystem, job: str) -> int:
    """Where in the log FlowCon first lists a job as completing."""

    def listed(found: Received[c.ClusterEvent]) -> int | None:
        event = found.event
        limits = event.limits if isinstance(event, c.LimitsPlanned) else ()
        named = [limit for limit in limits if limit.job == job and limit.growth_list is c.GrowthList.COMPLETING]
        return found.offset if named else None

    return system.await_event(listed)


def applied(system: RunningSystem, job: str, since: int) -> tuple[int, int]:
    """The first CPU limit of a job that comes in force from an offset on: where, and how much."""

    def wanted(found: Received[c.ClusterEvent]) -> tuple[int, int] | None:
        event = found.event
        if isinstance(event, c.LimitsApplied) and event.job == job and event.cpu_m is not None:
            return found.offset, event.cpu_m
        return None

    return system.await_event(wanted, since)


def learns(system: RunningSystem, job: str) -> int:
    """Where in the log a job's growth is first measured, so that it computes by then."""

    def measured(found: Received[c.ClusterEvent]) -> int | None:
        event = found.event
        return found.offset if isinstance(event, c.GrowthMeasured) and event.job == job else None

    return system.await_event(measured)


def used_m(system: RunningSystem, since: int) -> dict[str, float]:
    """Mean measured CPU of each job over some heartbeats from an offset on."""
    found: list[c.NodeUsage] = []

    def enough(received: Received[c.ClusterEvent]) -> bool | None:
        if isinstance(received.event, c.NodeUsage):
            found.append(received.event)
        return len(found) >= MEASURED or None

    system.await_event(enough, since)
    return {job: sum(each.jobs.get(job, 0) for each in found[2:]) for job in found[-1].jobs}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_new_job_gets_more_than_one_that_has_converged(
    system: RunningSystem, held: DockerEngine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The planned limit reaches the converged job's container immediately, and leaves the rest to the new job."""
    options = ("--workdir", str(tmp_path))
    system.submit("old", "python3", "slow_training.py", str(tmp_path), options=options)
    at = completes(system, "old")
    system.submit("new", "python3", "two_trainings.py", "steep", options=options)
    at, limit_m = applied(system, "old", at)
    group = KernelGroup(DockerHarness(tmp_path / "state" / "cluster", {"held": held}).first_process(ReplicaId("old")))
    if "soft" in request.node.name:
        asyncio.run(until(lambda: abs(group.cpu_weight() - 1 / 3) < 0.05))
        assert group.cpu_m() is None
    else:
        asyncio.run(until(lambda: group.cpu_m() == limit_m))
    used = used_m(system, max(at, learns(system, "new")) + 1)

    assert limit_m == CPU_M // 3
    assert used["old"] * 1.3 < used["new"], used
    assert system.breaches() == []


@pytest.fixture
def workers(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSystem]:
    """Four engines of uneven sizes, each with its own folder, socket and control group, under FlowCon 2.0."""
    if why := why_not():
        pytest.skip(why)
    shutil.copy(str(slow_training.__file__), tmp_path)
    with contextlib.ExitStack() as stack:
        folder = tmp_path_factory.mktemp("four")
        started = [stack.enter_context(running_engine(folder / name, cpu_m=WORKERS_M[name])) for name in WORKERS_M]
        for engine in started:
            with contextlib.closing(engine.client()) as client:
                images.provide(client, images.default_folder())
        running = RunningSystem(
            tmp_path / "state",
            *("--cluster", f"docker={','.join(engine.url for engine in started)}", "--folder", str(tmp_path)),
            *(option for name, cpu_m in WORKERS_M.items() for option in ("--node", f"{name}={cpu_m}m")),
            *("--policy", "flowcon", "--placement", "flowcon2", "--interval", "500ms", "--heartbeat", "250ms"),
        )
        running.start()
        yield running
        running.end()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_arrivals_on_four_uneven_engines_go_where_most_can_be_reclaimed(workers: RunningSystem, tmp_path: Path) -> None:
    """An arrival finds C/(k+1) of a worker with k converged jobs: places are as capacities, and all finish."""
    expected: dict[str, int] = dict.fromkeys(WORKERS_M, 0)
    for number in range(JOBS):
        best = max(WORKERS_M, key=lambda name: WORKERS_M[name] / (expected[name] + 1))
        expected[best] += 1
        workers.submit(
            f"job-{number}", "python3", "slow_training.py", str(tmp_path), options=("--workdir", str(tmp_path))
        )
        completes(workers, f"job-{number}")
    placed = [each.event.node for each in workers.events() if isinstance(each.event, c.JobPlaced)]
    (tmp_path / "enough").touch()
    outcomes = [workers.await_end(f"job-{number}").outcome for number in range(JOBS)]
    limits = [each.event for each in workers.events() if isinstance(each.event, c.LimitsApplied)]

    assert expected == {"a": 4, "b": 2, "c": 1, "d": 1}
    assert {name: placed.count(name) for name in WORKERS_M} == expected
    assert outcomes == [c.Outcome.FINISHED] * JOBS
    assert any(limit.cpu_m is not None for limit in limits)
    assert all(limit.cpu_m < WORKERS_M[limit.node] for limit in limits if limit.cpu_m is not None)
    assert workers.breaches() == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_experiment_ends_with_a_report(held: DockerEngine, tmp_path: Path) -> None:
    """The three jobs, each an eighth as long: all finish by default and under FlowCon, and the report has every figure."""
    experiment = PAPER.experiments[0]
    paper = msgspec.structs.replace(PAPER, experiments=(experiment,))
    testbed = nodes.one(held)
    measured = costs(testbed, ["vae-flowcon", "mnist-pytorch", "mnist-tensorflow"])
    shorter = {name: Cost(one.start_s, one.step_s * SHORTER) for name, one in measured.items()}
    done = repetition(experiment, 0, shorter, testbed, tmp_path / "recordings")
    write(reproduced(paper, 1, [done]), tmp_path / "report")

    rows = json.loads((tmp_path / "report" / "results.json").read_bytes())
    effects = [row for row in rows if row["part"] == "effect"]
    assert len(effects) == sum(len(arm.published) for arm in experiment.arms)
    assert {row["verdict"] for row in effects} <= {verdict.value for verdict in Agreement}
    assert sorted(file.name for file in (tmp_path / "report").iterdir()) == sorted(FILES)
    assert "--real" in (tmp_path / "report" / "report.md").read_text()
    assert (tmp_path / "report" / "report.html").read_text().count("<svg") == 2  # a forest plot and a picture
    (runs,) = done.starts
    for ran in (runs.before, *runs.arms):
        assert len(ran.completions) == len(measured)
        assert 0 < max(ran.completions) <= ran.makespan
        broken = [each for each in check(ran.events) if each.status is Status.BROKEN]
        assert broken == []
    assert not any(isinstance(each.event, c.LimitsPlanned) for each in runs.before.events)
    assert all(any(isinstance(each.event, c.LimitsPlanned) for each in arm.events) for arm in runs.arms)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_flowcon_2_runs_on_four_engines(tmp_path: Path) -> None:
    """Four of its jobs, each an eighth as long: by default where the start says, under FlowCon 2.0 where it places them."""
    if why := why_not():
        pytest.skip(why)
    experiment = PAPER.experiments[-1]
    with nodes.several(len(experiment.nodes().nodes)) as testbed:
        drawn = {job.model for job in experiment.jobs(Start.EVEN, 0).jobs[:4]}
        measured = costs(testbed, sorted(drawn))
        shorter = {name: Cost(one.start_s, one.step_s * SHORTER) for name, one in measured.items()}
        done = repetition(experiment, 0, shorter, testbed, tmp_path / "recordings", most_jobs=4)

    for runs in done.starts:
        (flowcon2,) = runs.arms
        assert len(flowcon2.completions) == 4
        assert any(isinstance(each.event, c.LimitsPlanned) for each in flowcon2.events)
        for ran in (runs.before, flowcon2):
            assert [each for each in check(ran.events) if each.status is Status.BROKEN] == []
