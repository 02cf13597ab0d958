"""What the policy ``steepest`` gains over fair sharing on real trainings, in pairs of runs.

The models of ``thesis:mixed-20`` are small NumPy trainings on an emulated node of the local cluster, or with ``--docker``
on a Docker engine that has a core to itself (root, ``make engine images``). Their arrivals are spread over the window in
which the node can do so much work: at a load of 1 as much arrives as it can do, at 1.5 half as much again. Every run has the
same jobs; once they share the node equally, and once ``steepest`` limits them. A pair's runs follow each other, and every
second pair begins with the policy.

A job has learned most when it reports the step at which it has 90 % of its loss reduction, as the reports of both runs of a
pair show together: its losses depend on its steps alone, and how dense a run's own reports are depends on its limits.

Changes are in %, with the 95 % interval of their mean over the pairs (Student's t). A job is late by the mean over the
pairs.

With ``--half`` each job reserves so much CPU that half of them have room on the node. The others wait in the queue, in the
order of their arrival, unless ``steepest`` suspends a job for another one. ``--unchanged numpy`` gives the same trainings
keepers; the SDK then does nothing in them. With ``--unchanged pytorch``, trainings in PyTorch without the SDK take their
places, in the styles of ``tests/frameworks/unchanged_training.py`` in turn. It needs the Python of ``make test-frameworks``.

With ``--thirds`` a third of the jobs each announces steps, prints epochs alone, and prints nothing of its length; each third
has its own mean. The trainings that stand for MNIST always print as their framework does: epochs, and nothing.

``--out FILE`` appends a JSON line a pair, and skips what the file holds already, so that the table can be made in pieces.
Other work on the machine changes the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.frame import unchanged_jobs
from benchmarks.frame.bench import changed, doing, figure, kept, options

from steepest.cli.live.audience import NoAudience
from steepest.cli.live.headline import headline_of
from steepest.events.cluster import Outcome
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.log.files.file_log import FileLog
from steepest.read_models.run_timeline import RunTimeline
from steepest_lab.demo.beside.lateness import lateness, whole
from steepest_lab.demo.play import Play
from steepest_lab.demo.workload import MOVE_COST_MS, DemoWorkload, parameters
from steepest_lab.jobs.harness import SAYS
from steepest_lab.reproduce.testbed import nodes
from steepest_lab.reproduce.testbed.costs import costs
from steepest_lab.reproduce.testbed.jobs import ONE_BATCH, Cost, scaled, whole_node_s
from steepest_lab.reproduce.testbed.nodes import Testbed
from steepest_lab.sim.result import LATE
from steepest_lab.sim.whatif.history import read_history
from steepest_lab.sim.workload import Workload
from steepest_lab.sim.workloads.read import open_workload
from tools.real_curves import learned_at

WORKLOAD = "thesis:mixed-20"
SAY: Mapping[str, str] = {"softmax": "nothing", "mlp": "epochs"}
"""What the trainings say that print as a framework does."""

WINDOW_S = 300
"""Over which that workload's arrivals are drawn."""

SHARE = 0.4
"""Of two cores, for the emulated node: as much as the engine has. What starts, moves and measures jobs on more nodes would
take CPU from all of them."""

STEP: Mapping[str, Sequence[str]] = {"local": (), "docker": ONE_BATCH}
"""How large a step is. The image's BLAS is so much slower that its smallest steps take as long as the default ones here."""

Reports = Sequence[tuple[int, int, float]]
"""When a job reported which step and loss, in milliseconds."""


class Run(msgspec.Struct, frozen=True):
    """A run, and the reports of each of its jobs."""

    story: RunTimeline
    reports: Mapping[str, Reports]


FAIR, OURS = "spread", "steepest"
COLUMNS = {"completion_s": "mean", "median_s": "median", "makespan_s": "makespan", "t90_s": "T90"}
"""Figures of a run's headline, by what they are called in the table."""


def main() -> None:
    """Run the pairs that are not known yet, and print a line a load."""

    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--docker", action="store_true", help="on a Docker engine instead of an emulated node")
        parser.add_argument("--half", action="store_true", help="the node has room for half of the jobs")
        parser.add_argument("--unchanged", choices=unchanged_jobs.KINDS, help="the jobs have keepers; with --half")
        parser.add_argument(
            "--move-cost", type=float, default=MOVE_COST_MS / 1000, help="seconds that `steepest` counts for a stop"
        )
        parser.add_argument("--thirds", action="store_true", help="only a third of the jobs announces its steps")
        parser.add_argument("--state", type=Path, default=Path("out/real-pairs"), help="for the recordings")
        parser.add_argument("--out", type=Path, help="JSON lines of what was measured")

    asked = options(
        __doc__,
        more,
        pairs=(1, 1, 5),
        load=((1.5,), (1.5,), (1.0, 1.5)),
        jobs=(1, 4, 10),
        length=(0.1, 0.25, 1.0),
        seed=(0, 0, 0),
    )
    where = "docker" if asked.docker else "local"
    if asked.docker and asked.unchanged:
        raise SystemExit("--unchanged is for the emulated node")
    with _testbed(docker=asked.docker) as testbed:
        doing("measuring the cost of the trainings")
        models = dict.fromkeys(job.model for job in arriving(asked, asked.load[0]).jobs)
        measured: Mapping[str, Cost] = costs(testbed, models, STEP[where])
        for load in asked.load:
            given = scaled(arriving(asked, load), measured, testbed, asked.seed, STEP[where])
            of = {"where": where, "load": load, "jobs": asked.jobs, "length": asked.length, "seed": asked.seed}
            of |= {} if asked.move_cost == MOVE_COST_MS / 1000 else {"move_cost": asked.move_cost}
            said: Mapping[str, str] = {}
            if asked.half or asked.unchanged:
                given, of = with_room_for_half(given, testbed), {**of, "half": True}
            if asked.unchanged:
                given, of = unchanged_jobs.with_keepers(given, asked.unchanged), {**of, "unchanged": asked.unchanged}
            if asked.thirds:
                given, said = in_thirds(given)
                of = {**of, "thirds": True}
            pairs = [
                kept(
                    asked.out,
                    {**of, "pair": number},
                    partial(_pair, given, number, asked.state / f"{where}-{load:g}-{number}", asked.move_cost),
                )
                for number in range(asked.pairs)
            ]
            figure(f"{where}, load {load:g}", **line(pairs), **by_third(pairs, said), **stopped(pairs))


def arriving(asked: Any, load: float) -> Workload:
    """The workload's first jobs, whose arrivals are stretched to the window in which so much work makes this load."""
    drawn = open_workload(WORKLOAD, seed=asked.seed)
    taken = [msgspec.structs.replace(job, work_s=job.work_s * asked.length) for job in drawn.jobs[: asked.jobs]]
    window_s = sum(whole_node_s(job) for job in taken) / load
    stretched = [
        msgspec.structs.replace(job, submit_s=window_s * job.submit_s / max(WINDOW_S, job.submit_s)) for job in taken
    ]
    return msgspec.structs.replace(drawn, jobs=stretched)


def with_room_for_half(given: DemoWorkload, testbed: Testbed) -> DemoWorkload:
    """The jobs, of which each reserves so much that half of them have room on the node."""
    request = Resources(cpu_m=testbed.cpu_m // max(1, len(given.arrivals) // 2))
    arrivals = (
        msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, requests=request)) for one in given.arrivals
    )
    return msgspec.structs.replace(given, arrivals=tuple(arrivals))


def stopped(pairs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How often ``steepest`` suspended a job, and how many steps that lost, in all pairs together; empty: never."""
    times, steps = (sum(pair[OURS].get(name, 0) for pair in pairs) for name in ("suspensions", "steps_lost"))
    return {"suspensions": times, "steps lost": steps} if times else {}


def in_thirds(given: DemoWorkload) -> tuple[DemoWorkload, Mapping[str, str]]:
    """The jobs, of which a third each says steps, epochs and nothing, and what each says."""
    others = [arrival.job for arrival in given.arrivals if arrival.kind not in SAY]
    said = {arrival.job: SAY.get(arrival.kind, "") for arrival in given.arrivals} | {
        job: SAYS[number % len(SAYS)] for number, job in enumerate(others)
    }
    arrivals = [
        msgspec.structs.replace(
            one, spec=msgspec.structs.replace(one.spec, command=(*one.spec.command, "--says", said[one.job]))
        )
        for one in given.arrivals
    ]
    return msgspec.structs.replace(given, arrivals=tuple(arrivals)), said


def by_third(pairs: Sequence[Mapping[str, Any]], said: Mapping[str, str]) -> dict[str, str]:
    """The change of the mean completion time of the jobs that say the same."""

    def mean_s(run: Mapping[str, Any], says: str) -> float:
        return statistics.fmean(s for job, s in run["completions"].items() if said[job] == says)

    return {
        f"say {says}": changed([100 * (mean_s(pair[OURS], says) / mean_s(pair[FAIR], says) - 1) for pair in pairs])
        for says in SAYS
        if says in said.values()
    }


def line(pairs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The figures of one load: each one's change, and who is late."""
    jobs = pairs[0][FAIR]["completions"]
    ours, fair = (
        {job: statistics.fmean(pair[policy]["completions"][job] for pair in pairs) for job in jobs}
        for policy in (OURS, FAIR)
    )
    late = lateness(ours, fair)
    assert late is not None  # all jobs of a pair have finished
    return {
        **{
            name: changed([100 * (pair[OURS][column] / pair[FAIR][column] - 1) for pair in pairs])
            for column, name in COLUMNS.items()
        },
        f"more than {whole(LATE)} later": f"{late.jobs} of {late.of}, worst {whole(late.worst, signed=True)}",
    }


@contextlib.contextmanager
def _testbed(*, docker: bool) -> Iterator[Testbed]:
    if docker:
        from steepest_lab.reproduce.testbed.node import node  # noqa: PLC0415 - the client of engines is an extra

        with node() as engine:
            yield nodes.one(engine)
    else:
        yield nodes.emulated(1, SHARE)


def _pair(given: DemoWorkload, number: int, folder: Path, move_cost_s: float) -> dict[str, Any]:
    order = (FAIR, OURS) if number % 2 == 0 else (OURS, FAIR)
    runs = {policy: _run(given, policy, folder / policy, move_cost_s) for policy in order}
    steps = {job: step_learned([run.reports[job] for run in runs.values()]) for job in runs[FAIR].story.jobs}
    return {policy: figures(run, steps) for policy, run in runs.items()}


def _run(given: DemoWorkload, policy: str, folder: Path, move_cost_s: float) -> Run:
    doing(f"{folder.parent.name}: {len(given.arrivals)} jobs under {policy}")
    shutil.rmtree(folder, ignore_errors=True)
    play = Play(folder, given, _costing(parameters(policy), move_cost_s))
    story = asyncio.run(play.run(NoAudience()))
    if play.interrupted.is_set():
        raise KeyboardInterrupt
    if unfinished := [job.name for job in story.jobs.values() if job.outcome is not Outcome.FINISHED]:
        raise SystemExit(f"{', '.join(unfinished)} did not finish: steepest jobs --state {folder}")
    return Run(story, asyncio.run(_reports(play.recording)))


def _costing(pool: PoolParameters, move_cost_s: float) -> PoolParameters:
    steepest = msgspec.structs.replace(pool.steepest, move_cost_ms=round(1000 * move_cost_s))
    return msgspec.structs.replace(pool, steepest=steepest)


async def _reports(recording: Path) -> dict[str, Reports]:
    log = FileLog.open(recording, read_only=True)
    try:
        seen = (await read_history(log, 1)).seen
    finally:
        await log.close()
    return {job: [(at_ms, step, loss) for at_ms, _, step, loss in one.reports] for job, one in seen.items()}


def step_learned(runs: Sequence[Reports]) -> int | None:
    """The step at which a job has 90 % of its loss reduction; None if its loss does not fall."""
    losses = {step: loss for reports in runs for _, step, loss in reports}
    reached = learned_at(sorted(losses.items()))
    return None if reached is None else int(reached)


def figures(run: Run, steps: Mapping[str, int | None]) -> dict[str, Any]:
    """What a run comes to: times in seconds; ``steps``: at which each job has learned most."""
    jobs = run.story.jobs.values()
    learned_ms = {
        job.name: min(at_ms for at_ms, step, _ in run.reports[job.name] if step >= learned) - job.submitted_ms
        for job in jobs
        if (learned := steps[job.name]) is not None
    }
    return {
        **msgspec.structs.asdict(headline_of(run.story)),
        "t90_s": statistics.fmean(learned_ms.values()) / 1000 if learned_ms else math.nan,
        "learned": {job: at_ms / 1000 for job, at_ms in learned_ms.items()},
        "moves": sum(len(job.moves) for job in jobs),
        "suspensions": run.story.suspensions,
        "steps_lost": run.story.steps_lost,
        "completions": {job.name: (job.completion_ms or 0) / 1000 for job in jobs},
    }


if __name__ == "__main__":
    main()
