"""Deciders, log, migrator and processes together, in any interleaving: no job is lost, and every reservation is released.

At every record the placer and the rebalancer decide what they would without their indexes and memories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import (
    cancelled,
    category,
    checkpoint,
    grown,
    joined,
    requested,
    submitted,
    used,
)
from tests.harness.system.replica_processes import ReplicaProcesses, failed
from tests.harness.view_promises import check_view
from tests.property.naive import DriverBesideNaive

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.parameters import BalanceRule, FlowConParameters, PoolParameters, SpeConParameters
from steepest.invariants import Status, check
from steepest.policies.flowcon.limit_planner import LimitPlanner
from steepest.policies.monitor.silence import Silence
from steepest.policies.placement.placer import Placer
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.view.state import Phase

T = TypeVar("T")
NODES = ("w1", "w2", "w3")
CPU_M = (50, 100, 100, 200, 450, 5_000)
MODES = (CheckpointMode.ON_REQUEST, CheckpointMode.ON_REQUEST, CheckpointMode.ON_STOP, None)
FIRST_NODES = (None, None, None, "w1", "w2", "w9")
STATUS = (0, 0, 1, 85, -9, None)
FAILURES = ("refused", "step-timeout", "not-running")

# The events of the world; each is drawn as often as it is listed here.
SUBMIT, EXIT, CANCEL, CONVERGE, GROW, SAVE, WAIT, LAG, REPORT, ACT = range(10)
HAPPENINGS = (
    (SUBMIT,) * 4 + (EXIT,) * 2 + (CANCEL, GROW, SAVE, LAG, REPORT) + (WAIT,) * 2 + (CONVERGE,) * 6 + (ACT,) * 14
)
Happening = tuple[int, int, int]


class Loop:
    """A running pool: the world's events, and the migrator's turns; decisions come back late."""

    def __init__(self, specon: SpeConParameters, *, limits: bool) -> None:
        self.delay = 0
        self.planner = LimitPlanner()
        deciders = (Placer(), NodeScorer(), Rebalancer(), Silence(), self.planner)
        self.driver = DriverBesideNaive(*deciders, delay=lambda: self.delay)
        self.processes = ReplicaProcesses(self.driver)
        self.under_way: dict[str, c.StepBegun] = {}
        self.submitted = 0
        parameters = PoolParameters(specon=specon, flowcon=FlowConParameters(on=limits))
        self.driver.fold(c.PoolConfigured(parameters=parameters))
        self.driver.feed(joined("w1", 1_000), joined("w2", 500), joined("w3", 500))

    def happen(self, kind: int, which: int, how: int) -> None:
        """One thing happens; ``which`` and ``how`` choose among what there is."""
        jobs = sorted(job.name for job in self.driver.active())
        match kind:
            case _ if kind == SUBMIT:
                self.submit(which, how)
            case _ if kind == EXIT and self.processes.running:
                self.processes.exit(pick(sorted(self.processes.running), which), pick(STATUS, how))
            case _ if kind == WAIT:
                self.driver.tick(pick((1_000, 5_000, 60_000), which))
                self.driver.feed(*(used(node, how) for node in NODES if (how >> int(node[1])) % 2))
            case _ if kind == REPORT:
                self.processes.report_ends()
            case _ if kind == LAG:
                self.delay = how % 7
            case _ if kind == ACT and self.driver.view.in_flight:
                self.act(pick(sorted(self.driver.view.in_flight), which), how)
            case _ if jobs:
                self.report(kind, pick(jobs, which), how)

    def submit(self, which: int, how: int) -> None:
        """A job, at times one that fits nowhere or must start on a node that is not there."""
        self.submitted += 1
        self.driver.fold(
            submitted(
                f"job-{self.submitted}",
                pick(CPU_M, which),
                pick(MODES, how),
                retries=how % 2,
                first_node=pick(FIRST_NODES, how // 4),
            )
        )

    def report(self, kind: int, name: str, how: int) -> None:
        """A user or the categorizer reports something about a job."""
        match kind:
            case _ if kind == CANCEL:
                self.driver.fold(cancelled(name))
            case _ if kind == CONVERGE:
                self.driver.feed(grown(name), category(name, c.Category.CONVERGED), requested(name))
            case _ if kind == GROW:
                self.driver.feed(grown(name), category(name, pick(tuple(c.Category), how)))
            case _ if kind == SAVE:
                incarnation = self.driver.job(name).incarnation
                saved = checkpoint(how, incarnation)
                self.driver.fold(
                    c.CheckpointVerified(
                        job=name, incarnation=incarnation, node=self.driver.job(name).started_on or "", checkpoint=saved
                    )
                )

    def act(self, name: str, how: int) -> None:
        """The migrator begins a step or concludes a plan; or a step works, fails, or takes effect without a report."""
        plan = self.driver.view.in_flight[name]
        if not plan.begun:
            if (begun := self.processes.begin(plan.job)) is not None:
                self.under_way[name] = begun
            return
        begun = self.under_way[name]
        note(f"{plan.kind} {plan.heading} {begun.step}")
        if how % 5 == 0 and not self.processes.took_effect(begun):
            self.driver.fold(failed(begun, pick(FAILURES, how // 5)))
            return
        outcome = self.processes.perform(begun)
        self.driver.fold(failed(begun, "uncertain", definite=False) if how % 5 == 1 else outcome)

    def check(self) -> None:
        """No node is filled beyond what it has, and nothing runs whose place is free."""
        check_view(self.driver.view)
        for name in self.processes.running:
            assert self.driver.job(name).phase is Phase.RUNNING, f"{name} runs, and its place is free"

    def come_to_an_end(self) -> None:
        """Every node sends a heartbeat and every process finishes: then nothing is held, and no job waits."""
        for name, begun in sorted(self.under_way.items()):
            plan = self.driver.view.in_flight.get(name)
            if plan is not None and plan.begun and plan.attempt == begun.attempt:
                self.driver.fold(self.processes.perform(begun))
        for _ in range(5 + self.submitted):
            self.driver.feed(*(joined(node, 1_000) for node in NODES))
            self.processes.settle()
            for name in sorted(self.processes.running):
                self.processes.exit(name, 0)


def pick(options: Sequence[T], number: int) -> T:
    """One of the options."""
    return options[number % len(options)]


@given(
    st.lists(st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 60), st.integers(0, 60)), min_size=50, max_size=250),
    st.booleans(),
    st.sampled_from(BalanceRule),
    st.booleans(),
)
@settings(max_examples=scaled(80), deadline=None)
def test_no_job_is_lost_and_all_is_given_back(
    happenings: list[Happening],
    guard: bool,  # noqa: FBT001
    rule: BalanceRule,
    limits: bool,  # noqa: FBT001
) -> None:
    """For any events in any order, each promise of the view holds after each event, and all jobs end eventually."""
    loop = Loop(SpeConParameters(guard=guard, balance_rule=rule), limits=limits)
    for happening in happenings:
        loop.happen(*happening)
        loop.check()
    loop.come_to_an_end()
    loop.check()
    driver = loop.driver
    assert [job.name for job in driver.active()] == []
    assert len(driver.view.jobs) == loop.submitted
    assert driver.allocated() == {}
    assert driver.view.state.gaps == 0
    assert [verdict for verdict in check(driver.log) if verdict.status is Status.BROKEN] == []
    assert [one.name for one in driver.deciders if one is not loop.planner and _waits(one.state)] == []
    watched = loop.planner.state
    assert (watched.jobs, watched.rounds, watched.moving) == ({}, {}, {})


def _waits(state: Any) -> bool:
    """Whether a decider waits for anything to be read back."""
    return any(msgspec.to_builtins(state).values())
