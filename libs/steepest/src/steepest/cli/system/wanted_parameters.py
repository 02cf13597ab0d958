"""The parameters that a start asks for: those that the log holds, with what the settings change.

It owns which of them are put in force, and what people are asked to notice about them.
"""

from __future__ import annotations

import msgspec

from steepest.app.configurator import NEW_POOL
from steepest.app.settings.amounts import queue_limits, user_limits
from steepest.app.settings.tree import ParameterSettings, Settings
from steepest.cli.pool.stored_pool import look
from steepest.cli.printing.event_printer import say
from steepest.cli.printing.output import tell
from steepest.describe.rules import rules_in_force
from steepest.events.growth import Reaction
from steepest.events.parameters import Normalisation, PoolParameters, PreemptionLimits, QueueParameters, WatchParameters
from steepest.policies.named import named, orders_by_run_time, under
from steepest.view.cluster_view import ClusterView


def wanted(settings: Settings) -> PoolParameters | None:
    """The parameters to put in force; None: those that the log holds. FlowCon looks at as long an interval as SpeCon."""
    before = stated(settings)
    after = _changed(before, settings.parameters)
    return None if after == before else after


def wanted_aloud(settings: Settings) -> PoolParameters | None:
    """As :func:`wanted`, and say what will be in force; note where run times are predicted without counted traffic."""
    before = stated(settings)
    after = _changed(before, settings.parameters)
    installation = settings.folder.read()
    pool = f"pool {settings.pool}: " if installation.pools else ""
    say(f"{pool}{rules_in_force(after)}")
    if orders_by_run_time(after) and not installation.storage:
        _note_uncounted_traffic(pool, after)
    return None if after == before else after


def stated(settings: Settings) -> PoolParameters:
    """The parameters that a pool's log holds, or those of a new pool."""
    is_there = settings.kafka.bootstrap or settings.folder.has_log_in_files
    view = look(settings).view if is_there else ClusterView()
    return view.parameters if view.is_configured else NEW_POOL


def _changed(stated: PoolParameters, asked: ParameterSettings) -> PoolParameters:
    before = stated if asked.policy is None else under(asked.policy, stated)
    normalisation = asked.normalisation and Normalisation(asked.normalisation)
    changes = {"alpha": asked.alpha, "interval_ms": asked.interval_ms, "normalisation": normalisation}
    specon = msgspec.structs.replace(before.specon, **{name: new for name, new in changes.items() if new is not None})
    flowcon = msgspec.structs.replace(before.flowcon, interval_ms=asked.interval_ms or before.flowcon.interval_ms)
    # The pool's clock must not be coarser than what it measures.
    return msgspec.structs.replace(
        before,
        specon=specon,
        flowcon=flowcon,
        tick_ms=min(before.tick_ms, specon.interval_ms),
        placement=asked.placement or before.placement,
        queueing=_queueing(before.queueing, asked),
        preemption=_preemption(before.preemption, asked),
        watch=_watch(before.watch, asked),
    )


def _queueing(before: QueueParameters, asked: ParameterSettings) -> QueueParameters:
    """How jobs are queued; queues and users that are not named keep their limits."""
    named = (*map(queue_limits, asked.queue_limits), *map(user_limits, asked.user_limits))
    limits = {one.account: one for one in (*before.limits, *named)}
    changes = {
        "policy": asked.queueing,
        "blocking": asked.blocking,
        "preempt": asked.preempt,
        "half_life_ms": asked.half_life_ms,
    }
    new = {name: value for name, value in changes.items() if value is not None}
    return msgspec.structs.replace(before, **new, limits=tuple(limits.values()))


def _preemption(before: PreemptionLimits, asked: ParameterSettings) -> PreemptionLimits:
    """The protection of jobs from suspensions."""
    changes = {"min_run_ms": asked.min_run_ms, "max_suspensions": asked.max_suspensions}
    return msgspec.structs.replace(before, **{name: new for name, new in changes.items() if new is not None})


def _watch(before: WatchParameters, asked: ParameterSettings) -> WatchParameters:
    """What is done about findings of jobs."""
    changes = {"hung": asked.on_hung, "diverged": asked.on_diverged, "idle": asked.on_idle}
    drains = before.drains if asked.drain_slow is None else asked.drain_slow
    reactions = {kind: Reaction(new) for kind, new in changes.items() if new is not None}
    return msgspec.structs.replace(before, drains=drains, **reactions)


def _note_uncounted_traffic(pool: str, parameters: PoolParameters) -> None:
    tell(
        f"{pool}{named(parameters)} predicts run times from what jobs read, and this folder has no --storage: no traffic is "
        "counted, and run times come from announced totals alone",
        err=True,
    )
