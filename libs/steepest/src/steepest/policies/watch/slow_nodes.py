"""Nodes that have become slow: when they are closed and opened again, and which of their jobs move.

A node is closed once two of its jobs were slow for long, and so were most of the others. A job moves from there where the
time that it gains is longer than the move takes; the others stay, and show when the node is well. Where none is left that
was slow, the node is opened after a while, twice as long each time: its next job shows what it is worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.policies.watch.pace import LASTS, Pace
from steepest.view.cluster_view import ClusterView
from steepest.view.movable import immovable
from steepest.view.progress import steps_left
from steepest.view.state import Job, Node
from steepest.view.validity import no_room

CLOSED_MS, CLOSED_MOST_MS = 1_800_000, 86_400_000
"""Counted time for which a node stays closed at first and at most, if no job shows that it is well. For as long it is not
closed again after its operator has opened it."""

ALTERNATIVES = 4
"""Other moves that a plan names."""


class SlowJob(msgspec.Struct, frozen=True):
    """A running job of a node: its pace there, the CPU that it uses now, and the most that it used, in millicores."""

    job: Job
    pace: Pace | None
    cpu_m: int
    most_m: int


class Gain(msgspec.Struct, frozen=True):
    """The net gain of moving a job, and the predicted duration of the move."""

    job: Job
    target: str
    gain_ms: int
    move_ms: int | None


def closing(
    view: ClusterView, node: Node, jobs: Sequence[SlowJob], paces: Mapping[str, Pace], offset: int
) -> Iterator[c.NodeDrainRequested]:
    """Close a node that has become slow, or open it again."""
    since_ms = node.slow_counted_ms
    if not node.drained:
        blame = [one.job.name for one in jobs if one.pace is not None and one.pace.blames_node(paces)]
        is_kept_open = not node.slow_times and since_ms is not None and view.counted_ms < since_ms + CLOSED_MS
        if blame and not is_kept_open:
            ratio = max(paces[name].ratio for name in blame)
            why = (
                f"steps of {', '.join(blame[:3])} take {ratio:.2g} times as long as before, and so do most others there"
            )
            yield c.NodeDrainRequested(node=node.name, request=f"slow-{offset}-{node.name}", drained=True, why=why)
    elif node.slow and since_ms is not None and (why := _why_well(view, node, jobs, since_ms)):
        yield c.NodeDrainRequested(node=node.name, request=f"well-{offset}-{node.name}", drained=False, why=why)


def _why_well(view: ClusterView, node: Node, jobs: Sequence[SlowJob], since_ms: int) -> str:
    known = [one.pace for one in jobs if one.pace is not None]
    if any(pace.peers is not None for pace in known):
        return ""
    if any(pace.well is not None and pace.well >= LASTS for pace in known):
        return "its jobs are as fast as before"
    closed_ms = min(CLOSED_MS << min(node.slow_times - 1, 6), CLOSED_MOST_MS)
    if view.counted_ms < since_ms + closed_ms or any(pace.well is not None for pace in known):
        return ""
    return "no job there has been slow since, and the next one shows whether it still is"


def leaving(view: ClusterView, node: Node, jobs: Sequence[SlowJob], offset: int) -> Iterator[c.MigrationPlanned]:
    """Move the job that gains most, if any gains more than its move costs. Work: O(jobs of the node · nodes)."""
    gains = [found for one in jobs if (found := _gain(view, node, one)) is not None]
    if not gains:
        return
    best, *others = sorted(gains, key=lambda one: (-one.gain_ms, one.job.name))
    yield c.MigrationPlanned(
        plan=f"slow-{offset}-{best.job.name}",
        job=best.job.name,
        incarnation=best.job.incarnation,
        source=node.name,
        target=best.target,
        kind=c.MoveKind.SLOW_NODE,
        because=c.Because(
            rule=f"slow node: {node.slow}",
            gain_ms=best.gain_ms,
            move_ms=best.move_ms,
            alternatives=tuple(c.MoveOption(one.job.name, one.target, one.gain_ms) for one in others[:ALTERNATIVES]),
        ),
    )


def _gain(view: ClusterView, node: Node, one: SlowJob) -> Gain | None:
    job, pace, left = one.job, one.pace, steps_left(one.job)
    if pace is None or pace.peers is None or left is None or not _may_move(view, job):
        return None
    target = emptiest(view, node, job)
    if target is None:
        return None
    needs_m = max(1.0, min(one.most_m, one.cpu_m * pace.ratio))
    speed = min(1.0, max(0, target.capacity.cpu_m - target.used.cpu_m) / needs_m)
    if pace.ratio * speed <= 1:
        return None
    move_ms = view.move_ms(job, node.name, target.name)
    costs_ms = max(move_ms or 0, view.parameters.steepest.move_cost_ms)
    gain_ms = round(left * pace.usual_ms * (pace.ratio - 1 / speed)) - costs_ms
    return Gain(job, target.name, gain_ms, move_ms) if gain_ms > 0 else None


def _may_move(view: ClusterView, job: Job) -> bool:
    is_settled = not (job.spec.is_gang or job.plan or job.cancel or job.hold or job.reaction)
    may_again = (
        job.moves_failed < view.parameters.limits.moves_failed and view.counted_ms >= job.dwells_until_counted_ms
    )
    return is_settled and may_again and immovable(job) is None


def emptiest(view: ClusterView, source: Node, job: Job) -> Node | None:
    """The node with room for a job of which least CPU is used."""
    room = (
        node
        for node in view.nodes.by_count()
        if node is not source and no_room(job.spec.chief_requests, node, job.node_rule) is None
    )
    return max(room, key=lambda node: (node.capacity.cpu_m - node.used.cpu_m, node.free.cpu_m, node.name), default=None)
