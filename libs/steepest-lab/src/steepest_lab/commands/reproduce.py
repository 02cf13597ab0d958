"""``steepest reproduce``: the published experiments again, simulated or real, compared with the published results.

Owns the command's options and its outputs. Must never know an experiment.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from steepest.cli.options import FolderPath, OneOf, json_option
from steepest.cli.printing.output import give_raw, tell
from steepest_lab.commands.reproduction.gangs import real_gangs, simulated_gangs
from steepest_lab.commands.reproduction.output import RECORDINGS, folder_of, tracked, unwritable
from steepest_lab.commands.reproduction.preemption import real_preemptions, simulated_preemptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steepest_lab.reproduce.experiments.run import Reproduction
    from steepest_lab.reproduce.testbed.reproduce import OnRun
    from steepest_lab.reproduce.testbed.run import RunResult, RunTask

PAPER_NAMES = ("specon", "flowcon")
"""The papers of ``steepest_lab.reproduce.papers``, named here to save the import; a test compares them."""

PICKYMAN = "pickyman"
"""Its claims are no effects on published workloads, so its experiments have a form of their own."""

PICKYMAN_PARTS = ("run-times", "overheads", "cluster")
"""The parts of ``steepest_lab.reproduce.pickyman.real_run.RealPart``; a test compares them."""

GANGS = "dragon"
"""Its claims are about loads that it does not state: they are stated here, and have a report of their own."""

GANG_PARTS = ("not-scaled", "dragon", "no-scaling", "no-locality", "fixed")
"""The parts of ``steepest_lab.reproduce.dragon.gang_runs.PARTS``; a test compares them."""

SPECON_PARTS = ("fixed-20", "mixed-20")
FLOWCON_PARTS = ("flowcon-3", "flowcon-5", "flowcon-10", "flowcon-15", "flowcon2-20")
"""Experiments of ``steepest_lab.reproduce.papers``; a test compares them."""

PARTS = {PICKYMAN: PICKYMAN_PARTS, GANGS: GANG_PARTS, "specon": SPECON_PARTS, "flowcon": FLOWCON_PARTS}

OUT = "out/reproduce"

SIMULATED_TIMES, REAL_TIMES, GANG_TIMES, PICKYMAN_TIMES = 30, 5, 3, 5

EPILOG = """\b
Examples:
  steepest reproduce specon
  steepest reproduce flowcon --repetitions 5 --out /tmp/flowcon
  steepest reproduce pickyman --data TRACES     waiting times under preemption, on jobs of public traces
  steepest reproduce dragon --repetitions 1     gangs at stated loads, and the ablation
  steepest reproduce specon --json | jq '.[] | select(.verdict == "worse")'
  steepest reproduce specon --real --repetitions 1     real trainings on emulated nodes; 20 minutes on two cores
  steepest reproduce specon --real --part mixed-20     one experiment: four runs a repetition
  steepest reproduce flowcon --real     likewise on Docker engines (root, `make engine images`); two hours
  steepest reproduce pickyman --real    run times, overheads and waiting of streamed trainings (`make storage`)
  steepest reproduce pickyman --real --part overheads     one of its experiments
  steepest reproduce dragon --real      distributed trainings, on nodes joined by links as root; an hour
  steepest reproduce dragon --real --part fixed --repetitions 1     one run; the report is of all that have run

It writes report.md, report.html with plots, results.csv and results.json. Simulated, the same number of repetitions gives
the same files, on any number of processes; --real keeps the recordings of all runs, and repeats none that is complete.
Which experiments there are, and what had to be assumed: docs/reproduction.md, docs/docker.md.
"""


@click.command(epilog=EPILOG)
@click.argument("paper", type=OneOf((*PAPER_NAMES, PICKYMAN, GANGS)))
@click.option(
    "--repetitions",
    type=click.IntRange(1, 10_000),
    help="Repeat each experiment so often, with seeds from 0.  "
    f"[default: {SIMULATED_TIMES}; {GANG_TIMES} of dragon; {REAL_TIMES} with --real]",
)
@click.option(
    "--out",
    type=FolderPath(),
    help=f"Write the report to this folder; files there are replaced.  [default: {OUT}/PAPER]",
)
@click.option("--jobs", "workers", type=click.IntRange(min=1), help="Use so many processes; default: one per core.")
@click.option(
    "--data",
    type=FolderPath(),
    envvar="STEEPEST_DATA",
    help="Read the traces of pickyman's workloads from this folder.",
)
@click.option("--real", is_flag=True, help="Run real trainings in place of simulated ones, a tenth as long.")
@click.option(
    "--part",
    "parts",
    type=OneOf([*SPECON_PARTS, *FLOWCON_PARTS, *PICKYMAN_PARTS, *GANG_PARTS]),
    multiple=True,
    help="With --real, run this part only; may be repeated. What has run to its end is kept.",
)
@json_option
def reproduce(
    *,
    paper: str,
    repetitions: int | None,
    out: Path | None,
    workers: int | None,
    data: Path | None,
    real: bool,
    parts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run the published experiments of PAPER again on simulated nodes, and compare what comes out.

    Each effect comes with its 95 % confidence interval and a verdict: within a third of the published effect, inconclusive,
    better, worse, overshoots (more than twice the effect) or opposite.
    """
    from steepest.app.extras import refuse_without

    if real and workers:
        raise click.UsageError("--real makes one run after the other: leave --jobs out")
    if parts and not real:
        raise click.UsageError("--part is for --real")
    if strange := sorted({*parts} - {*PARTS.get(paper, ())}):
        raise click.UsageError(
            f"{paper} has no part {strange[0]}; its parts: {', '.join(PARTS.get(paper, ())) or 'none'}"
        )
    refuse_without(
        ("jinja2", "matplotlib"),
        "a reproduction needs",
        "In a checkout run `make dev`; elsewhere `pip install 'steepest-lab[reports]'`.",
    )
    if paper == PICKYMAN and real:
        real_preemptions(repetitions or 1, out or Path(OUT) / f"{paper}-real", parts, as_json=as_json)
        return
    if paper == PICKYMAN:
        folder = folder_of(out or Path(OUT) / paper)
        simulated_preemptions(data, repetitions or PICKYMAN_TIMES, workers, folder, as_json=as_json)
        return
    if paper == GANGS:
        folder = folder_of(out or Path(OUT) / (f"{paper}-real" if real else paper))
        if real:
            real_gangs(repetitions or GANG_TIMES, folder, parts, as_json=as_json)
        else:
            simulated_gangs(repetitions or GANG_TIMES, folder, workers, as_json=as_json)
        return
    if real:
        folder = out or Path(OUT) / f"{paper}-real"
        result = _real(paper, repetitions or REAL_TIMES, folder, parts)
    else:
        folder = folder_of(out or Path(OUT) / paper)
        result = _simulated(paper, repetitions or SIMULATED_TIMES, workers)
    _write(result, folder)
    if as_json:
        from steepest_lab.reproduce.pages.rendering import json_of

        give_raw(json_of(result.rows))
    else:
        _show(result, folder)


def _simulated(paper: str, repetitions: int, workers: int | None) -> Reproduction:
    from steepest_lab.reproduce.experiments.run import done, reproduction, tasks
    from steepest_lab.reproduce.papers import SIMULATED

    todo = tasks(SIMULATED[paper], repetitions)
    return reproduction(SIMULATED[paper], repetitions, list(tracked(done(todo, workers), len(todo))))


def _real(name: str, count: int, out: Path, parts: Sequence[str]) -> Reproduction:
    from steepest_lab.demo.stage import refuse_without_libraries
    from steepest_lab.reproduce.papers import ON_ENGINES, REAL, refuse_without_engine

    if name in ON_ENGINES:
        refuse_without_engine()
    else:
        refuse_without_libraries()
    from steepest_lab.reproduce.testbed.reproduce import interruptions, only, repetitions, reproduced, tasks

    paper, folder = only(REAL[name], parts), folder_of(out / RECORDINGS)
    total = len(tasks(paper, count))
    tell(f"{total} runs of real trainings; first, measure what a step of each training costs here", err=True)
    done = list(repetitions(paper, count, folder, _reporter(total)))
    pauses = [] if parts else interruptions(paper, count)
    if pauses:
        tell(f"{len(pauses)} interruptions measured: what saving and resuming costs", err=True)
    return reproduced(paper, count, done, pauses)


def _reporter(total: int) -> OnRun:
    """Print after each run its result, and an estimate of the remaining time."""
    import statistics
    import time

    from steepest.describe import span

    began, done = time.monotonic(), 0

    def on_run(task: RunTask, result: RunResult) -> None:
        nonlocal done
        done += 1
        left_s = (time.monotonic() - began) / done * (total - done)
        mean = f"mean completion {statistics.fmean(result.completions):,.0f} s, makespan {result.makespan:,.0f} s"
        left = f"; about {span(round(1000 * left_s))} left" if done < total else ""
        tell(f"{done} of {total}: {task.about}: {mean}{left}", err=True)

    return on_run


def _write(result: Reproduction, folder: Path) -> None:
    from steepest_lab.reproduce.experiments.report import write

    try:
        write(result, folder)
    except OSError as error:
        raise unwritable(folder, error) from error


def _show(result: Reproduction, folder: Path) -> None:
    from steepest.cli.printing.tables import show
    from steepest_lab.reproduce.experiments.report import FILES, figure, interval, tally
    from steepest_lab.reproduce.experiments.run import Part

    styles = {"within": "green", "worse": "red", "opposite": "red", "overshoots": "red"}
    show(
        ("experiment", "start", "figure", "#published", "#ours", "#95 % interval", "verdict"),
        [
            [
                f"{row.experiment} ({row.setting})" if row.setting else row.experiment,
                row.start,
                row.metric,
                figure(row.published, row.unit),
                figure(row.ours, row.unit),
                interval(row),
                (row.verdict or "", styles.get(row.verdict or "", "")),
            ]
            for row in result.rows
            if row.part is Part.EFFECT
        ],
    )
    tell(f"\n{tally(result.rows)}; {', '.join(FILES)} are in {folder}")
