"""The same jobs under fair sharing, simulated from a run's own recording.

Nothing of it was run, so it says how wrong it may be: the run's own policy is simulated from the same recording too, and the
jobs' completion times there are compared with the real ones. Both simulations begin each job (of a gang, its first replica)
where it really began. The change is that from one simulation to the other, in which an error that both make cancels; it
counts as one only where it is larger than the error.

It owns the comparison. How a recording is simulated is in :mod:`steepest_lab.sim.whatif`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from steepest.cli.live.colours import GAIN, LOSS
from steepest.cli.live.headline import FIGURES, headline_of
from steepest.errors import SteepestError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.checkers.fair_end import FairEnd
from steepest.invariants.folds import LogFolds
from steepest.log.base import Log
from steepest.policies.named import POLICIES, named
from steepest.read_models.run_timeline import RunTimeline
from steepest_lab.demo.beside.lateness import Lateness, tail_of, whole
from steepest_lab.demo.report import Cell, Table
from steepest_lab.sim.whatif.history import RecordedPool, read_history
from steepest_lab.sim.whatif.play import AS_RECORDED, play_on

FAIR = "spread"
"""The policy that only places: the nodes share their CPU fairly."""


SURE = 2
"""A change shows something where it is larger than this many times the error."""

GIVE_WAY = ("error", "shows")
"""Columns that a narrow terminal shows less of."""


class FigureWhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """One figure, in seconds.

    Attributes:
        measured_s: Of the run.
        again_s: Of the run's own policy, simulated.
        fair_s: Of fair sharing, simulated.
        change: From fair sharing to the policy, both simulated, as a share of that of fair sharing.
        error: By how much the simulated figure is off the measured one, as a share of it; at least the mean error of
            the completion times.
        shows: Whether the change is larger than twice the error: that of one run is no bound.
    """

    name: str
    measured_s: float
    again_s: float
    fair_s: float
    change: float
    error: float
    shows: bool


class DemoWhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """A run compared with simulated fair sharing of the same jobs.

    Attributes:
        why_not: Why there is no such comparison; empty where there is one.
        policy: What the run was under, in words.
        error: Mean error of the simulated completion times, as a share of the real ones.
        late: How much later jobs ended than under fair sharing of the CPU that the nodes really gave, as ``steepest check``
            measures it from the recording.
    """

    why_not: str = ""
    policy: str = ""
    error: float | None = None
    figures: list[FigureWhatIf] = []
    late: Lateness | None = None


async def what_if(
    log: Log, events: Sequence[Received[c.ClusterEvent]], timeline: RunTimeline, *, soft_limits: bool = False
) -> DemoWhatIf:
    """Compare a run with fair sharing.

    Args:
        log: Its recording.
        events: Of its pool, as the recording has them.
        timeline: The run.
        soft_limits: Limits yield where CPU would be idle.
    """
    if not timeline.jobs or timeline.ended(c.Outcome.FINISHED) < len(timeline.jobs):
        return DemoWhatIf(why_not="it takes a run in which every job finished")
    position = next(one.offset for one in events if isinstance(one.event, c.JobSubmitted))
    past = [one for one in events if one.offset < position]
    first_nodes = {job.name: job.first_node for job in timeline.jobs.values()}
    try:
        timelines = [
            _simulated(await read_history(log, position), past, first_nodes, policy, soft_limits=soft_limits)
            for policy in (AS_RECORDED, FAIR)
        ]
    except SteepestError as error:
        return DemoWhatIf(why_not=str(error))
    if any(one.ended(c.Outcome.FINISHED) < len(timeline.jobs) for one in timelines):
        return DemoWhatIf(why_not="a job does not finish in the simulation")
    fair_end = FairEnd(LogFolds())
    for event in events:
        fair_end.feed(event)
    return compared(timeline, *timelines, late=tail_of(fair_end.later()))


def _simulated(
    recorded: RecordedPool,
    past: Sequence[Received[c.ClusterEvent]],
    first_nodes: Mapping[str, str | None],
    policy: str,
    *,
    soft_limits: bool,
) -> RunTimeline:
    """The timeline of a recording that is played on from its first submission."""
    recorded.later = [(at_ms, _pinned(event, first_nodes)) for at_ms, event in recorded.later]
    timeline = RunTimeline.of(past)

    def see(one: Received[c.ClusterEvent]) -> None:
        timeline.fold(one)

    play_on(recorded, policy, 0, watch=see, soft_limits=soft_limits)
    return timeline


def _pinned(event: c.ClusterEvent, first_nodes: Mapping[str, str | None]) -> c.ClusterEvent:
    """The same job, beginning where it really began."""
    if not isinstance(event, c.JobSubmitted):
        return event
    spec = msgspec.structs.replace(event.spec, first_node=first_nodes.get(event.job))
    return msgspec.structs.replace(event, spec=spec)


def compared(
    measured: RunTimeline, again: RunTimeline, fair: RunTimeline, *, late: Lateness | None = None
) -> DemoWhatIf:
    """Compare a run, its simulation, and simulated fair sharing; in all of them, every job has finished."""
    real, simulated = completions_s(measured), completions_s(again)
    error = statistics.fmean(abs(simulated[job] / real[job] - 1) for job in real)
    timelines = (headline_of(timeline) for timeline in (measured, again, fair))
    by_name = [msgspec.structs.asdict(headline) for headline in timelines]
    figures = [_figure(name, [one[name] for one in by_name], error) for name in FIGURES]
    return DemoWhatIf(
        policy=POLICIES[named(measured.view.parameters)].title,
        error=error,
        figures=[figure for figure in figures if figure is not None],
        late=late,
    )


def _figure(name: str, values: Sequence[float | None], mean_error: float) -> FigureWhatIf | None:
    measured, again, fair = values
    if not measured or not again or not fair:
        return None
    error = max(mean_error, abs(again / measured - 1))
    change = again / fair - 1
    return FigureWhatIf(
        name=name,
        measured_s=measured,
        again_s=again,
        fair_s=fair,
        change=change,
        error=error,
        shows=abs(change) > SURE * error,
    )


def completions_s(timeline: RunTimeline) -> dict[str, float]:
    """The completion time of each job that has ended."""
    return {job.name: job.completion_ms / 1000 for job in timeline.jobs.values() if job.completion_ms}


# --- for people -------------------------------------------------------------------------------------------------------


def what_if_table(found: DemoWhatIf) -> Table:
    """A row a figure, with what its change shows."""
    rows: list[list[Cell]] = [
        [
            FIGURES[figure.name],
            f"{figure.measured_s:.1f} s",
            f"{figure.again_s:.1f} s",
            f"{figure.fair_s:.1f} s",
            (whole(figure.change, signed=True), (GAIN if figure.change < 0 else LOSS) if figure.shows else ""),
            whole(figure.error),
            _shows(figure),
        ]
        for figure in found.figures
    ]
    return ("figure", "#measured", "#simulated", "#fair, simulated", "#change", "#error", "shows"), rows


def _shows(figure: FigureWhatIf) -> str:
    if not figure.shows:
        return "nothing"
    return "sooner" if figure.change < 0 else "later"


def what_if_words(found: DemoWhatIf) -> list[str]:
    """Sentences that explain the table, and how far to trust it."""
    if found.why_not or found.error is None:
        return [f"No comparison with fair sharing: {found.why_not}. `--compare` runs both for real."]
    return [
        "Compared with fair sharing of the same jobs from the same first nodes: not run, but simulated from this recording.",
        f"So is the run itself: its jobs' completion times come out {whole(found.error)} off the measured ones on average.",
        "A change that is no larger than twice the error shows nothing.",
    ]
