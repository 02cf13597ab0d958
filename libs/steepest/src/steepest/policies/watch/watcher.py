"""The watcher: finds jobs that hang or idle, and does about a finding what its user or the pool asks for.

What losses show is found where they are read, by the categorizer (:mod:`steepest.policies.watch.loss_course`). Hung,
diverged and idle jobs hold their places without effect: these findings may have a reaction; by default they only notify.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from steepest.events import cluster as c
from steepest.events.parameters import WatchParameters
from steepest.events.received import Received
from steepest.policies.unread import AwaitsDecisions
from steepest.policies.watch.pace import GangPace, Pace
from steepest.policies.watch.rhythm import FINISHED_IDLE_MS, IDLE_MS, STILL_MS, JobRhythm, Silences
from steepest.policies.watch.slow_nodes import SlowJob, closing, emptiest, leaving
from steepest.view.cluster_view import ClusterView
from steepest.view.folds.fold_findings import AVOIDS_MS
from steepest.view.movable import immovable
from steepest.view.places.gangs import gpus_on
from steepest.view.progress import total_steps
from steepest.view.state import Job, Node, Phase

CAUSES = {
    "node": "so do those of most other jobs on {node}",
    "job": "those of the other jobs on {node} do not",
    "model": "so do those of other jobs of its model on other nodes",
    "unclear": "it is alone on {node}, so it may be the job or the node",
}
"""Why a job is slower, in words."""

FULL = 0.9
"""A node of whose CPU this share is used is full: its jobs take some from each other."""

RHYTHMS_KEPT, MODELS_KEPT = 20_000, 2_000
"""Jobs and models that are remembered; beyond, the one that was heard of first goes."""


Watched = tuple[Job, JobRhythm]


class WatcherState(AwaitsDecisions):
    """What is known of each job, by name: its rhythm, its pace, the paces of a gang's replicas; the silences by model.

    Attributes:
        troubles: Because of which finding, where and when a job was stopped last.
    """

    rhythms: dict[str, JobRhythm] = msgspec.field(default_factory=dict)
    paces: dict[str, Pace] = msgspec.field(default_factory=dict)
    gangs: dict[str, GangPace] = msgspec.field(default_factory=dict)
    models: dict[str, Silences] = msgspec.field(default_factory=dict)
    troubles: dict[str, tuple[c.FindingKind, str, int]] = msgspec.field(default_factory=dict)


class Watcher:
    """Answers ``NodeUsage`` with what is found of the jobs on the node, and with reactions."""

    name = "watcher"
    logic = 5
    reads: frozenset[type] = frozenset({c.NodeUsage, c.JobEnded, c.JobRejected})
    state_type = WatcherState

    def __init__(self, state: WatcherState | None = None) -> None:
        self.state = state or WatcherState()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the node's next usage is judged again."""

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """Judge the jobs of a node. Work: O(1) for each of them."""
        match received.event:
            case c.JobEnded(job=name) | c.JobRejected(job=name) if view.jobs.is_over(name):
                self._learn(name, view.jobs.get(name))
                self._forget(name)
            case c.NodeUsage() as usage:
                return list(self._judge(view, usage, received.at_ms))
        return ()

    def _judge(self, view: ClusterView, usage: c.NodeUsage, at_ms: int) -> Iterator[c.ClusterEvent]:
        watched: list[Watched] = []
        node = view.nodes.get(usage.node)
        is_full = node is not None and usage.used.cpu_m >= FULL * node.capacity.cpu_m
        for name, cpu_m in usage.jobs.items():
            job = view.jobs.get(name)
            if job is None:
                continue
            rhythm = self._rhythm(job, view.counted_ms)
            if job.phase is Phase.RUNNING and job.alive and job.plan is None:
                limit_m = None if job.limit is None else job.limit.in_force_m
                rhythm.use(cpu_m, limit_m, view.counted_ms, at_ms, is_full=is_full)
                watched.append((job, rhythm))
            else:
                rhythm.pass_over(view.counted_ms, at_ms)
        for found in usage.progress:
            known = self.state.rhythms.get(found.job)
            if known is not None and known.incarnation == found.incarnation:
                activity = known.activity if found.replica else found.activity  # only the chief's output is read
                known.hear(found.step, (found.epoch, found.loss), activity)
                known.note_stopped(found.replica, stopped=found.stopped)
                if found.replica or found.job in self.state.gangs:
                    self._hear_replica(found)
        if node is not None:
            yield from self._found(view, node, watched, is_full=is_full)
            if view.parameters.watch.drains:
                yield from self._slow_node(view, node, watched, usage.jobs)

    def _found(
        self, view: ClusterView, node: Node, watched: Sequence[Watched], *, is_full: bool
    ) -> Iterator[c.ClusterEvent]:
        for job, rhythm in watched:
            if not self.state.awaits("job", job.name) and node.failed_gpus:
                yield from _failed_gpu(job, node, view.parameters.watch)
            if not self.state.awaits("job", job.name):
                for event in _found(job, rhythm, view.parameters.watch):
                    yield self._placed(view, event, node, watched) if isinstance(event, c.ReactionPlanned) else event
                as_usual = job.limit is None and not is_full
                yield from (
                    self._slow_replica(job) if job.spec.is_gang else self._slow(job, rhythm, node, as_usual=as_usual)
                )

    def _hear_replica(self, found: c.ReplicaProgress) -> None:
        if found.step is not None and found.cpu_ms is not None:
            gang = self.state.gangs.setdefault(found.job, GangPace(incarnation=found.incarnation))
            if gang.incarnation != found.incarnation:
                gang = self.state.gangs[found.job] = GangPace(incarnation=found.incarnation)
            gang.hear(found.replica, found.step, found.cpu_ms)

    def _slow(self, job: Job, rhythm: JobRhythm, node: Node, *, as_usual: bool) -> Iterator[c.ClusterEvent]:
        """What is found of a job's pace, once it has made steps since the last look.

        ``as_usual``: nothing holds it back, so that its pace may be compared to other jobs'.
        """
        if rhythm.step_ms is None:
            return
        paces = self.state.paces
        pace = paces.get(job.name)
        if pace is None:
            pace = paces[job.name] = Pace(node=node.name, model=_kin(job))
        pace.add(rhythm.step_ms / 1_000, node.name, paces, is_closed=bool(node.slow))
        if as_usual:
            pace.compare(paces)
        rhythm.step_ms = None
        cause = pace.cause(paces)
        if pace.peers is None or cause is None or c.FindingKind.SLOWED in job.findings:
            why = "" if pace.peers is None else None
        else:
            than = "those of its model on other nodes" if pace.from_start else "before"
            why = f"a step takes {pace.ratio:.2g} times as long as {than}; {CAUSES[cause].format(node=node.name)}"
        yield from _changed(
            job, c.FindingKind.SLOWED, why, "its steps take as long as usual", {"ratio": round(pace.ratio, 3)}
        )

    def _slow_replica(self, job: Job) -> Iterator[c.ClusterEvent]:
        """What is found of a gang's replicas, once each has made steps since the last look."""
        gang = self.state.gangs.get(job.name)
        if gang is None or gang.incarnation != job.incarnation or len(gang.busy) < len(job.replicas):
            return
        gang.compare(gang.busy, {index: one.role for index, one in enumerate(job.replicas)})
        gang.busy = {}
        why, figures = "", {}
        if (straggler := gang.straggler) is not None:
            replica, ratio = straggler
            where = job.replicas[replica].node
            why = f"replica {replica} on {where} computes {ratio:.2g} times as long as its peers for a step"
            figures = {"replica": float(replica), "ratio": round(ratio, 3)}
        yield from _changed(job, c.FindingKind.STRAGGLER, why, "its replicas compute equally long", figures)

    def _slow_node(
        self, view: ClusterView, node: Node, watched: Sequence[Watched], used: Mapping[str, int]
    ) -> Iterator[c.ClusterEvent]:
        """Close a slow node, and move its jobs one after the other: a plan that is read back holds its room."""
        paces = self.state.paces
        known = [(job, paces.get(job.name), rhythm.most_m) for job, rhythm in watched]
        jobs = [  # one that has just come has the pace of its old node
            SlowJob(job, None if pace is None or pace.node != node.name else pace, used[job.name], most_m)
            for job, pace, most_m in known
        ]
        if not self.state.awaits("node", node.name):
            yield from closing(view, node, jobs, paces, view.position)
        if node.slow and not any(isinstance(one.event, c.MigrationPlanned) for one in self.state.unread):
            yield from leaving(
                view, node, [one for one in jobs if not self.state.awaits("job", one.job.name)], view.position
            )

    def _placed(
        self, view: ClusterView, planned: c.ReactionPlanned, node: Node, watched: Sequence[Watched]
    ) -> c.ReactionPlanned:
        """A restart, elsewhere where its node is the cause: half of the other jobs there are, or were, no better."""
        job, kind, troubles = view.jobs[planned.job], planned.kind, self.state.troubles
        here, since_ms = (kind, node.name), view.counted_ms - AVOIDS_MS
        alike = {
            name: None for name, (what, where, at_ms) in troubles.items() if (what, where) == here and at_ms >= since_ms
        }
        alike |= {other.name: None for other, _ in watched if kind in other.findings}
        alike.pop(job.name, None)
        troubles[job.name] = (*here, view.counted_ms)
        pace = self.state.paces.get(job.name)
        is_node = (pace is not None and pace.cause(self.state.paces) == "node") or (
            bool(alike) and 2 * len(alike) >= len(watched) - 1
        )
        stays = not planned.restarts or job.spec.is_gang or kind is c.FindingKind.GPU
        if stays or not is_node or emptiest(view, node, job) is None:
            return planned
        return msgspec.structs.replace(planned, avoids=node.name)

    def _learn(self, name: str, job: Job | None) -> None:
        """Keep the silences of a job that is over for the next one of its model."""
        rhythm, models = self.state.rhythms.get(name), self.state.models
        if rhythm is None or job is None or not job.spec.model or not rhythm.gaps.count:
            return
        learned = models.pop(job.spec.model, Silences()).and_those_of(rhythm)
        if len(models) >= MODELS_KEPT:
            models.pop(next(iter(models)))
        models[job.spec.model] = learned

    def _forget(self, name: str) -> None:
        for known in (self.state.rhythms, self.state.paces, self.state.gangs, self.state.troubles):
            known.pop(name, None)

    def _rhythm(self, job: Job, now_ms: int) -> JobRhythm:
        rhythms = self.state.rhythms
        rhythm = rhythms.get(job.name)
        if rhythm is None:
            if len(rhythms) >= RHYTHMS_KEPT:
                self._forget(next(iter(rhythms)))
            earlier = self.state.models.get(job.spec.model, Silences())
            rhythm = JobRhythm(incarnation=job.incarnation, at_ms=now_ms, busy_ms=now_ms, earlier=earlier)
            rhythms[job.name] = rhythm
        elif rhythm.incarnation != job.incarnation:
            rhythm.restart(job.incarnation, now_ms)
        return rhythm


def _kin(job: Job) -> str:
    """What it has in common with the jobs whose steps take as long: a model, and what it requests."""
    return job.spec.model and f"{job.spec.model} {job.spec.requests}"


def _found(job: Job, rhythm: JobRhythm, parameters: WatchParameters) -> Iterator[c.ClusterEvent]:
    total = total_steps(job)
    is_done = total is not None and rhythm.step >= total
    hung, idle = "" if is_done else _hung(rhythm), _idle(rhythm, is_done=is_done)
    goes_on = "a signal lets it go on" if rhythm.silent_ms else "it makes steps again"
    for kind, why, lasts_ms, over in (
        (c.FindingKind.HUNG, hung, int(rhythm.silent_ms), goes_on),
        (c.FindingKind.IDLE, idle, rhythm.unused_ms, "it uses the CPU again"),
    ):
        if why and kind not in job.findings:
            figures = {"silent_ms": float(round(rhythm.silent_ms)), "unused_ms": float(rhythm.unused_ms)}
            if kind is c.FindingKind.HUNG:
                figures["allowed_ms"] = float(round(rhythm.allowed_ms))
            since = max(0, rhythm.at_ms - lasts_ms)
            yield c.FindingOpened(
                job=job.name, incarnation=job.incarnation, kind=kind, since_ms=since, why=why, figures=figures
            )
        elif not why and kind in job.findings:
            yield c.FindingEnded(job=job.name, incarnation=job.incarnation, kind=kind, why=over)
        elif why:
            yield from _reaction(job, job.findings[kind], parameters)
    yield from _changed(job, c.FindingKind.UNREAD, _unread(job, rhythm), "its steps are read", {})
    if (diverged := job.findings.get(c.FindingKind.DIVERGED)) is not None:
        yield from _reaction(job, diverged, parameters)


def _failed_gpu(job: Job, node: Node, parameters: WatchParameters) -> Iterator[c.ClusterEvent]:
    """A job does not stay on a GPU that failed: it goes on elsewhere from its newest checkpoint."""
    mine = gpus_on(job, node.name)
    failed = [f"GPU {one.gpu} of {node.name}: {one.why}" for one in node.failed_gpus if one.gpu in mine]
    if failed and c.FindingKind.GPU in job.findings:
        yield from _reaction(job, job.findings[c.FindingKind.GPU], parameters)
    elif failed:
        yield from _changed(job, c.FindingKind.GPU, "; ".join(failed), "", {})


def _changed(
    job: Job, kind: c.FindingKind, why: str | None, over: str, figures: dict[str, float]
) -> Iterator[c.ClusterEvent]:
    """A finding that opens or ends; ``why`` is empty where there is nothing, and None where it is as it was."""
    if why and kind not in job.findings:
        yield c.FindingOpened(job=job.name, incarnation=job.incarnation, kind=kind, why=why, figures=figures)
    elif why == "" and kind in job.findings:
        yield c.FindingEnded(job=job.name, incarnation=job.incarnation, kind=kind, why=over)


def _hung(rhythm: JobRhythm) -> str:
    if not rhythm.is_hung:
        return ""
    silent, allowed = rhythm.silent_ms / 1_000, rhythm.allowed_ms / 1_000
    if rhythm.stopped is not None:
        return f"a signal has stopped its process (state T), and there was no step for {silent:.0f} s; SIGCONT lets it go on"
    uses = "it uses no CPU" if rhythm.unused_ms >= STILL_MS else "it uses CPU"
    after = f" after a line about {rhythm.phase}" if rhythm.phase else ""
    longest = f"; its longest silence was {rhythm.longest_ms / 1_000:.0f} s" if rhythm.longest_ms else ""
    return f"no step for {silent:.0f} s{after}, and {allowed:.0f} s would be usual; {uses}{longest}"


def _unread(job: Job, rhythm: JobRhythm) -> str:
    """Nothing says how far it is, until something does. The losses of a device come without its heartbeats."""
    if job.measured or not (rhythm.is_unread or (c.FindingKind.UNREAD in job.findings and not rhythm.begun)):
        return ""
    seconds = rhythm.silent_ms / 1_000
    if rhythm.activity is None:
        mend = "`python -u` makes Python print without delay, and `submit --tty` a progress bar"
        return f"it has printed nothing for {seconds:.0f} s; {mend}"
    mend = f"`steepest logs {job.name} | steepest parse -` shows how its lines are read, and suggests a `--pattern`"
    return f"no step and no loss was read for {seconds:.0f} s; {mend}"


def _idle(rhythm: JobRhythm, *, is_done: bool) -> str:
    """Uses nothing although it may; a job in the middle of its steps hangs rather than idles."""
    if is_done and rhythm.unused_ms >= FINISHED_IDLE_MS:
        return f"it has made all {rhythm.step} steps, and uses no CPU for {rhythm.unused_ms / 1_000:.0f} s"
    if not rhythm.begun and rhythm.unused_ms >= IDLE_MS:
        return f"it uses no CPU for {rhythm.unused_ms / 1_000:.0f} s, and has made no step"
    return ""


def _reaction(job: Job, found: c.FindingOpened, parameters: WatchParameters) -> Iterator[c.ReactionPlanned]:
    if job.reaction or job.cancel or job.hold or job.suspended_for == job.incarnation:
        return
    has_failed = found.kind is c.FindingKind.GPU
    asked: c.Reaction | None = None if has_failed else getattr(job.spec.reactions, found.kind.value)
    wanted = c.Reaction.RESTART if has_failed else asked or getattr(parameters, found.kind.value)
    suspends = wanted is c.Reaction.SUSPEND
    if wanted is c.Reaction.NOTIFY or (suspends and immovable(job) is not None):
        return  # one that cannot save would lose its work
    restarts = wanted is c.Reaction.RESTART and (has_failed or job.restarted < parameters.restarts)
    if restarts and found.kind is c.FindingKind.DIVERGED:
        restarts = job.good is not None or job.checkpoint is None
    yield c.ReactionPlanned(
        job=job.name,
        incarnation=job.incarnation,
        kind=found.kind,
        restarts=restarts,
        suspends=suspends,
        reason=f"{found.kind.value}: {found.why}",
    )
