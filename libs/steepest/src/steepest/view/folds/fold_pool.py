"""What the log's own events and the nodes' facts change in a view."""

from __future__ import annotations

from typing import Any

from steepest.events import cluster as c
from steepest.events.common import LARGEST
from steepest.events.received import Received
from steepest.view.folds import fold_progress
from steepest.view.folds.handlers import Handlers
from steepest.view.places.node_rules import narrow
from steepest.view.projection import Projection
from steepest.view.state import Phase

PERIODS_COUNTED = 2
"""Periods by which counted time grows at most in one tick: enough for a late tick, nothing for an outage."""

GONE_MS = 86_400_000
"""Counted time after which a node that is lost and holds nothing leaves the pool: a day."""


def _opened(view: Projection, event: c.LogOpened, _: Received[Any]) -> bool:
    """The first opening names the log; one behind it is of a process that opened the same partition at the same time."""
    if view.state.epoch and event.epoch != view.state.epoch:
        return False
    view.state.epoch = event.epoch
    return True


def _configured(view: Projection, event: c.PoolConfigured, _: Received[Any]) -> None:
    view.state.reads = max(event.reads, 1)
    view.state.flags = event.flags
    view.jobs.use.settle()
    view.state.parameters = event.parameters
    view.nodes.weigh_by(event.parameters.specon)


def _ticked(view: Projection, event: c.Tick, _: Received[Any]) -> bool:
    if event.counted_ms <= view.state.counted_ms:
        return False
    counted_ms = min(event.counted_ms, view.counted_ms + PERIODS_COUNTED * view.parameters.tick_ms, LARGEST)
    view.state.counted_ms = counted_ms
    view.jobs.queue.advance(counted_ms)
    view.nodes.forget_gone(counted_ms - GONE_MS)
    for one in [each for each in view.avoiding.values() if each.avoids is None or each.avoids[1] <= counted_ms]:
        del view.avoiding[one.name]
        one.avoids = None
        if narrow(one, view.nodes) and one.phase is not Phase.ENDED:
            view.jobs.update(one)
    while (job := view.jobs.silent_for_long(view.counted_ms, view.parameters.specon.interval_ms)) is not None:
        view.nodes.set_unknown(job, unknown=True)
        view.jobs.update(job)
    return True


def _node_joined(view: Projection, event: c.NodeJoined, received: Received[Any]) -> None:
    before = view.nodes.get(event.node)
    keeper = before.keeper if before is not None else None
    view.nodes.join(event, view.counted_ms, received.offset)
    if event.keeper != keeper:
        for job in view.jobs:
            if narrow(job, view.nodes):
                view.jobs.update(job)


def _node_drained(view: Projection, event: c.NodeDrainRequested, _: Received[Any]) -> bool:
    node = view.nodes.get(event.node)
    takes_over = node is not None and bool(node.slow) and not event.why  # an operator's drain is never lifted by itself
    if node is None or (node.drained is event.drained and not takes_over):
        return False
    view.nodes.drain(node, drained=event.drained, why=event.why)
    if event.drained is bool(event.why):
        node.slow_counted_ms = view.counted_ms
        node.slow_times = node.slow_times + 1 if event.drained else 0
    return True


def _node_lost(view: Projection, event: c.NodeLost, _: Received[Any]) -> bool:
    node = view.nodes.get(event.node)
    if node is None or node.lost:
        return False
    view.nodes.lose(node)
    return True


def _node_used(view: Projection, event: c.NodeUsage, received: Received[Any]) -> bool:
    node = view.nodes.get(event.node)
    if node is None:
        return False
    view.nodes.hear(node, event.used, view.counted_ms, received.offset)
    node.gpu_use = event.gpus
    for found in event.progress:
        fold_progress.advance(view, event.node, found)
    if event.progress and view.jobs.queue.any_ready:
        for found in event.progress:
            view.jobs.queue.note_progress(found.job)
    return True


HANDLERS: Handlers = {
    c.LogOpened: _opened,
    c.PoolConfigured: _configured,
    c.Tick: _ticked,
    c.NodeJoined: _node_joined,
    c.NodeDrainRequested: _node_drained,
    c.NodeLost: _node_lost,
    c.NodeUsage: _node_used,
}
