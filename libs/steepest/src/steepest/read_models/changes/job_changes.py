"""What users may change about jobs and nodes that are there: the request for it, its price, or why it cannot be. Pure.

It owns which change suits which state, for the command line and for the gateway. It must never append anything.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.requests import Hold
from steepest.policies.submission import with_priority
from steepest.read_models.changes.selection import JobsByName, Selection, select
from steepest.view.cluster_view import ClusterView
from steepest.view.movable import Immovable, immovable
from steepest.view.state import Job
from steepest.view.validity import void_migration


class ChangeKind(enum.StrEnum):
    """The changes, as commands are called; the last two are of nodes."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    SUSPEND = "suspend"
    RESUME = "resume"
    PRIORITY = "priority"
    MOVE = "move"
    RETRY = "retry"
    DRAIN = "drain"
    UNDRAIN = "undrain"


OF_NODES = (ChangeKind.DRAIN, ChangeKind.UNDRAIN)


class OfferedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one job or node.

    Attributes:
        said: What becomes of it, as the rest of a sentence; where there is no change, why.
        ask: Makes the event that asks for it from the name of a request; None: it cannot be, or it is a submission.
        done: Whether it can be.
        price: What it costs, in sentences.
    """

    said: str
    ask: Callable[..., Any] | None = None
    done: bool = True
    price: str = ""


def changes(
    pool: JobsByName, kind: ChangeKind, selection: Selection, to: str = "", pause_ms: int | None = None
) -> list[tuple[Job, OfferedChange]]:
    """The change of each job that is meant; of patterns, arrays and queues, those are left out that it does not suit.

    Args:
        pool: What the jobs are in.
        kind: The change.
        selection: The jobs.
        to: The priority (a number, or the name of a class), or the node to move to; empty: the one with the most room.
        pause_ms: For how long a stop and a start have interrupted jobs here; None: unknown.

    Raises:
        InputError: It suits none of them; the message says why of the first.
    """
    retries = kind is ChangeKind.RETRY
    taken: dict[str, Resources] = {}
    found = [
        (job, change(pool.view, kind, job, to, pause_ms, taken=taken)) for job in select(pool, selection, over=retries)
    ]
    if retries and not selection.single:
        found = [one for one in found if one[0].outcome is not c.Outcome.FINISHED]
        if not found:
            raise InputError("all of these jobs have finished", code="not-changed", hint="name one to run it again")
    if not any(one.done for _, one in found):
        job, offered = found[0]
        hint = "" if "`" in offered.said else f"see `steepest explain {job.name}`"
        raise InputError(f"{job.name}: {offered.said}", code="not-changed", hint=hint)
    return [one for one in found if one[1].done or one[0].name in selection.names]


def change(
    view: ClusterView,
    kind: ChangeKind,
    job: Job,
    to: str,
    pause_ms: int | None,
    *,
    taken: dict[str, Resources],
) -> OfferedChange:
    """The change of one job; ``taken`` is what jobs of the same call take of nodes, the others are of :func:`changes`."""
    if kind is ChangeKind.RETRY:
        return _retried(job)
    if job.outcome is not None:
        return _not("it is over")
    if kind is ChangeKind.PRIORITY:
        return _urgent(view, job, to)
    if kind is ChangeKind.MOVE:
        return _moved(view, job, to, taken)
    if kind is ChangeKind.SUSPEND and job.alive:
        return _suspended(job, pause_ms)
    return SIMPLE[kind](job) if kind in SIMPLE else _not("this is a change of a node")


def change_of_node(view: ClusterView, kind: ChangeKind, name: str) -> OfferedChange:
    """The change of a node.

    Raises:
        InputError: There is no such node, or it is as asked for already.
    """
    node, drained = view.nodes.get(name), kind is ChangeKind.DRAIN
    if node is None:
        raise InputError(f"there is no node {name!r}", code="no-such-node", hint="see `steepest nodes`")
    if node.drained is drained and not (drained and node.slow):
        raise InputError(f"node {name} is {'drained already' if drained else 'not drained'}", code="not-changed")
    there = f"; {', '.join(node.jobs)} still there" if drained and node.jobs else ""
    running = f"{len(node.jobs)} {'jobs run' if len(node.jobs) != 1 else 'job runs'} on there, and no step is lost."
    return OfferedChange(
        said=f"gets no more jobs{there}" if drained else "takes jobs again",
        ask=partial(c.NodeDrainRequested, node=name, drained=drained),
        price=f"No more jobs start there; {running}" if drained else "Jobs may start there from now on.",
    )


def free_name(name: str, is_over: Callable[[str], bool | None]) -> str:
    """A name itself, unless its job is over: then ``name.2`` or the next that no job has.

    Args:
        name: What the user asks for.
        is_over: Whether the job of a name is over; None: there is no such job.
    """
    if not is_over(name):
        return name
    return next(free for number in itertools.count(2) if is_over(free := f"{name}.{number}") is None)


def name_of_retry(view: ClusterView, job: Job) -> str:
    """The name under which a job that is over runs again."""
    return free_name(job.name, lambda each: None if each not in view.jobs else view.jobs[each].outcome is not None)


def again(spec: c.JobSpec) -> c.JobSpec:
    """The description of a job that runs once more: on its own, and after no other."""
    return msgspec.structs.replace(spec, after=(), array="", array_most=None, rungs=None)


def _not(why: str) -> OfferedChange:
    return OfferedChange(said=why, done=False)


def _cancelled(job: Job) -> OfferedChange:
    price = f"{_lost(job)} Nothing goes on from there: `retry` begins from the beginning."
    return OfferedChange(said="will be cancelled", ask=partial(c.JobCancelRequested, job=job.name), price=price)


def _held(job: Job) -> OfferedChange:
    if not job.is_queued:
        return _not(f"it has started already; `steepest suspend {job.name}` saves and stops it")
    return _kept(job)


def _kept(job: Job) -> OfferedChange:
    ask = partial(c.JobChangeRequested, job=job.name, held=True)
    return OfferedChange(said="is held", ask=ask, price=f"{_lost(job)} It keeps its place in the queue.")


def _released(job: Job) -> OfferedChange:
    if job.hold in {Hold.NONE, Hold.OTHERS}:
        return _not("it waits for other jobs, and no user holds it" if job.hold else "nothing holds it")
    ask = partial(c.JobChangeRequested, job=job.name, held=False)
    return OfferedChange(said="is released", ask=ask, price=f"{_lost(job)} It starts as soon as there is room for it.")


SIMPLE: Mapping[ChangeKind, Callable[[Job], OfferedChange]] = {
    ChangeKind.CANCEL: _cancelled,
    ChangeKind.HOLD: _held,
    ChangeKind.SUSPEND: _kept,  # one that does not run
    ChangeKind.RELEASE: _released,
    ChangeKind.RESUME: _released,
}


def _suspended(job: Job, pause_ms: int | None) -> OfferedChange:
    if immovable(job) is Immovable.NO_CHECKPOINT:
        return _not("it cannot save, and would lose its work; `steepest cancel` stops it for good")
    pause = "" if pause_ms is None else f"; a stop and a start have taken {pause_ms / 1000:.1f} s here"
    ask = partial(c.JobChangeRequested, job=job.name, held=True)
    return OfferedChange(said="will be suspended", ask=ask, price=f"{_saves(job)} It waits until it is resumed{pause}.")


def _moved(view: ClusterView, job: Job, to: str, taken: dict[str, Resources]) -> OfferedChange:
    """Its plan is the request itself, and is judged at its position in the log as every plan is."""
    wanted, refusals = job.spec.chief_requests, []
    free = {node.name: node.free - taken.get(node.name, Resources()) for node in view.nodes.by_count()}
    for target in [to] if to else sorted(free.keys() - {job.node}, key=lambda name: (-free[name].cpu_m, name)):
        takes_ms = view.move_ms(job, job.node, target) if job.node and target in free else None
        plan = c.MigrationPlanned(
            plan="",
            job=job.name,
            incarnation=job.incarnation,
            source=job.node or "",
            target=target,
            kind=c.MoveKind.REQUEST,
            because=c.Because(rule="a user asked for it", move_ms=takes_ms),
        )
        if refused := void_migration(plan, job, view.nodes, view.counted_ms):
            refusals.append(refused.reason)
        elif not wanted.fits(free[target]):
            refusals.append(f"node {target} has no room for it beside the others that move there")
        else:
            taken[target] = taken.get(target, Resources()) + wanted
            pause = "" if takes_ms is None else f" The move takes about {takes_ms / 1000:.1f} s."
            price = f"{_saves(job)} It goes on on {target}.{pause}"
            return OfferedChange(said=f"moves from {job.node} to {target}", ask=partial(_plan, plan), price=price)
    return _not(refusals[0] if refusals else "there is no other node")


def _plan(plan: c.MigrationPlanned, request: str) -> c.MigrationPlanned:
    return msgspec.structs.replace(plan, plan=f"request-{request}")


def _saves(job: Job) -> str:
    return "It saves first, so no step is lost." if job.mode is CheckpointMode.ON_REQUEST else _lost(job)


def _retried(job: Job) -> OfferedChange:
    if job.outcome is None:
        return _not("it is not over; `steepest cancel` stops it")
    step = job.progress.step
    begins = f"It begins again at step 0; before, it came to step {step}." if step else "It begins from its beginning."
    return OfferedChange(said="runs again", price=f"{begins} It waits in the queue as a new job.")


def _urgent(view: ClusterView, job: Job, to: str) -> OfferedChange:
    try:
        wanted: dict[str, Any] = {"priority": int(to), "priority_class": ""}
    except ValueError:
        wanted = {"priority": 0, "priority_class": to}
    spec = with_priority(msgspec.structs.replace(job.spec, **wanted), view.parameters)
    queue = view.parameters.queueing.policy
    but = "" if queue == "priority" else f", which the queue {queue} does not look at"
    price = "No step of it is lost."
    if view.parameters.queueing.preempt:
        price += " Jobs that are less urgent may be suspended for it."
    ask = partial(c.JobChangeRequested, job=job.name, priority=spec.priority, priority_class=spec.priority_class)
    return OfferedChange(said=f"has the priority {to}{but}", ask=ask, price=price)


def _lost(job: Job) -> str:
    """What of its work a job would not have any more if its processes were killed now."""
    step, saved = job.progress.step, job.checkpoint.step if job.checkpoint else None
    if not job.alive:
        return "It does not run, so no step is lost." + ("" if saved is None else f" Its checkpoint has step {saved}.")
    if step is None:
        return "How far it is is unknown, and so is what would be lost."
    since = max(0, step - (saved or 0))
    last = "it has saved nothing yet" if saved is None else f"its last checkpoint has step {saved}"
    unless = "" if job.mode is CheckpointMode.NONE else ", unless it saves when it is stopped"
    return f"It is at step {step}, and {last}: {since} {'step is' if since == 1 else 'steps are'} lost{unless}."
