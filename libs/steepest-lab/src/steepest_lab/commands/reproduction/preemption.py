"""``steepest reproduce pickyman``: waiting under preemption, simulated and with real trainings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from steepest.cli.printing.output import give_raw, tell
from steepest_lab.commands.reproduction.output import RECORDINGS, folder_of, tracked, unwritable


def simulated_preemptions(
    data: Path | None, repetitions: int, workers: int | None, folder: Path, *, as_json: bool
) -> None:
    """Draw the workloads, run them under every rule, and write the report.

    Raises:
        click.UsageError: No folder of traces is named.
        InputError: A trace is not there, or the report cannot be written.
    """
    from steepest.cli.printing.tables import show
    from steepest_lab.reproduce.pages.rendering import json_of
    from steepest_lab.reproduce.pickyman.experiment import rows, run, tasks
    from steepest_lab.reproduce.pickyman.report import FILES, write
    from steepest_lab.sim.run import side_by_side

    if data is None:
        raise click.UsageError("name the folder of the traces with --data (docs/workloads.md)")
    todo = tasks(data, repetitions)
    results = list(tracked(side_by_side(run, todo, workers), len(todo)))
    found = rows(todo, results)
    try:
        write(todo, results, found, folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    if as_json:
        give_raw(json_of(found))
        return
    show(
        ("trace", "#GPUs", "#load", "baseline", "#its wait", "#PickyMan's", "#change", "#95 % interval", "verdict"),
        [
            [
                row.trace,
                f"{row.gpus}",
                f"{row.load:g}",
                row.baseline,
                f"{row.baseline_wait_s / 60:,.1f} min",
                f"{row.wait_s / 60:,.1f} min",
                f"{row.wait_change:+.1f} %",
                f"[{row.wait_low:.1f}, {row.wait_high:.1f}]" if repetitions > 1 else "–",
                row.verdict,
            ]
            for row in found
        ],
    )
    tell(f"\n{', '.join(FILES)} are in {folder}")


def real_preemptions(repetitions: int, out: Path, parts: Sequence[str], *, as_json: bool) -> None:
    """Run the parts, all if none is named, and write the report.

    Raises:
        InputError: A library or the storage server is missing, or the report cannot be written.
        ClusterError: A job failed.
    """
    import msgspec

    from steepest.cli.printing.output import give
    from steepest.cli.printing.tables import show
    from steepest_lab.demo.stage import refuse_without_libraries
    from steepest_lab.reproduce.pickyman.real_report import FILES, verdicts, write
    from steepest_lab.reproduce.pickyman.real_run import RealPart, reproduced

    refuse_without_libraries()
    folder = folder_of(out / RECORDINGS)
    wanted = [RealPart(part) for part in parts or RealPart]
    found = reproduced(repetitions, folder, lambda said: tell(said, err=True), wanted)
    try:
        write(found, out)
    except OSError as error:
        raise unwritable(out, error) from error
    if as_json:
        give(msgspec.to_builtins(found))
        return
    show(("claim", "measured", "verdict"), [[one.claim, one.measured, one.judged] for one in verdicts(found)])
    tell(f"\n{', '.join(FILES)} are in {out}")
