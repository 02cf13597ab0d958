"""``steepest demo``: real trainings on an emulated cluster, to the end, with a report.

It owns the command's options, its outputs and its exit status. It must never know what runs, or how a picture is drawn.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from steepest.cli.options import json_option, policy_option
from steepest.cli.printing.output import console, give, tell
from steepest.cli.system.node_selection import DOCKER, cluster_option
from steepest.cli.system.node_selection import engines as engines_asked

if TYPE_CHECKING:
    from steepest.demo.comparison import DemoComparison
    from steepest.demo.play import Audience, Play
    from steepest.demo.report import DemoSummary, Table
    from steepest.demo.run_timeline import RunTimeline
    from steepest.demo.workload import DemoWorkload
    from steepest.events.cluster import ClusterEvent
    from steepest.events.received import Received

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""

WITHOUT_MOVES = "without-moves"
"""The folder of the second run of a comparison, in that of the first."""

EPILOG = """\b
Examples:
  steepest demo
  steepest demo --compare              the same jobs once more with nothing of it, for comparison
  steepest demo --policy flowcon       limit jobs by growth efficiency instead of moving them
  steepest demo --svg demo.svg         keep a picture of the live view
  steepest demo --json | jq .migrations
  steepest demo --cluster docker       in containers, on four Docker engines of its own (root, `make engine images`)

It takes about two minutes on two cores. Ctrl-C stops all jobs. Exits with 0 if every job finished, 1 if one failed, 130
if it was interrupted.
"""


@click.command(epilog=EPILOG)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for the recording and the jobs' files, empty or not there yet. [default: the next .steepest/demo-<n>]",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws order, times and lengths.")
@click.option("--jobs", type=click.IntRange(1, 16), default=12, show_default=True, help="How many jobs.")
@click.option(
    "--length",
    type=click.FloatRange(0.01, 10),
    default=1.0,
    show_default=True,
    help="Of the trainings; 0.5: half as long.",
)
@cluster_option
@policy_option("specon")
@click.option(
    "--compare",
    is_flag=True,
    help="Run the same jobs again with neither moves nor limits, from the same first placement.",
)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write the most telling picture here.")
@json_option
def demo(
    state: Path | None,
    seed: int,
    jobs: int,
    length: float,
    *,
    cluster: str | None,
    policy: str,
    svg: Path | None,
    compare: bool,
    as_json: bool,
) -> None:
    """Run real training jobs on four emulated nodes, watch them being scheduled, and report what happened.

    All that happened is kept in a recording, which `steepest replay` and `steepest check` take.
    """
    import logging

    from steepest.cli.quiet import quiet
    from steepest.demo import stage
    from steepest.demo.workload import workload

    quiet(logging.ERROR)
    stage.refuse_without_libraries()
    if svg is not None:
        _refuse_unwritable(svg)
    folder = stage.own_folder(state)
    given = workload(seed, stage.cores(), jobs, length)
    try:
        with _staged(cluster, given) as staged:
            status = asyncio.run(_demo(folder, staged, policy, svg, compare=compare, as_json=as_json))
    except asyncio.CancelledError:
        status = INTERRUPTED
    sys.exit(status)


@contextlib.contextmanager
def _staged(cluster: str | None, given: DemoWorkload) -> Iterator[DemoWorkload]:
    """The workload on the nodes that were asked for."""
    from steepest.demo import engines

    if cluster == DOCKER:
        with engines.own_engines(given) as staged:
            yield staged
    else:
        nodes = engines_asked(cluster)
        yield engines.on(given, nodes) if nodes else given


async def _demo(
    folder: Path, given: DemoWorkload, policy: str, svg: Path | None, *, compare: bool, as_json: bool
) -> int:
    from steepest.demo.comparison import compare as compared
    from steepest.demo.play import Play
    from steepest.demo.report import summary
    from steepest.demo.workload import parameters, pinned

    first = Play(folder, given, parameters(policy))
    story = await first.run(_audience("demo", as_json=as_json))
    if svg is not None:
        _draw(await first.recorded(), svg)
    figures = summary(story, str(first.recording), str(folder))
    if not as_json:
        _report(story, figures, svg)
    second: Play | None = None
    comparison: DemoComparison | None = None
    if compare and not first.interrupted.is_set():
        places = {job.name: job.first_node for job in story.jobs.values() if job.first_node}
        second = Play(folder / WITHOUT_MOVES, pinned(given, places), parameters("none"))
        if not as_json:
            tell("\nthe same jobs again, from the same first nodes, with neither moves nor limits:")
        told = await second.run(_audience("demo, without moves", as_json=as_json))
        comparison = compared(story, told, str(second.recording))
    plays = [play for play in (first, second) if play is not None]
    interrupted = any(play.interrupted.is_set() for play in plays)
    _finish(figures, comparison, interrupted=interrupted, as_json=as_json)
    if interrupted:
        return INTERRUPTED
    return 1 if any(play.failed for play in plays) else 0


def _audience(title: str, *, as_json: bool) -> Audience:

    from steepest.demo.audience import Lines, NoAudience, Screen

    if as_json:
        return NoAudience()
    return Screen(console(), title) if sys.stdout.isatty() else Lines(tell)


# --- outputs ----------------------------------------------------------------------------------------------------------


def _refuse_unwritable(svg: Path) -> None:
    from steepest.errors import InputError

    if not svg.parent.is_dir():
        raise InputError(f"there is no folder {svg.parent} for the picture", hint="make it, or name another with --svg")


def _draw(events: Sequence[Received[ClusterEvent]], svg: Path) -> None:
    from steepest.demo.svg import most_telling
    from steepest.demo.svg import svg as drawn
    from steepest.errors import InputError

    try:
        svg.write_text(drawn(most_telling(events)), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {svg}: {error.strerror}", hint="name another file with --svg") from error


def _report(story: RunTimeline, figures: DemoSummary, svg: Path | None) -> None:
    from steepest.demo import report

    tell(f"\n{report.result(story)}\n")
    _show(report.job_table(story))
    tell()
    _show(report.move_table(story))
    most_moved = max(story.jobs.values(), key=lambda job: len(job.moves), default=None)
    tell(f"\nThe recording is in {figures.recording}. Go on with")
    tell(f"  steepest replay {figures.state}")
    tell(f"  steepest check {figures.state}")
    if most_moved is not None:
        tell(f"  steepest explain {most_moved.name} --state {figures.state}")
    if svg is not None:
        tell(f"The picture is in {svg}.")


def _show(table: Table) -> None:
    from steepest.cli.printing.tables import show

    columns, rows = table
    if rows:
        show(columns, rows)


def _finish(figures: DemoSummary, comparison: DemoComparison | None, *, interrupted: bool, as_json: bool) -> None:
    import msgspec

    if as_json:
        more = {"interrupted": interrupted} | ({"comparison": comparison} if comparison else {})
        give(msgspec.to_builtins(figures) | msgspec.to_builtins(more))
        return
    if comparison is not None:
        from steepest.demo.comparison import comparison_table, verdict

        tell()
        _show(comparison_table(comparison))
        tell(f"\n{verdict(comparison)}")
        tell(f"The second recording is in {comparison.without_moves_recording}.")
    if interrupted:
        tell("\ninterrupted: all jobs were stopped")
