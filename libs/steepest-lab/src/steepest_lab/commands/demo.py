"""``steepest demo``: real trainings on an emulated cluster, to the end, with a report.

It owns the command's options, its outputs and its exit status. It must never know what runs, or how a picture is drawn.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from steepest.cli.options import FolderPath, json_option, policy_option
from steepest.cli.printing.output import console, give, tell
from steepest.cli.system.node_selection import DOCKER, LOCAL, cluster_option
from steepest.cli.system.node_selection import engines as engines_asked

if TYPE_CHECKING:
    from steepest.app.settings.tree import NotifySettings
    from steepest.events.cluster import ClusterEvent
    from steepest.events.received import Received
    from steepest.read_models.run_timeline import RunTimeline
    from steepest_lab.demo.beside.comparison import DemoComparison, Pair
    from steepest_lab.demo.beside.what_if import DemoWhatIf
    from steepest_lab.demo.gangs.report import GangSummary
    from steepest_lab.demo.play import Audience, Play
    from steepest_lab.demo.report import DemoSummary, Table
    from steepest_lab.demo.workload import DemoWorkload

INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""

PICKYMAN = "pickyman"
"""The policy whose demo has jobs that stream their data from a storage server, on emulated nodes."""

MOVING = "specon"
"""The policy of the demo of unchanged trainings, unless another one is named: it moves what has stopped learning."""

EPILOG = """\b
Examples:
  steepest demo
  steepest demo --compare              compared with fair sharing, three pairs of runs: six times as long
  steepest demo --policy specon        move jobs that have stopped learning
  steepest demo --policy flowcon       limit jobs by growth efficiency instead of moving them
  steepest demo --policy pickyman      let short jobs have the places of long ones, which resume (`make storage`)
  steepest demo --policy dragon        distributed trainings that are placed whole and scaled with the load
  steepest demo --unchanged            trainings without a line of ours, moved as they are (root, `make criu`)
  steepest demo --faults               with trainings that hang, diverge and idle, found and dealt with
  steepest demo --svg demo.svg         keep a picture of the live view
  steepest demo --json | jq .migrations
  steepest demo --cluster docker       in containers, on four Docker engines of its own (root, `make engine images`)

It takes about two minutes on two cores. Ctrl-C stops all jobs. Exits with 0 if every job finished, 1 if one failed, 130
if it was interrupted.
"""


@click.command(epilog=EPILOG)
@click.option(
    "--state",
    type=FolderPath(),
    help="Keep the recording and the jobs' files in this empty or new folder. [default: the next .steepest/demo-<n>]",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Draw arrivals and lengths from this seed."
)
@click.option("--jobs", type=click.IntRange(1, 16), default=12, show_default=True, help="Run so many jobs.")
@click.option(
    "--length",
    type=click.FloatRange(0.01, 10),
    default=1.0,
    show_default=True,
    help="Make the trainings so many times as long.",
)
@cluster_option
@policy_option("steepest")
@click.option(
    "--compare",
    is_flag=True,
    help="Run the same jobs under fair sharing too, in pairs, from the same first placement; else that is simulated, "
    "under a policy that moves or limits jobs.",
)
@click.option("--unchanged", is_flag=True, help="Run trainings that know nothing of Steepest; keepers move them.")
@click.option(
    "--pairs", type=click.IntRange(3, 30), default=3, show_default=True, help="Run so many pairs with --compare."
)
@click.option("--faults", is_flag=True, help="Add a training that hangs, one that diverges and one that idles.")
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write a picture of the live view to this file."
)
@click.option("--page/--no-page", default=True, help="Serve the live page of the run, on this machine only.")
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
    unchanged: bool,
    faults: bool,
    pairs: int,
    page: bool,
    as_json: bool,
) -> None:
    """Run real training jobs on four emulated nodes, watch them being scheduled, and report what happened.

    All that happened is kept in a recording, which `steepest replay` and `steepest check` take.
    """
    import asyncio

    from steepest.app.extras import refuse_without
    from steepest_lab.demo import stage
    from steepest_lab.demo.faults import webhook, with_faults
    from steepest_lab.demo.gangs import workload as gang_workload
    from steepest_lab.demo.preemption.streaming import with_storage
    from steepest_lab.demo.preemption.streaming import workload as streaming_workload
    from steepest_lab.demo.unchanged import refuse_without_keepers, unchanged_workload
    from steepest_lab.demo.workload import workload

    stage.refuse_without_libraries()
    if svg is not None:
        _refuse_unwritable(svg)
    of_gangs = gang_workload.is_for(policy)
    if of_gangs and (compare or cluster not in {None, LOCAL}):
        raise click.UsageError(f"under {policy}, gangs are shown on emulated nodes: leave --compare and --cluster out")
    if unchanged:
        if of_gangs or policy == PICKYMAN or compare or cluster not in {None, LOCAL}:
            raise click.UsageError("--unchanged: emulated nodes, single jobs and one run only")
        refuse_without_keepers()
        if click.get_current_context().get_parameter_source("policy") is ParameterSource.DEFAULT:
            policy = MOVING
    streams = policy == PICKYMAN and cluster is None
    if faults:
        refuse_without(("apprise",), "messages about faults need", "install steepest[notify]")
        if of_gangs or streams or compare or unchanged or cluster not in {None, LOCAL}:
            raise click.UsageError("--faults: emulated nodes, the usual trainings and one run only")
    folder = stage.own_folder(state)
    why_no_links = _why_no_links() if of_gangs else ""
    if unchanged:
        given = unchanged_workload(seed, stage.cores(), jobs, length)
    elif of_gangs:
        link_mbit = None if why_no_links else gang_workload.LINK_MBIT
        given = gang_workload.gang_workload(seed, stage.cores(), jobs, length, link_mbit)
    else:
        given = streaming_workload(seed, length) if streams else workload(seed, stage.cores(), jobs, length)
        given = with_faults(given, length) if faults else given
    try:
        with with_storage(given) if streams else _staged(cluster, given) as staged:
            beside_fair = not (compare or of_gangs or streams or unchanged or faults) and _shares_unfairly(policy)
            asked = Asked(
                policy, svg, pairs if compare else 0, beside_fair, of_gangs, why_no_links, as_json, page, unchanged
            )
            with webhook() if faults else contextlib.nullcontext() as hook:
                status = asyncio.run(_demo(folder, staged, asked, hook))
    except asyncio.CancelledError:
        status = INTERRUPTED
    sys.exit(status)


class Asked(NamedTuple):
    """The options of a run.

    Attributes:
        pairs: Of runs, to compare; 0: none.
        beside_fair: Whether fair sharing of the same jobs is simulated.
        of_gangs: Whether distributed trainings are shown, under DRAGON.
        why_no_links: Why their nodes have no links; empty if they do.
        page: Whether its live page is served.
        unchanged: Whether the trainings that were moved are run once more, unmoved.
    """

    policy: str
    svg: Path | None
    pairs: int
    beside_fair: bool
    of_gangs: bool
    why_no_links: str
    as_json: bool
    page: bool
    unchanged: bool


def _shares_unfairly(policy: str) -> bool:
    from steepest.policies.named import POLICIES

    chosen = POLICIES[policy]
    return chosen.moves or chosen.limits or chosen.steepest


def _why_no_links() -> str:
    from steepest.cluster.local.links import why_not

    return why_not()


@contextlib.contextmanager
def _staged(cluster: str | None, given: DemoWorkload) -> Iterator[DemoWorkload]:
    """The workload on the requested nodes."""
    from steepest_lab.demo import engines

    if cluster == DOCKER:
        with engines.own_engines(given) as staged:
            yield staged
    else:
        nodes = engines_asked(cluster)
        yield engines.on(given, nodes) if nodes else given


async def _demo(
    folder: Path, given: DemoWorkload, asked: Asked, hook: tuple[NotifySettings, list[str]] | None = None
) -> int:
    from steepest_lab.demo.beside.comparison import arms, compare
    from steepest_lab.demo.gangs.report import gang_summary
    from steepest_lab.demo.gangs.workload import gang_parameters
    from steepest_lab.demo.play import Play
    from steepest_lab.demo.report import summary
    from steepest_lab.demo.workload import parameters, pinned

    policy, svg, pairs, as_json = asked.policy, asked.svg, asked.pairs, asked.as_json
    notify = () if hook is None else hook[:1]
    first = Play(folder, given, gang_parameters(policy) if asked.of_gangs else parameters(policy), *notify)
    async with _page(first, shown=asked.page and not as_json) as title:
        timeline = await first.run(_audience(title, as_json=as_json))
    if svg is not None:
        _draw(await first.recorded(), svg)
    figures = summary(timeline, str(first.recording), str(folder))
    gangs = None
    if asked.of_gangs:
        gangs = gang_summary(timeline.scalings, timeline.began_ms, given.link_mbit, asked.why_no_links)
    if not as_json:
        _report(timeline, figures, gangs, svg)
    plays = [first]
    comparison: DemoComparison | None = None
    if pairs and not first.interrupted.is_set():
        again = pinned(given, {job.name: job.first_node for job in timeline.jobs.values() if job.first_node})
        for name, under in arms(pairs, policy):
            plays.append(Play(folder / name, again, parameters(under)))
            if not as_json:
                tell(
                    f"\nrun {len(plays)} of {2 * pairs}: the same jobs from the same first nodes, {_arm(under, policy)}"
                )
            await plays[-1].run(_audience(f"demo, run {len(plays)}: {_arm(under, policy)}", as_json=as_json))
            if plays[-1].interrupted.is_set():
                break
        else:
            comparison = compare(*_paired(plays))
    interrupted = plays[-1].interrupted.is_set()
    if asked.unchanged and not interrupted and not await _as_unmoved(folder, given, timeline, as_json=as_json):
        return 1
    beside = None
    if asked.beside_fair and not interrupted:
        beside = await _beside_fair(first, soft_limits=given.soft_limits)
    messages = None if hook is None else hook[1]
    _finish(figures, gangs, comparison or beside, messages, interrupted=interrupted, as_json=as_json)
    if interrupted:
        return INTERRUPTED
    return 1 if any(play.failed for play in plays) else 0


async def _as_unmoved(folder: Path, given: DemoWorkload, timeline: RunTimeline, *, as_json: bool) -> bool:
    import asyncio

    from steepest_lab.demo.unchanged import same_as_unmoved

    moved = [job.name for job in timeline.jobs.values() if len(job.path) > 1]
    same = await asyncio.to_thread(same_as_unmoved, folder, given, moved)
    if not as_json:
        tell(
            f"\nRun once more and not moved, {len(same)} of the {len(moved)} moved trainings end with the same weights."
        )
    return len(same) == len(moved)


async def _beside_fair(play: Play, *, soft_limits: bool) -> DemoWhatIf:
    """Fair sharing of the same jobs, simulated from the recording."""
    from steepest.log.files.file_log import FileLog
    from steepest_lab.demo.beside.what_if import what_if

    events = await play.recorded()
    log = FileLog.open(play.recording, read_only=True)
    try:
        return await what_if(log, events, play.timeline, soft_limits=soft_limits)
    finally:
        await log.close()


@contextlib.asynccontextmanager
async def _page(play: Play, *, shown: bool) -> AsyncIterator[str]:
    """The live page of a run, where its libraries are installed; what the terminal's view is called."""
    from importlib.util import find_spec

    if not shown or find_spec("starlette") is None or find_spec("uvicorn") is None:
        yield "demo"
        return
    from steepest.app.settings.gateway import GatewaySettings
    from steepest.gateway.pools import installation_served
    from steepest.gateway.server import listening

    async with (
        installation_served(play.prepared()) as served,
        listening(served, GatewaySettings(port=0), play.prepared().folder.gateway) as here,
    ):
        tell(f"The live page of this run: {here.address}")
        yield f"demo, also on {here.address}"


def _arm(under: str, policy: str) -> str:
    return f"with {policy}" if under == policy else "under fair sharing"


def _paired(plays: Sequence[Play]) -> tuple[list[Pair], list[tuple[str, str]]]:
    """Runs in their order as pairs, the one under the policy first, and their recordings."""
    from steepest_lab.demo.beside.comparison import Pair

    pairs = [(plays[at], plays[at + 1]) for at in range(0, len(plays), 2)]
    turned = [(second, first) if number % 2 else (first, second) for number, (first, second) in enumerate(pairs)]
    recordings = [(str(first.recording), str(second.recording)) for first, second in turned]
    return [Pair(first.timeline, second.timeline) for first, second in turned], recordings


def _audience(title: str, *, as_json: bool) -> Audience:
    from steepest.cli.live.audience import Lines, NoAudience, Screen

    if as_json:
        return NoAudience()
    return Screen(console(), title) if sys.stdout.isatty() else Lines(tell)


# --- outputs ----------------------------------------------------------------------------------------------------------


def _refuse_unwritable(svg: Path) -> None:
    from steepest.errors import InputError

    if not svg.parent.is_dir():
        raise InputError(f"there is no folder {svg.parent} for the picture", hint="make it, or name another with --svg")


def _draw(events: Sequence[Received[ClusterEvent]], svg: Path) -> None:
    from steepest.errors import InputError
    from steepest_lab.demo.svg import most_telling
    from steepest_lab.demo.svg import svg as drawn

    try:
        svg.write_text(drawn(most_telling(events)), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {svg}: {error.strerror}", hint="name another file with --svg") from error


def _report(timeline: RunTimeline, figures: DemoSummary, gangs: GangSummary | None, svg: Path | None) -> None:
    from steepest_lab.demo import report
    from steepest_lab.demo.gangs import report as gang_report

    tell(f"\n{report.result(timeline)}" + (f"; {gang_report.result(timeline.scalings)}" if gangs is not None else ""))
    tell(f"{report.headline(timeline)}\n")
    _show(report.job_table(timeline), report.JOBS_GIVE_WAY)
    tell()
    _show(report.move_table(timeline), report.MOVES_GIVE_WAY)
    _show(report.preemption_table(timeline))
    if gangs is not None:
        _show(gang_report.scaling_table(timeline.scalings, timeline.began_ms), gang_report.SCALINGS_GIVE_WAY)
        tell(f"\n{gangs.locality}")
    most_moved = max(timeline.jobs.values(), key=lambda job: len(job.path), default=None)
    tell(f"\nThe recording is in {figures.recording}. Go on with")
    tell(f"  steepest replay {figures.state}")
    tell(f"  steepest check {figures.state}")
    if most_moved is not None:
        tell(f"  steepest explain {most_moved.name} --state {figures.state}")
    if svg is not None:
        tell(f"The picture is in {svg}.")


def _show(table: Table, giving_way: Sequence[str] = ()) -> None:
    from steepest.cli.printing.tables import show

    columns, rows = table
    if rows:
        show(columns, rows, giving_way)


def _finish(
    figures: DemoSummary,
    gangs: GangSummary | None,
    beside: DemoComparison | DemoWhatIf | None,
    messages: list[str] | None,
    *,
    interrupted: bool,
    as_json: bool,
) -> None:
    import msgspec

    from steepest_lab.demo.beside.comparison import DemoComparison

    if as_json:
        more: dict[str, object] = {"interrupted": interrupted}
        if beside is not None:
            more["comparison" if isinstance(beside, DemoComparison) else "what_if"] = beside
        more |= {"scaling": gangs} if gangs else {}
        more |= {} if messages is None else {"messages": messages}
        give(msgspec.to_builtins(figures) | msgspec.to_builtins(more))
        return
    if beside is not None:
        _tell_beside(beside)
    for said in messages or ():
        tell(f"message: {said}")
    if interrupted:
        tell("\ninterrupted: all jobs were stopped")


def _tell_beside(beside: DemoComparison | DemoWhatIf) -> None:
    """Prints the figures compared with fair sharing."""
    from steepest_lab.demo.beside import lateness, what_if
    from steepest_lab.demo.beside.comparison import DemoComparison, comparison_table, verdicts

    tell()
    if isinstance(beside, DemoComparison):
        _show(comparison_table(beside))
        tell()
        words = verdicts(beside)
    else:
        for line in what_if.what_if_words(beside):
            tell(line)
        tell()
        _show(what_if.what_if_table(beside), what_if.GIVE_WAY)
        words = [lateness.in_words(beside.late)] if beside.late else []
    for line in words:
        tell(line)
