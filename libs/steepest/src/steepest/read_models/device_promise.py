"""Which devices a job has, what is promised to it under the policy ``steepest``, and who is before it, in words."""

from __future__ import annotations

from collections.abc import Iterator

from steepest.describe import count, on_gpus, span
from steepest.policies.steepest.devices.which_jobs import devices_of, has_devices, is_in_force
from steepest.view.cluster_view import ClusterView
from steepest.view.places.gangs import gpus_on
from steepest.view.places.node_rules import is_allowed
from steepest.view.progress import time_left
from steepest.view.state import Job, Phase

SHOWN = 4
"""Jobs before one that waits that are named."""


def device_promise(view: ClusterView, job: Job, at_ms: int) -> Iterator[str]:
    """Of a job that runs, its GPUs; of one that waits, who holds them until when; of any, what was promised."""
    if job.phase is Phase.ENDED or not has_devices(job):
        return
    for node in dict.fromkeys(job.running_on):
        if gpus := gpus_on(job, node):
            yield f"it has on {node}{on_gpus(gpus)}"
    if not is_in_force(view.parameters):
        return
    if job.is_queued:
        yield from _before(view, job)
    promise = job.promise
    if promise is None:
        yield "nothing is promised to it yet: nothing says how long it runs"
        return
    ends = _when(promise.fair_end_ms, at_ms)
    due = "it is promised no end any more" if promise.due_ms is None else f"it is due {_when(promise.due_ms, at_ms)}"
    put_off = f", put off {count(promise.tier, 'time')}" if promise.tier else ""
    if promise.first_due_ms not in (None, promise.due_ms):  # others came, or its size was another
        put_off += f"; the first promise was {_when(promise.first_due_ms, at_ms)}"
    yield f"{due}{put_off} (under fair sharing it ends {ends})"


def _before(view: ClusterView, job: Job) -> Iterator[str]:
    """The jobs that hold devices where it may run, those first that end first."""
    holding: list[tuple[int | None, Job]] = []
    for one in view.jobs:
        nodes = [node for name in one.holds if (node := view.nodes.get(name)) is not None]
        if has_devices(one) and any(is_allowed(job.node_rule, node) for node in nodes):
            left = time_left(one)
            holding.append((None if left is None else left.p50, one))
    holding.sort(key=lambda each: (each[0] is None, each[0] or 0, each[1].name))
    named = [
        f"{one.name} holds {devices_of(one, one.sizes):g} for {'an unknown time' if left_ms is None else span(left_ms)}"
        for left_ms, one in holding[:SHOWN]
    ]
    if named:
        more = f", and {count(len(holding) - SHOWN, 'other job')}" if holding[SHOWN:] else ""
        yield f"of the GPUs before it, {', '.join(named)}{more}"


def _when(then_ms: int, at_ms: int) -> str:
    return f"in {span(then_ms - at_ms)}" if then_ms >= at_ms else f"{span(at_ms - then_ms)} before"
