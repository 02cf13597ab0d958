"""One sentence for each event of the cluster log, for people who watch a pool.

Sentences name jobs and nodes as they are, begin in lower case and end without a full stop, so that a line can go on.
Pure: it must never know a view, a log or a terminal.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from steepest.describe import findings, forecasts
from steepest.describe.checkpoints import SAVES, held
from steepest.describe.masking import masked
from steepest.describe.rules import rules_in_force
from steepest.describe.units import count as count
from steepest.describe.units import on_gpus as on_gpus
from steepest.describe.units import percent as percent
from steepest.describe.units import span as span
from steepest.events import cluster as c
from steepest.view.nodes import format_resources

ROUTINE = (c.Tick, c.NodeUsage, c.GrowthMeasured, c.EpochMeasured)
"""Events that come at a steady rate and change nothing that people wait for."""

CATEGORIES: Mapping[c.Category, str] = {
    c.Category.PROGRESSING: "progressing",
    c.Category.WATCHED: "watched",
    c.Category.CONVERGED: "converged",
}
"""SpeCon's categories by their names (thesis §5.2.1)."""


def sentence(event: c.ClusterEvent) -> str:
    """An event as one sentence, on one line also where its fields hold line ends."""
    return one_line(_SENTENCES[type(event)](masked(event)))


def one_line(text: str) -> str:
    """Text without line ends and control characters: what comes from outside must not steer a terminal."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def is_routine(event: c.ClusterEvent) -> bool:
    """Whether an event is a measurement that comes again and again: a tick, a node's usage, a job's growth, an epoch."""
    return isinstance(event, ROUTINE)


ENDED: Mapping[c.Outcome, str] = {
    c.Outcome.FINISHED: "finished",
    c.Outcome.FAILED: "failed",
    c.Outcome.CANCELLED: "was cancelled",
}
"""How a job ended, as the rest of a sentence about it."""


ENDED_BY_USER = "cancelled"
"""The reason of a cancellation that is nothing but one."""


def ending(status: int | None) -> str:
    """How a process ended, by its exit status (minus the signal's number; None: it was not seen)."""
    if status is None:
        return "its exit was not seen"
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def node_seen(node: c.NodeScore) -> str:
    """A node as a decision saw it."""
    out = f", excluded: {node.rejected}" if node.rejected else ""
    return f"{node.node} (score {node.score:g}, {count(node.replicas, 'job')}, {node.used_cpu_m}m CPU used{out})"


# --- the log itself and its nodes -------------------------------------------------------------------------------------


def _log_opened(event: c.LogOpened) -> str:
    return f"the log begins (epoch {event.epoch})"


def _pool_configured(event: c.PoolConfigured) -> str:
    ours = event.parameters
    return f"parameters in force: {rules_in_force(ours)}, a tick every {span(ours.tick_ms)}"


def _tick(event: c.Tick) -> str:
    return f"the pool's clock is at {span(event.counted_ms)}"


def _node_joined(event: c.NodeJoined) -> str:
    only = f", for jobs that tolerate {', '.join(map(str, event.taints[:3]))}" if event.taints else ""
    failed = "".join(f"; GPU {one.gpu} has failed: {one.why}" for one in event.failed_gpus)
    return f"node {event.node} joined with {format_resources(event.capacity)}{only}{failed}"


def _node_lost(event: c.NodeLost) -> str:
    return f"node {event.node} is lost: no heartbeat for {span(event.silent_ms)}"


def _node_gone(event: c.NodeGone) -> str:
    return f"node {event.node} is gone for good, as an operator or its cluster says: nothing runs there"


def _node_usage(event: c.NodeUsage) -> str:
    jobs = ", ".join(f"{job} {cpu_m}m" for job, cpu_m in event.jobs.items())
    return f"node {event.node} uses {format_resources(event.used)}{': ' + jobs if jobs else ''}"


# --- jobs and their processes -------------------------------------------------------------------------------------------


def _submitted(event: c.JobSubmitted) -> str:
    return f"{event.job} is submitted, requesting {_asked(event.spec)}: {shlex.join(event.spec.command)}"


def _asked(spec: c.JobSpec) -> str:
    """A job's request: ``300m CPU``, or of a gang ``300m CPU for each of 2 replicas (worker)``."""
    if not spec.is_gang:
        return format_resources(spec.chief_requests)
    return ", ".join(
        f"{format_resources(role.requests)} for each of {count(role.replicas, 'replica')} ({role.name})"
        for role in spec.all_roles
    )


def _admitted(event: c.JobAdmitted) -> str:
    return f"{event.job} is admitted and queued"


def _rejected(event: c.JobRejected) -> str:
    return f"{event.job} is rejected: {event.reason}"


def _cancel_requested(event: c.JobCancelRequested) -> str:
    return f"{event.job}: cancellation requested{f': {event.reason}' if event.reason else ''}"


def _change_requested(event: c.JobChangeRequested) -> str:
    held = "" if event.held is None else " may not run until it is released" if event.held else " may run"
    urgent = "" if event.priority is None else f": its priority is {event.priority_class or event.priority}"
    return f"{event.job}{held}{urgent}"


def _node_drained(event: c.NodeDrainRequested) -> str:
    why = f": {event.why}" if event.why else ""
    return f"node {event.node} {'is drained: it gets no more jobs' if event.drained else 'takes jobs again'}{why}"


def _ended(event: c.JobEnded) -> str:
    why = event.reason or (ending(event.exit_status) if event.exit_status else "")
    was_asked = event.outcome is c.Outcome.CANCELLED and event.reason in {"", ENDED_BY_USER}
    reason = f": {why}" if why and not was_asked else ""
    return f"{event.job} {ENDED[event.outcome]}{reason}"


def _goal(event: c.GoalReached) -> str:
    saved = "" if event.cpu_ms_saved is None else f"; {span(event.cpu_ms_saved)} of CPU time are saved"
    return f"{event.job} has reached its goal ({event.reason}): it saves, and ends{saved}"


def _replica_started(event: c.ReplicaStarted) -> str:
    return f"{event.job} runs on {event.node}{on_gpus(event.gpus)} (incarnation {event.incarnation})"


def _mode_declared(event: c.CheckpointModeDeclared) -> str:
    return f"{event.job} {SAVES[event.mode]}{f': {event.reason}' if event.reason else ''}"


def _verified(event: c.CheckpointVerified) -> str:
    return f"{event.job} saved a verified checkpoint {held(event.checkpoint, 'at')}"


def _replica_stopped(event: c.ReplicaStopped) -> str:
    why = f": {event.reason}" if event.reason else ""
    how = "" if event.exit_status is None and why else f" ({ending(event.exit_status)})"
    return f"{event.job}'s process on {event.node} ended{_after(event.step)}{how}{why}"


def _retry(event: c.RetryPlanned) -> str:
    charged = "this uses one of its retries" if event.charged else "this uses no retry"
    return f"{event.job} is queued again ({charged}): {event.reason}"


# --- growth -------------------------------------------------------------------------------------------------------------


def _growth(event: c.GrowthMeasured) -> str:
    changed = "first loss" if event.growth is None else f"loss changed {percent(event.growth)}"
    return f"{event.job}: {changed} in interval {event.interval}; {CATEGORIES[event.category]} ({event.category})"


def _category(event: c.CategoryChanged) -> str:
    return (
        f"{event.job} is now {CATEGORIES[event.after]} ({event.before} → {event.after}): "
        f"loss changed {percent(event.growth)} this interval"
    )


def _requested(event: c.ReallocationRequested) -> str:
    return f"{event.job} requests another node: converged, loss changed only {percent(event.growth)} this interval"


# --- plans --------------------------------------------------------------------------------------------------------------


def _placement(event: c.PlacementPlanned) -> str:
    return f"{event.job}: start planned on {', '.join(event.nodes)} ({event.because.rule})"


def _migration(event: c.MigrationPlanned) -> str:
    seen = {node.node: node for node in event.because.nodes}
    ends = [node_seen(seen[name]) for name in (event.source, event.target) if name in seen]
    scores = f": {' → '.join(ends)}" if ends else ""
    return f"{event.job}: move planned from {event.source} to {event.target} ({event.because.rule}){scores}"


_TRANSITIONS = {
    c.Transition.SUSPEND: "{job}: suspension planned on {sources}",
    c.Transition.SCALE: "{job}: scaling planned from {before} to {after} replicas, on {nodes}",
    c.Transition.SHED: "{job}: {leaving} planned to leave, {after} of {before} stay, on {nodes}",
    c.Transition.MOVE: "{job}: move planned from {sources} to {nodes}",
}


def _transition(event: c.TransitionPlanned) -> str:
    what = _TRANSITIONS[event.kind].format(
        job=event.job,
        sources=", ".join(event.sources),
        nodes=", ".join(event.nodes),
        before=len(event.sources),
        after=len(event.nodes),
        leaving=count(len(event.leaving), "surplus replica"),
    )
    room = f", to make room for {event.room_for}" if event.room_for else ""
    return f"{what}{room} ({event.because.rule})"


def _stay(event: c.StayDecided) -> str:
    return f"{event.job} stays on {event.node} ({event.because.rule})"


def cpu_limit(cpu_m: int | None) -> str:
    """A CPU limit."""
    return "no limit" if cpu_m is None else f"{cpu_m}m CPU"


def _limits(event: c.LimitsPlanned) -> str:
    limits = ", ".join(
        f"{one.job} {cpu_limit(one.cpu_m)}" + (f" ({one.growth_list})" if one.growth_list else "")
        for one in event.limits
    )
    rule = "" if event.because.standing else f" ({event.because.rule})"  # of `steepest`, `explain` gives the reason
    return f"limits planned on {event.node}{rule}: {limits}"


def fair_standing(job: c.FairStanding, at_ms: int) -> str:
    """A job as the policy ``steepest`` saw it at that time."""
    if job.devices_m:
        left = "it is unknown how much is left" if job.left_ms is None else f"{span(job.left_ms)} left"
        parts = [f"{job.devices_m / 1000:g} GPUs", left, *fair_ends(job, at_ms)]
        return f"{job.job} ({'; '.join([*parts, f'number {job.place} in the order'])})"
    must = f", of which {job.must_m}m cannot wait" if job.must_m else ""
    parts = [f"{job.cpu_m}m of the {job.demand_m}m CPU that it can use{must}"]
    parts.append("it is unknown how much is left" if job.left_ms is None else f"{job.left_ms / 1000:.0f} s of CPU left")
    parts += fair_ends(job, at_ms)
    if job.index is not None:
        parts.append(f"index {1000 * job.index:.3g} for 1000 s of CPU")
    return f"{job.job} ({'; '.join(parts)})"


def fair_ends(job: c.FairStanding, at_ms: int) -> list[str]:
    """A job's fair end and due time, relative to that time; unknown ones are left out."""
    found = []
    for what, past, when_ms in (
        ("ends under fair sharing", "had ended under fair sharing", job.fair_end_ms),
        ("is due", "was due", job.due_ms),
    ):
        if when_ms is not None:
            ahead = (when_ms - at_ms) / 1000
            found.append(f"{what} in {ahead:.0f} s" if ahead >= 0 else f"{past} {-ahead:.0f} s ago")
    return found


def growth_seen(job: c.GrowthSeen) -> str:
    """A job as FlowCon saw it."""
    if job.efficiency is None:
        return f"{job.job} ({job.before}, nothing measured yet)"
    of = "the node" if job.resource is None else f"the node's {job.resource.replace('-io', ' I/O')}"
    use = "" if job.use is None else f", {job.use:.1%} of {of} used"
    return f"{job.job} ({job.before}, growth efficiency {job.efficiency:.4g}{use})"


# --- what became of them ------------------------------------------------------------------------------------------------

_BEGUN = {
    c.Step.CHECKPOINT: "{job}: requesting a checkpoint on {node}",
    c.Step.STOP: "{job}: stopping on {node}",
    c.Step.START: "{job}: starting on {node}",
    c.Step.VERIFY: "{job}: waiting for its first step on {node}",
}


def _begun(event: c.StepBegun) -> str:
    number = f" (step {event.attempt} of its plan)" if event.attempt > 1 else ""
    return _BEGUN[event.step].format(job=event.job, node=event.node) + number


def _step_failed(event: c.StepFailed) -> str:
    effect = "without effect" if event.definite else "and may have taken effect"
    return f"{event.job}: step “{event.step}” failed {effect} ({event.code}): {event.message}"


def _saved(event: c.CheckpointSaved) -> str:
    return f"{event.job} saved a checkpoint {held(event.checkpoint, 'at')} and waits to be stopped"


def _stopped(event: c.JobStopped) -> str:
    return f"{event.job} was stopped{_after(event.step)} ({ending(event.exit_status)})"


def _surplus_stopped(event: c.SurplusStopped) -> str:
    ends = ", ".join(f"{one.replica} ({ending(one.exit_status)})" for one in event.replicas)
    return f"{event.job}: surplus replicas have left, and the others train on: {ends or 'all had ended before'}"


def _placed(event: c.JobPlaced) -> str:
    since = f"from its checkpoint {held(event.restore)}" if event.restore else "from its beginning"
    where = places(event.nodes) if event.nodes else event.node
    return f"{event.job} is placed on {where}, {since} (incarnation {event.incarnation})"


def places(nodes: Sequence[str]) -> str:
    """The nodes of a gang's replicas: ``n1 (2 replicas), n2 (1 replica)``."""
    return ", ".join(f"{node} ({count(replicas, 'replica')})" for node, replicas in Counter(nodes).items())


def _resumed(event: c.JobResumed) -> str:
    return f"{event.job} resumed training{'' if event.step is None else f' at step {event.step}'}"


def _moved(event: c.MigrationFinished) -> str:
    return f"{event.job} moved to {event.target}: {_cost(event)}"


def _cost(event: c.MigrationFinished | c.TransitionFinished) -> str:
    lost = count(event.steps_lost, "step")
    return f"paused for {span(event.paused_ms)}, {lost} lost, {span(event.took_ms)} in all"


def _not_moved(event: c.MigrationFailed) -> str:
    return f"{event.job} could not be moved {_why_and_where(event, event.node or '')}"


def _why_and_where(event: c.MigrationFailed | c.TransitionFailed, where: str) -> str:
    """Why a plan failed, where its job is now (empty: nowhere), and what it has lost."""
    now = f"it runs on {where}" if where else "it is queued"
    lost = f", {count(event.steps_lost, 'step')} lost" if event.steps_lost else ""
    return f"({event.code}): {event.message}; {now}{lost}"


def _suspended(event: c.JobSuspended) -> str:
    since = f" at step {event.step}" if event.step else ""
    return f"{event.job} is suspended{since}, {count(event.steps_lost, 'step')} lost, {span(event.took_ms)} in all"


def _transition_finished(event: c.TransitionFinished) -> str:
    return f"{event.job} runs with {count(len(event.nodes), 'replica')} on {places(event.nodes)}: {_cost(event)}"


def _transition_failed(event: c.TransitionFailed) -> str:
    return f"{event.job}: transition failed {_why_and_where(event, places(event.nodes))}"


def _abandoned(event: c.PlanAbandoned) -> str:
    return f"{event.job}: plan {event.plan} abandoned ({event.code}){': ' + event.message if event.message else ''}"


def _limit_applied(event: c.LimitsApplied) -> str:
    return f"{event.job} now has {cpu_limit(event.cpu_m)} on {event.node}"


def _limit_refused(event: c.LimitsRefused) -> str:
    effect = "the old one stays" if event.definite else "it is unclear which one is in force"
    return f"{event.job}: limit refused on {event.node} ({event.code}); {effect}: {event.message}"


def _after(step: int | None) -> str:
    return "" if step is None else f" after step {step}"


_SENTENCES: Mapping[type, Callable[[Any], str]] = {
    **findings.SENTENCES,
    **forecasts.SENTENCES,
    c.LogOpened: _log_opened,
    c.PoolConfigured: _pool_configured,
    c.Tick: _tick,
    c.NodeJoined: _node_joined,
    c.NodeLost: _node_lost,
    c.NodeGone: _node_gone,
    c.NodeUsage: _node_usage,
    c.ReplicaStarted: _replica_started,
    c.CheckpointModeDeclared: _mode_declared,
    c.CheckpointVerified: _verified,
    c.ReplicaStopped: _replica_stopped,
    c.JobEnded: _ended,
    c.JobSubmitted: _submitted,
    c.JobCancelRequested: _cancel_requested,
    c.JobChangeRequested: _change_requested,
    c.NodeDrainRequested: _node_drained,
    c.GrowthMeasured: _growth,
    c.GoalReached: _goal,
    c.CategoryChanged: _category,
    c.ReallocationRequested: _requested,
    c.PlacementPlanned: _placement,
    c.MigrationPlanned: _migration,
    c.TransitionPlanned: _transition,
    c.StayDecided: _stay,
    c.RetryPlanned: _retry,
    c.JobAdmitted: _admitted,
    c.JobRejected: _rejected,
    c.StepBegun: _begun,
    c.StepFailed: _step_failed,
    c.CheckpointSaved: _saved,
    c.JobStopped: _stopped,
    c.SurplusStopped: _surplus_stopped,
    c.JobPlaced: _placed,
    c.JobResumed: _resumed,
    c.MigrationFinished: _moved,
    c.MigrationFailed: _not_moved,
    c.JobSuspended: _suspended,
    c.TransitionFinished: _transition_finished,
    c.TransitionFailed: _transition_failed,
    c.PlanAbandoned: _abandoned,
    c.LimitsPlanned: _limits,
    c.LimitsApplied: _limit_applied,
    c.LimitsRefused: _limit_refused,
}
