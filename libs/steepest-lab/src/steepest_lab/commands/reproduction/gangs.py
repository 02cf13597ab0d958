"""The command's part for DRAGON: gangs at stated loads in virtual time, and distributed trainings on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steepest.cli.printing.output import give_raw, tell
from steepest_lab.commands.reproduction.output import RECORDINGS, tracked, unwritable


def simulated_gangs(seeds: int, folder: Path, workers: int | None, *, as_json: bool) -> None:
    """Gangs at the stated loads, and their report."""
    import msgspec

    from steepest.cli.printing.tables import show
    from steepest_lab.reproduce.dragon import loads as dragon
    from steepest_lab.reproduce.dragon import loads_report as dragon_report

    todo = dragon.runs(seeds)
    rows = dragon.figures(todo, list(tracked(dragon.done(todo, workers), len(todo))))
    try:
        dragon_report.write(rows, folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    if as_json:
        give_raw(msgspec.json.encode(rows).decode())
        return
    columns = ("load", "policy", *(f"#{name}" for name in dragon_report.COLUMNS[1:]))
    show(columns, [(row.load, *dragon_report.cells(row)) for row in rows])
    for verdict in dragon_report.verdicts(rows):
        tell(f"* {verdict}")
    tell(f"\n{', '.join(dragon_report.FILES)} are in {folder}")


def real_gangs(count: int, folder: Path, parts: Sequence[str], *, as_json: bool) -> None:
    """Distributed trainings on this machine; what has run to its end in the folder is not repeated.

    Args:
        count: Repetitions of each arm.
        folder: Of the report and the recordings.
        parts: Of :data:`steepest_lab.reproduce.dragon.gang_runs.PARTS`; none: all of them.
        as_json: Whether to print JSON.
    """
    import time

    import msgspec

    from steepest.cli.printing.output import give
    from steepest.cluster.local.links import why_not
    from steepest.describe import span
    from steepest_lab.demo.gangs.workload import LINK_MBIT
    from steepest_lab.demo.stage import refuse_without_libraries
    from steepest_lab.reproduce.dragon import gang_results, gang_runs

    refuse_without_libraries()
    why_no_links = why_not()
    link_mbit = None if why_no_links else LINK_MBIT
    recordings = folder / RECORDINGS
    total = gang_runs.missing(count, recordings, link_mbit, parts=parts)
    tell(
        f"{total} runs of {gang_runs.JOBS} distributed trainings, of {gang_runs.MINUTES} minutes each on two idle cores; "
        "first, measure what a step costs on one node and on two",
        err=True,
    )
    cost = gang_runs.step_cost(link_mbit)
    began, done = time.monotonic(), 0

    def on_run(arm: str, seed: int, one: gang_runs.GangRun) -> None:
        nonlocal done
        done += 1
        left_s = (time.monotonic() - began) / done * (total - done)
        left = f"; about {span(round(1000 * left_s))} left" if done < total else ""
        figures = f"mean completion {one.completion_s:,.0f} s, makespan {one.makespan_s:,.0f} s"
        tell(f"{done} of {total}: {arm}, seed {seed}: {figures}{left}", err=True)

    found = gang_runs.runs(count, recordings, link_mbit, on_run, parts=parts)
    results = gang_results.results(found, cost, link_mbit, why_no_links, gang_runs.JOBS)
    try:
        gang_results.write(results, folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    if as_json:
        give(msgspec.to_builtins(results))
    else:
        tell(gang_results.report(results).markdown)
        tell(f"{', '.join(gang_results.FILES)} are in {folder}")
