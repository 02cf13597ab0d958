"""Which jobs have devices, of which kind, and what is known of them at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from steepest.events import cluster as c
from steepest.events.common import NodeRule, Resources
from steepest.policies.pending import Pending
from steepest.policies.placement.room import has_room
from steepest.policies.placement.slots import Slots
from steepest.policies.queueing.wish import Wish, wish_of
from steepest.policies.steepest.devices.device_state import DeviceJob, DevicePlannerState
from steepest.policies.steepest.devices.gang_order import WholeGang, by_level
from steepest.policies.steepest.devices.which_jobs import devices_of
from steepest.policies.steepest.job_facts import LEAST_LEFT, shares_of
from steepest.policies.steepest.learning import worth
from steepest.policies.steepest.learning_history import remember, usual
from steepest.view.cluster_view import ClusterView
from steepest.view.places.node_rules import is_allowed
from steepest.view.places.queue_limits import excess
from steepest.view.progress import attained_ms, course, steps_left, time_left
from steepest.view.state import Job, Node

KIND = "nvidia.com/gpu.product"
"""The label that says of which kind a node's devices are; nodes without it are of one kind."""

LEAST_S = 1.0
"""A job that runs still needs so long at least."""


def kinds(nodes: Iterable[Node]) -> dict[str, dict[str, Node]]:
    """The nodes with GPUs that are there, by the kind of these."""
    found: dict[str, dict[str, Node]] = {}
    for node in nodes:
        if node.is_open and node.capacity.all_gpus_m:
            found.setdefault((node.labels or {}).get(KIND, ""), {})[node.name] = node
    return found


def kind_of(job: Job, by_kind: dict[str, dict[str, Node]]) -> str | None:
    """The pool of a job: of the kinds that it may run on, the one with most devices; None: there is none."""
    if job.nodes and (job.alive or job.plan):
        return next((kind for kind, nodes in by_kind.items() if job.nodes[0] in nodes), None)
    allowed = {
        kind: sum(node.capacity.all_gpus_m for node in nodes.values() if is_allowed(job.node_rule, node))
        for kind, nodes in by_kind.items()
    }
    best = max(allowed, key=lambda kind: (allowed[kind], kind), default=None)
    return best if best is not None and allowed[best] else None


def startable(view: ClusterView, pending: Pending, nodes: Mapping[str, Node]) -> Callable[[Job], bool]:
    """Tells of a job that waits whether it could start with its fewest replicas, if none of these nodes was in use.

    One that its queue's or user's limit keeps waiting could not: nothing gives way for that.
    """
    slots: dict[NodeRule | None, Slots] = {}
    found: dict[Wish, bool] = {}

    def may_start(job: Job) -> bool:
        wish = wish_of(job)
        if wish not in found:
            if wish.rule not in slots:
                allowed = {name: node.capacity for name, node in nodes.items() if is_allowed(wish.rule, node)}
                slots[wish.rule] = Slots(allowed)
            found[wish] = has_room(wish, slots[wish.rule])
        return found[wish] and excess(view, job, job.spec.smallest, pending.coming) is None

    return may_start


def measure(state: DevicePlannerState, job: Job, now_s: float) -> None:
    """Take in what is known of a job's pace, and of what is left of it, now."""
    known, spec = state.known[job.name], job.spec
    left = steps_left(job)
    if (time := time_left(job)) is not None and left:
        devices = devices_of(job, job.sizes)
        known.step_s, known.slow_s = time.p50 * devices / left / 1000, time.high * devices / left / 1000
        for key in _keys(spec.model, devices):
            remember(state.steps.sizes, key, known.step_s)
    step_s = known.step_s
    if step_s is None:
        step_s = next(
            (found for key in _keys(spec.model, known.devices) if (found := usual(state.steps.sizes, key)) is not None),
            None,
        )
    work = None if left is None or step_s is None else left * step_s
    if work is None and known.counted:
        known.known_s = known.known_s if job.alive else now_s
        return  # its process has not said again what it has to do
    known.counted = work is not None
    if work is None and course(job)[1] is None and (size := usual(state.learned.sizes, spec.model)) is not None:
        used = attained_ms(job, round(now_s * 1000)) / 1000
        work = size - used if size > used else None
    known.left_s = None if work is None else max(work / (_devices(known, job) or 1.0), LEAST_S)
    known.known_s = now_s


def _devices(known: DeviceJob, job: Job) -> float:
    """Those that it holds; of one that waits, those that it asks for."""
    return known.devices if job.is_queued else devices_of(job, job.sizes)


def left_with(state: DevicePlannerState, job: Job, known: DeviceJob, left_s: float, devices: float) -> float:
    """How long a job that runs would still need on so many devices, of which ``left_s`` is its need on those it has.

    A step takes the same device-seconds, unless jobs of its model say otherwise.
    """
    model = job.spec.model
    learned = usual(state.steps.sizes, f"{model} on {devices:g}") if model and known.step_s else None
    more = 1.0 if learned is None or not known.step_s else learned / known.step_s
    return left_s * more * _devices(known, job) / devices


def _keys(model: str, devices: float) -> tuple[str, ...]:
    return (f"{model} on {devices:g}", model) if model else ()


def whole_gang(
    state: DevicePlannerState, view: ClusterView, job: Job, at_ms: int, now_s: float, *, pinned: bool
) -> WholeGang:
    """What is known of a job, as the order of gangs needs it."""
    known, parameters, spec = state.known[job.name], view.parameters.steepest, job.spec
    attained_s = attained_ms(job, view.counted_ms) / 1000
    left = None if known.left_s is None else max(known.left_s - (now_s - known.known_s) * job.alive, LEAST_S)
    copy = state.fair[known.kind].gangs.get(job.name)
    fair_end_s = None if copy is None or left is None else copy.ends_s
    starts_s = state.overheads.resumption_ms(job, 1) / 1000
    runs = not job.is_queued
    if left is None:
        index = by_level(attained_s, view.parameters.queueing.service_s)
    else:
        size = max(left + attained_s / _devices(known, job), left / (1 - LEAST_LEFT))
        done = min(1 - left / size, 1 - LEAST_LEFT)
        shares = shares_of(state.learned, known.losses, job)
        index = worth(done, left + (0.0 if runs else starts_s), parameters.learning_weight, shares)
    deadline_s = None
    if spec.deadline_ms is not None:
        deadline_s = (job.submitted_ms + spec.deadline_ms - at_ms) / 1000
    return WholeGang(
        name=job.name,
        devices=_devices(known, job),
        left_s=left,
        most_s=0.0 if left is None or not known.step_s else left * (known.slow_s or known.step_s) / known.step_s,
        start_s=0.0 if runs else starts_s,
        stop_s=state.overheads.suspension_ms(job, at_ms) / 1000 + starts_s,
        came_s=job.submitted_counted_ms / 1000 - now_s,
        fair_end_s=None if fair_end_s is None else fair_end_s - now_s,
        tier=known.tier,
        index=index,
        priority=spec.priority,
        deadline_s=deadline_s,
        runs=runs,
        pinned=pinned,
    )


def capacity(nodes: Iterable[Node]) -> float:
    """GPUs of these nodes."""
    return sum((node.capacity for node in nodes), Resources()).all_gpus_m / 1000


def end(state: DevicePlannerState, job: Job, now_s: float) -> None:
    """A job is over: its copy goes on until it has got as much, and others of its model learn from it."""
    known = state.known.pop(job.name, None)
    state.learned.leave(job.spec.model, job.name)
    if known is None:
        return
    work = job.service_ms / 1000
    if (fair := state.fair.get(known.kind)) is not None:
        fair.finish(job.name, work, now_s)
    steps = job.stop_step or job.progress.step
    if job.outcome is c.Outcome.FINISHED:
        remember(state.learned.sizes, job.spec.model, work)
        if steps and (share := known.losses.learned_at(steps)) is not None:
            remember(state.learned.models, job.spec.model, share)


def work_of(known: DeviceJob, job: Job, used_s: float, start_s: float) -> float | None:
    """Device-seconds of a whole job, its first start included; None: unknown."""
    return None if known.left_s is None else known.left_s * _devices(known, job) + used_s + start_s * known.devices
