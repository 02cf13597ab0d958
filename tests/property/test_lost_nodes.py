"""A node is lost at any record and comes back: some ticks later, what is planned is what is planned without that.

The whole table of deciders runs, over jobs that share their nodes as an operating system shares them, whose losses and
traffic follow from the CPU that they get. Nothing starts or ends in the last minutes, so that nothing else leads a planner
back to a node that it has passed over.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import FlowConParameters, PoolParameters, PreemptionLimits, SpeConParameters
from steepest.events.received import Received
from steepest.policies.deciders import CLUSTER_DECIDERS, STREAM_DECIDERS
from steepest.policies.monitor.facts import Facts
from steepest.policies.named import under
from steepest.policies.pickyman.profiler import Profiler
from steepest.policies.specon.categorizer import Categorizer
from steepest.policies.watch.watcher import Watcher
from steepest.view.state import Job, Phase

NODE_M = 1_000
STEP_MS = 250
EPOCH_STEPS = 20
EPOCH_BYTES = 80_000_000
SECONDS = 260
RECORDS, LONGEST_S = 1_100, 30
"""The node is lost at one of the first records, of some 2,000, and for so long at most."""

POLICIES = ("steepest", "specon", "flowcon", "dragon-fixed", "pickyman", "round-robin")
"""One for each planner."""

INTERVAL_MS = 5_000
NODES = {"n": (0, SECONDS), "m": (0, SECONDS), "device": (0, 220), "late": (180, SECONDS)}
"""From when until when each is heard of: two where jobs run, a device that takes none, and an idle one for them to go to."""

STILL = [f"still-{number}" for number in range(6)]

JOBS: dict[str, tuple[int, dict[str, Any]]] = {
    "short": (0, {"first_node": "n", "steps": 2_600}),
    "middle": (1, {"first_node": "n", "steps": 3_000}),
    "long": (2, {"first_node": "n", "steps": 4_500}),
    "flat": (3, {"first_node": "m", "steps": 4_000, "cpu_m": 200}),
    "goal": (5, {"first_node": "m", "steps": 3_500, "goal": c.Goal(below=9.7), "cpu_m": 600}),
    "waits": (10, {"first_node": "m", "steps": 20_000, "cpu_m": 500}),
    **{job: (20 + at, {"first_node": "n", "steps": 9_000 + 2_000 * at, "cpu_m": 50}) for at, job in enumerate(STILL)},
    "gang": (30, {"steps": 30_000, "roles": (c.Role(name="worker", replicas=2, min=1, requests=Resources(cpu_m=50)),)}),
    "brief": (45, {"first_node": "m", "steps": 60, "cpu_m": 950}),
    "whole": (245, {"first_node": "late", "steps": 3_000, "requests": Resources(cpu_m=10, gpus=1)}),
}
"""When each is submitted, and what it asks for."""

FALLS = {"short": 0.005, "middle": 0.002, "long": 0.0002, "goal": 0.02, "waits": 0.003, "brief": 0.003, "gang": 0.002}
"""By how much the loss of each falls in a step, if it does."""

OTHERWISE_S = 100
"""From here on nothing starts or ends. The shortest job has found out that it is the longest of three, and one that had
learned all learns most."""

FALLS_THEN = FALLS | {"short": 0.0002, "long": 0.005}
STEPS_THEN = {"short": 5_000}

FLAT_FROM = 40
"""The step from which on nothing falls under SpeCon, so that in the end it rebalances the nodes."""

PARAMETERS = PoolParameters(
    specon=SpeConParameters(interval_ms=INTERVAL_MS, alpha=0.001),
    flowcon=FlowConParameters(interval_ms=INTERVAL_MS, alpha=0.0005, most_doublings=1, granularity_m=50),
    preemption=PreemptionLimits(min_run_ms=1_000, max_suspensions=1),
)


class Process:
    """What an incarnation of a job has done."""

    def __init__(self, incarnation: int, cpu_ms: float, loss: float) -> None:
        self.incarnation, self.cpu_ms, self.loss, self.share_m = incarnation, cpu_ms, loss, 0

    @property
    def step(self) -> int:
        """Steps, each of the same work."""
        return int(self.cpu_ms) // STEP_MS


class World(DeciderDriver):
    """A pool under a policy, and its jobs.

    Attributes:
        made: The deciders that decided anything.
    """

    def __init__(self, policy: str, lost: str = "", at_record: int = -1, for_s: int = 0) -> None:
        """Lose a node at this record, for some seconds; without a name, none."""
        self.lost, self.at_record, self.for_s, self.back_s = lost, at_record, for_s, 0
        self.second = 0
        self.processes: dict[str, Process] = {}
        self.streams = {name: kind() for name, kind in STREAM_DECIDERS.items()}
        self.said = 0
        self.made: dict[str, None] = {}
        self.silent = ""
        self.parameters = parameters = under(policy, PARAMETERS)
        super().__init__(*(kind() for kind in CLUSTER_DECIDERS.values()))
        self.fold(c.PoolConfigured(parameters=parameters))

    def take_in(self, received: Received[c.ClusterEvent]) -> bool:
        """See ``FoldedPool.take_in``; the node is lost before the record."""
        if self.lost and self.at_record <= len(self.log) and self.lost in self.view.nodes:
            lost, self.lost = self.lost, ""
            self.back_s, self.silent = self.second + self.for_s, lost
            super().take_in(received)
            self.fold(c.NodeLost(node=lost, silent_ms=10_000))
            return self.engine.accepted
        return super().take_in(received)

    def step(self, received: Received[c.ClusterEvent]) -> Any:
        """See ``DeciderDriver.step``."""
        minted = super().step(received)
        self.made |= {one.id.decider: None for one in minted}
        return minted

    # --- a second ----------------------------------------------------------------------------------------------------

    def live(self) -> None:
        """All seconds."""
        for self.second in range(SECONDS):
            self.now_ms += 1_000
            self.feed(*(self.of(job) for job, (at_s, _) in JOBS.items() if at_s == self.second))
            for node in NODES:
                self.work(node)
            for node in NODES:
                self.beat(node)
            for name, process in self.processes.items():
                if self.job(name).alive:
                    self.say(LossReported(job=name, incarnation=process.incarnation, value=process.loss))
            self.fold(c.Tick(counted_ms=self.view.counted_ms + 1_000))
            self.carry_on()

    def of(self, job: str) -> c.JobSubmitted:
        """Its submission."""
        asks: dict[str, Any] = {"cpu_m": 100, "model": "m"} | JOBS[job][1]
        mode = CheckpointMode.NONE if self.parameters.steepest.on else CheckpointMode.ON_REQUEST
        return submitted(job, mode=mode, **asks)

    def running(self, node: str) -> list[Job]:
        """The jobs with a process on a node."""
        return [job for job in self.view.jobs if job.phase is Phase.RUNNING and job.alive and node in job.running_on]

    def work(self, node: str) -> None:
        """The operating system gives equal parts, and nobody more than its limit."""
        left = NODE_M
        jobs = sorted(self.running(node), key=limit_of)
        for number, job in enumerate(jobs):
            known = self.processes.get(job.name)
            if known is None or known.incarnation != job.incarnation:
                done = (known.cpu_ms, known.loss) if known else (0.0, 10.0)
                known = self.processes[job.name] = Process(job.incarnation, *done)
                self.watch(job)
            share = min(limit_of(job), left // (len(jobs) - number))
            left -= share
            before, known.share_m = known.step, share
            known.cpu_ms += share
            falls = FALLS if self.second < OTHERWISE_S else FALLS_THEN
            if not (self.parameters.moves and before >= FLAT_FROM):
                known.loss -= falls.get(job.name, 0.0) * (known.step - before)

    def watch(self, job: Job) -> None:
        """Its losses follow."""
        parameters = self.view.parameters.specon
        self.say(JobWatched(job=job.name, pool="p", incarnation=job.incarnation, metric="loss", parameters=parameters))

    def beat(self, node: str) -> None:
        """A heartbeat, unless the node is silent."""
        from_s, until_s = NODES[node]
        if not from_s <= self.second < until_s or (node == self.silent and self.second < self.back_s):
            return
        reports = tuple(self.report(job, node, self.processes[job.name]) for job in self.running(node))
        used = Resources(cpu_m=sum(one.cpu_m or 0 for one in reports))
        beat = NodeHeartbeat(
            node=node,
            pool="p",
            at_ms=self.now_ms,
            capacity=Resources(cpu_m=NODE_M, gpus=int(node == "late")),
            used=used,
            replicas=reports,
            takes_jobs=node != "device",
            usage_every_ms=1_000,
            progress_every_ms=1_000,
        )
        for name in (Facts.name, Profiler.name):
            self.tell(name, beat)

    def report(self, job: Job, node: str, process: Process) -> ReplicaReport:
        """Of the first replica on a node; an epoch is read in the first four fifths of its steps."""
        epochs, steps = divmod(process.cpu_ms / STEP_MS, EPOCH_STEPS)
        read = int(EPOCH_BYTES * (epochs + min(1.25 * steps / EPOCH_STEPS, 1.0)))
        return ReplicaReport(
            job=job.name,
            replica=job.running_on.index(node) if job.spec.is_gang else 0,
            incarnation=process.incarnation,
            state=ReplicaState.RUNNING,
            cpu_m=process.share_m,
            step=process.step,
            total=job.spec.steps if self.second < OTHERWISE_S else STEPS_THEN.get(job.name, job.spec.steps),
            cpu_ms=int(process.cpu_ms),
            loss=process.loss,
            read_bytes=read,
            checkpoint_mode=CheckpointMode.ON_REQUEST,
        )

    def say(self, event: JobWatched | LossReported) -> None:
        """On ``loss``."""
        self.tell(Categorizer.name, event)

    def tell(self, decider: str, event: Any) -> None:
        """A stream's decider hears it, and its decisions stand in the log."""
        self.said += 1
        received = Received(event=event, topic="other", partition=0, offset=self.said, at_ms=self.now_ms)
        for decision in self.streams[decider].step(received):
            self.made[decider] = None
            self.fold(decision.event)

    def carry_on(self) -> None:
        """Limits come into force, and plans are carried out, but for steps on a silent node."""
        self.deliver(everything=True)
        for plan in list(self.view.in_flight.values()):
            if not any(self.node(node).lost for node in (*plan.sources, *plan.targets)):
                self.carry_out(plan.job)
        for job in list(self.view.jobs):
            limit = job.limit
            if limit is not None and not limit.answered and not self.node(job.nodes[0]).lost:
                self.fold(
                    c.LimitsApplied(
                        plan=limit.plan, node=job.nodes[0], job=job.name, incarnation=job.incarnation, cpu_m=limit.cpu_m
                    )
                )


def limit_of(job: Job) -> int:
    """The most that a job gets on a node, in millicores."""
    in_force = None if job.limit is None else job.limit.in_force_m
    return NODE_M if in_force is None else in_force * len(job.running_on)


NEARLY_M = 60
"""Limits that differ by less are the same: what was measured meanwhile was measured over other times."""


def stands(world: World) -> dict[str, Any]:
    """What the deciders have made of each job; of one that may move not where it is, since that depends on when."""
    return {
        job.name: {
            "phase": job.phase,
            "outcome": job.outcome,
            "list": None if job.limit is None else job.limit.growth_list,
            "limited": job.limit is not None and job.limit.cpu_m is not None,
            "unknown": job.unknown,
            "predicted": job.forecast is not None,
        }
        for job in world.view.jobs
    }


def limits(world: World) -> dict[str, int]:
    """The limits that are planned."""
    return {
        job.name: job.limit.cpu_m for job in world.view.jobs if job.limit is not None and job.limit.cpu_m is not None
    }


@cache
def undisturbed(policy: str) -> World:
    """The life of a pool in which no node is lost, but for one in the end."""
    world = World(policy)
    world.live()
    return world


def test_every_decider_decides_here() -> None:
    """Under one policy or another: else losing a node would prove nothing about it."""
    deciders = {decider for policy in POLICIES for decider in undisturbed(policy).made}

    assert deciders == {*CLUSTER_DECIDERS, *STREAM_DECIDERS} - {"trial-judge"}  # it knows no node


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=scaled(32))
@example(node="n", at_record=750, for_s=14)
@example(node="n", at_record=887, for_s=20)
@example(node="n", at_record=917, for_s=25)
@given(
    node=st.sampled_from(("n", "n", "m", "device")),
    at_record=st.integers(5, RECORDS),
    for_s=st.integers(0, LONGEST_S),
)
def test_a_node_that_was_lost_is_planned_again(policy: str, node: str, at_record: int, for_s: int) -> None:
    """Jobs and limits are in the end those of a life without that, and everything is decided that is decided there.

    But for what measures found meanwhile: an epoch that passed unseen has no profile, a pace that was not heard is not slow.
    """
    before, world = undisturbed(policy), World(policy, node, at_record, for_s)
    world.live()

    assert stands(world) == stands(before)
    assert limits(world) == pytest.approx(limits(before), abs=NEARLY_M)
    assert {*before.made} - {Profiler.name, Watcher.name} <= {*world.made}
