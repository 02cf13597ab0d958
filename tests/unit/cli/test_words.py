"""Events in words: one line for each type of event, with what people look for in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest import describe
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, CheckpointRef, Resources
from steepest.events.parameters import FlowConParameters, PoolParameters, SpeConParameters, Threshold
from steepest.events.registry import CLUSTER

SAVED = CheckpointRef(name="step-00000120-i0001", step=120, digest="sha256:0")
SOURCE = c.NodeScore("n1", 7.0, 310, 4)
TARGET = c.NodeScore("n2", 3.0, 90, 2)
LONG = c.PredictedSpan(41_000, 38_000, 50_000)
MOVE = c.Because(rule="Algorithm 4: the lowest score", nodes=(TARGET, SOURCE), growing=3)

SPOKEN: list[tuple[c.ClusterEvent, str]] = [
    (c.LogOpened(epoch="e1"), "the log begins (epoch e1)"),
    (
        c.PoolConfigured(parameters=PoolParameters(moves=False)),
        "parameters in force: policy spread, queue fifo, interval 30 s, placement spread, a tick every 1.0 s",
    ),
    (
        c.PoolConfigured(
            parameters=PoolParameters(
                specon=SpeConParameters(threshold=Threshold.FITTED), flowcon=FlowConParameters(on=True)
            )
        ),
        (
            "parameters in force: policy specon+flowcon, queue fifo, interval 30 s, placement spread, α fitted to each "
            "job, FlowCon's α 0.03 a second, its interval 30 s, a tick every 1.0 s"
        ),
    ),
    (c.Tick(counted_ms=65_000), "the pool's clock is at 1 min 05 s"),
    (c.NodeJoined(node="n1", capacity=Resources(600, 2048)), "node n1 joined with 600m CPU, 2048 MiB"),
    (c.NodeLost(node="n1", silent_ms=15_000), "node n1 is lost: no heartbeat for 15 s"),
    (c.NodeGone(node="n1"), "node n1 is gone for good, as an operator or its cluster says: nothing runs there"),
    (c.NodeUsage(node="n1", used=Resources(300), jobs={"a": 300}), "node n1 uses 300m CPU: a 300m"),
    (
        c.NodeJoined(node="n1", capacity=Resources(cpu_m=500), failed_gpus=(c.FailedGpu(3, "Xid 79"),)),
        "node n1 joined with 500m CPU; GPU 3 has failed: Xid 79",
    ),
    (c.ReplicaStarted(job="a", incarnation=1, node="n1"), "a runs on n1 (incarnation 1)"),
    (c.ReplicaStarted(job="a", incarnation=2, node="n1", gpus=(3,)), "a runs on n1, GPU 3 (incarnation 2)"),
    (c.ReplicaStarted(job="a", incarnation=2, node="n1", gpus=(0, 3)), "a runs on n1, GPUs 0, 3 (incarnation 2)"),
    (
        c.CheckpointModeDeclared(job="a", incarnation=1, node="n1", mode=CheckpointMode.ON_REQUEST),
        "a supports checkpoints on request",
    ),
    (
        c.CheckpointVerified(job="a", incarnation=1, node="n1", checkpoint=SAVED),
        "a saved a verified checkpoint at step 120",
    ),
    (
        c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=-9, step=44),
        "a's process on n1 ended after step 44 (killed by signal 9)",
    ),
    (c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=0), "a finished"),
    (
        c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=85, reason="goal reached: loss < 0.1"),
        "a finished: goal reached: loss < 0.1",
    ),
    (
        c.GoalReached(job="a", incarnation=1, reason="loss < 0.1: 0.09 in the last interval", value=0.09),
        "a has reached its goal (loss < 0.1: 0.09 in the last interval): it saves, and ends",
    ),
    (
        c.GoalReached(job="a", incarnation=1, reason="no improvement", value=0.09, cpu_ms_saved=20_000),
        "a has reached its goal (no improvement): it saves, and ends; 20 s of CPU time are saved",
    ),
    (
        c.FindingOpened(job="a", incarnation=1, kind=c.FindingKind.HUNG, why="no step for 70 s"),
        "a hangs: no step for 70 s",
    ),
    (
        c.FindingEnded(job="a", incarnation=1, kind=c.FindingKind.SPIKE, why="its loss is back at 1"),
        "a has a spike no longer: its loss is back at 1",
    ),
    (
        c.TargetNotified(job="a", incarnation=1, kind=c.FindingKind.HUNG, to="ops"),
        "ops was notified that a hangs",
    ),
    (
        c.TargetNotified(job="a", incarnation=1, kind=c.FindingKind.HUNG, to="ops", over=True),
        "ops was notified that a hangs no longer",
    ),
    (
        c.ReactionPlanned(
            job="a", incarnation=1, kind=c.FindingKind.HUNG, restarts=True, reason="hung: no step for 70 s"
        ),
        "a is stopped, and starts again: hung: no step for 70 s",
    ),
    (
        c.ReactionPlanned(
            job="a", incarnation=1, kind=c.FindingKind.HUNG, restarts=True, reason="hung: no step", avoids="n1"
        ),
        "a is stopped, and starts again, away from n1: hung: no step",
    ),
    (
        c.ReactionPlanned(
            job="a", incarnation=1, kind=c.FindingKind.IDLE, restarts=False, suspends=True, reason="idle: no step"
        ),
        "a is saved and suspended, until it is resumed: idle: no step",
    ),
    (c.RungReached(job="a", incarnation=1, rung=1, at=3_000, value=0.25), "a has reached rung 1 (3,000): 0.25"),
    (c.RungReached(job="a", incarnation=1, rung=0, at=100), "a has reached rung 0 (100): it is not finite"),
    (c.TrialJudged(job="a", rung=1, goes_on=True, reason="rank 1 of 3"), "a goes on: rank 1 of 3"),
    (c.TrialJudged(job="a", rung=1, goes_on=False, reason="rank 2 of 3"), "a is saved and waits: rank 2 of 3"),
    (
        c.EpochMeasured(
            job="a", incarnation=2, epoch=3, epoch_ms=41_000, epoch_bytes=1_500_000, read_bytes=4_500_000, ended_ms=9
        ),
        "a read its data set in 41 s (epoch 3 of incarnation 2, 1.5 MB)",
    ),
    (
        c.EpochMeasured(
            job="a", incarnation=1, epoch=1, epoch_ms=500, epoch_bytes=512, read_bytes=512, ended_ms=9, confidence=0.8
        ),
        "a read its data set in 0.5 s (epoch 1 of incarnation 1, 512 B, 80 % sure)",
    ),
    (
        c.RunTimePredicted(
            job="a",
            incarnation=0,
            method=c.PredictionMethod.TIME_MODEL,
            total=LONG,
            remaining=LONG,
            model="resnet",
            profiles=4,
        ),
        (
            "a is predicted to run for another 41 s (38 s to 50 s), from the time model of resnet, "
            "fitted to 4 profiled jobs"
        ),
    ),
    (
        c.RunTimePredicted(job="a", incarnation=1, method=c.PredictionMethod.EPOCHS, total=LONG, remaining=LONG),
        "a is predicted to run for another 41 s (38 s to 50 s), from its own epochs",
    ),
    (
        c.RunTimePredicted(job="a", incarnation=0, method=c.PredictionMethod.UNKNOWN),
        "a: nothing says how long it runs",
    ),
    (
        c.PromiseRevised(
            job="a", fair_in_ms=40_000, due_in_ms=41_000, ahead=(c.GangAhead("b", 9_000), c.GangAhead("d"))
        ),
        "a is promised its end in 41 s (under fair sharing in 40 s; before it: b (9.0 s left), d (? left))",
    ),
    (
        c.PromiseRevised(job="a", tier=2, fair_in_ms=0, due_in_ms=90_000, reason="not all promises can be kept"),
        (
            "a is promised its end in 1 min 30 s (under fair sharing in 0.0 s; put off 2 times: "
            "not all promises can be kept)"
        ),
    ),
    (
        c.PromiseRevised(job="a", tier=6, fair_in_ms=0, reason="not all promises can be kept"),
        "a is promised no end any more (under fair sharing in 0.0 s; put off 6 times: not all promises can be kept)",
    ),
    (
        c.OverheadPredicted(
            plan="p", job="a", incarnation=1, kind=c.Overhead.SUSPENSION, predicted_ms=8_000, because="its epoch ends"
        ),
        "a: its suspension is predicted to take 8.0 s (its epoch ends)",
    ),
    (
        c.OverheadPredicted(plan="p", job="a", incarnation=2, kind=c.Overhead.RESUMPTION),
        "a: its resumption is predicted to take an unknown time",
    ),
    (
        c.OverheadMeasured(
            plan="p", job="a", incarnation=1, kind=c.Overhead.SUSPENSION, measured_ms=8_100, predicted_ms=8_000
        ),
        "a: its suspension took 8.1 s, 8.0 s predicted",
    ),
    (
        c.OverheadMeasured(plan="p", job="a", incarnation=2, kind=c.Overhead.RESUMPTION, measured_ms=900),
        "a: its resumption took 0.9 s, nothing was predicted",
    ),
    (c.JobEnded(job="a", outcome=c.Outcome.FAILED, exit_status=3), "a failed: exit status 3"),
    (c.JobEnded(job="a", outcome=c.Outcome.CANCELLED, exit_status=85), "a was cancelled"),
    (
        c.JobSubmitted(job="a", request="r", spec=c.JobSpec(command=("python", "my train.py"))),
        "a is submitted, requesting 50m CPU: python 'my train.py'",
    ),
    (
        c.JobSubmitted(job="a", request="r", spec=c.JobSpec(command=("x",), replicas=2)),
        "a is submitted, requesting 50m CPU for each of 2 replicas (worker): x",
    ),
    (c.JobCancelRequested(job="a", request="r"), "a: cancellation requested"),
    (c.JobCancelRequested(job="a", request="r", reason="late"), "a: cancellation requested: late"),
    (c.JobChangeRequested(job="a", request="r", held=True), "a may not run until it is released"),
    (c.JobChangeRequested(job="a", request="r", held=False, priority=7), "a may run: its priority is 7"),
    (c.NodeDrainRequested(node="n1", request="r", drained=True), "node n1 is drained: it gets no more jobs"),
    (c.NodeDrainRequested(node="n1", request="r", drained=False), "node n1 takes jobs again"),
    (
        c.NodeDrainRequested(node="n1", request="r", drained=True, why="it is slow"),
        "node n1 is drained: it gets no more jobs: it is slow",
    ),
    (
        c.JobEnded(job="a", outcome=c.Outcome.CANCELLED, exit_status=85, reason="its time is over"),
        "a was cancelled: its time is over",
    ),
    (
        c.GrowthMeasured(
            job="a", interval=1, total=1.0, count=2, largest=1.0, first_ms=0, last_ms=1, category=c.Category.PROGRESSING
        ),
        "a: first loss in interval 1; progressing (PC)",
    ),
    (
        c.CategoryChanged(job="a", before=c.Category.WATCHED, after=c.Category.CONVERGED, growth=0.00123456),
        "a is now converged (WC → CC): loss changed 0.12 % this interval",
    ),
    (
        c.ReallocationRequested(job="a", growth=0.002, interval=5),
        "a requests another node: converged, loss changed only 0.20 % this interval",
    ),
    (
        c.PlacementPlanned(plan="p", job="a", incarnation=0, nodes=("n1",), because=c.Because(rule="spread")),
        "a: start planned on n1 (spread)",
    ),
    (
        c.MigrationPlanned(
            plan="p", job="a", incarnation=1, source="n1", target="n2", kind=c.MoveKind.REALLOCATION, because=MOVE
        ),
        (
            "a: move planned from n1 to n2 (Algorithm 4: the lowest score): "
            "n1 (score 7, 4 jobs, 310m CPU used) → n2 (score 3, 2 jobs, 90m CPU used)"
        ),
    ),
    (
        c.TransitionPlanned(
            plan="p",
            job="a",
            incarnation=1,
            kind=c.Transition.SUSPEND,
            sources=("n1", "n2"),
            room_for="b",
            because=c.Because(rule="b is more urgent"),
        ),
        "a: suspension planned on n1, n2, to make room for b (b is more urgent)",
    ),
    (
        c.TransitionPlanned(
            plan="p",
            job="a",
            incarnation=1,
            kind=c.Transition.SCALE,
            sources=("n1", "n2"),
            nodes=("n1",),
            because=c.Because(rule="b starves"),
        ),
        "a: scaling planned from 2 to 1 replicas, on n1 (b starves)",
    ),
    (c.StayDecided(job="a", incarnation=1, node="n1", because=MOVE), "a stays on n1 (Algorithm 4: the lowest score)"),
    (
        c.RetryPlanned(job="a", incarnation=1, charged=True, not_before_ms=5, reason="it exited with status 1"),
        "a is queued again (this uses one of its retries): it exited with status 1",
    ),
    (c.JobAdmitted(job="a", request="r"), "a is admitted and queued"),
    (c.JobRejected(job="a", request="r", reason="it is too large"), "a is rejected: it is too large"),
    (
        c.StepBegun(plan="p", step=c.Step.STOP, attempt=2, job="a", incarnation=1, node="n1"),
        "a: stopping on n1 (step 2 of its plan)",
    ),
    (
        c.StepFailed(
            plan="p", step=c.Step.START, attempt=1, job="a", code="node-lost", definite=True, message="n1 is away"
        ),
        "a: step “start” failed without effect (node-lost): n1 is away",
    ),
    (
        c.CheckpointSaved(plan="p", attempt=1, job="a", incarnation=1, checkpoint=SAVED),
        "a saved a checkpoint at step 120 and waits to be stopped",
    ),
    (
        c.JobStopped(plan="p", attempt=1, job="a", incarnation=1, exit_status=85, step=120),
        "a was stopped after step 120 (exit status 85)",
    ),
    (
        c.SurplusStopped(
            plan="p", attempt=1, job="a", incarnation=1, replicas=(c.ReplicaAnswer(3, exit_status=85, step=120),)
        ),
        "a: surplus replicas have left, and the others train on: 3 (exit status 85)",
    ),
    (
        c.SurplusStopped(plan="p", attempt=1, job="a", incarnation=1),
        "a: surplus replicas have left, and the others train on: all had ended before",
    ),
    (
        c.TransitionPlanned(
            plan="p",
            job="a",
            incarnation=1,
            kind=c.Transition.SHED,
            sources=("n1", "n1", "n2", "n2"),
            nodes=("n1", "n1"),
            sizes=(1, 1),
            leaving=(2, 3),
            because=c.Because(rule="r"),
        ),
        "a: 2 surplus replicas planned to leave, 2 of 4 stay, on n1, n1 (r)",
    ),
    (
        c.JobPlaced(plan="p", attempt=1, job="a", incarnation=2, node="n2", restore=SAVED),
        "a is placed on n2, from its checkpoint of step 120 (incarnation 2)",
    ),
    (c.JobResumed(plan="p", attempt=1, job="a", incarnation=2, step=121), "a resumed training at step 121"),
    (
        c.MigrationFinished(plan="p", job="a", target="n2", steps_lost=0, took_ms=2_000, paused_ms=700),
        "a moved to n2: paused for 0.7 s, no step lost, 2.0 s in all",
    ),
    (
        c.MigrationFailed(plan="p", job="a", code="step-timeout", message="too slow", node="n1", steps_lost=1),
        "a could not be moved (step-timeout): too slow; it runs on n1, 1 step lost",
    ),
    (
        c.JobSuspended(plan="p", job="a", step=120, steps_lost=3, took_ms=2_000),
        "a is suspended at step 120, 3 steps lost, 2.0 s in all",
    ),
    (
        c.JobSuspended(plan="p", job="a", took_ms=2_000),
        "a is suspended, no step lost, 2.0 s in all",
    ),
    (
        c.TransitionFinished(plan="p", job="a", nodes=("n1", "n2", "n1"), took_ms=4_000, paused_ms=3_000),
        "a runs with 3 replicas on n1 (2 replicas), n2 (1 replica): paused for 3.0 s, no step lost, 4.0 s in all",
    ),
    (
        c.TransitionFailed(plan="p", job="a", code="refused", message="no", nodes=("n1", "n1")),
        "a: transition failed (refused): no; it runs on n1 (2 replicas)",
    ),
    (
        c.TransitionFailed(plan="p", job="a", code="refused", message="no", steps_lost=1),
        "a: transition failed (refused): no; it is queued, 1 step lost",
    ),
    (
        c.JobPlaced(plan="p", attempt=1, job="a", incarnation=1, node="n1", nodes=("n1", "n2"), sizes=(2,)),
        "a is placed on n1 (1 replica), n2 (1 replica), from its beginning (incarnation 1)",
    ),
    (
        c.PlanAbandoned(plan="p", job="a", code="given-up", message="cancelled"),
        "a: plan p abandoned (given-up): cancelled",
    ),
    (
        c.LimitsPlanned(
            plan="p",
            node="n1",
            limits=(c.JobLimit("a", 1, c.GrowthList.COMPLETING, 200), c.JobLimit("b", 2, c.GrowthList.NEW)),
            because=c.LimitsBecause(rule="Algorithm 1"),
        ),
        "limits planned on n1 (Algorithm 1): a 200m CPU (CL), b no limit (NL)",
    ),
    (c.LimitsApplied(plan="p", node="n1", job="a", incarnation=1, cpu_m=200), "a now has 200m CPU on n1"),
    (c.LimitsApplied(plan="p", node="n1", job="a", incarnation=1), "a now has no limit on n1"),
    (
        c.LimitsRefused(plan="p", node="n1", job="a", incarnation=1, code="not-running", definite=True, message="gone"),
        "a: limit refused on n1 (not-running); the old one stays: gone",
    ),
    (
        c.LimitsRefused(plan="p", node="n1", job="a", incarnation=1, code="timeout", definite=False, message="slow"),
        "a: limit refused on n1 (timeout); it is unclear which one is in force: slow",
    ),
]


@pytest.mark.parametrize(("event", "words_of_it"), SPOKEN, ids=lambda value: type(value).__name__)
def test_each_event_is_told_in_words(event: c.ClusterEvent, words_of_it: str) -> None:
    """An event's sentence says who, what, where and why."""
    assert describe.sentence(event) == words_of_it


def test_no_event_is_without_words() -> None:
    """Every event of the cluster topic can be described: the examples above hold each type."""
    assert {type(event) for event, _ in SPOKEN} == set(CLUSTER.types)


@given(st.text(max_size=200))
def test_a_sentence_is_one_line(text: str) -> None:
    """Text that came from outside never breaks a line in two, nor reaches a terminal as a control sequence."""
    assert describe.sentence(c.JobRejected(job="a", request="r", reason=text)).isprintable()


def test_only_measurements_are_routine() -> None:
    """What is routine may be left out; what anybody decided or did never is."""
    routine = {type(event) for event, _ in SPOKEN if describe.is_routine(event)}
    assert routine == {c.Tick, c.NodeUsage, c.GrowthMeasured, c.EpochMeasured}


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0.0 s"),
        (9_940, "9.9 s"),
        (10_000, "10 s"),
        (59_600, "1 min 00 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 05 min"),
    ],
)
def test_a_span_has_the_unit_that_fits(ms: int, text: str) -> None:
    """Seconds, minutes or hours, and never sixty of one."""
    assert describe.span(ms) == text
