"""Jobs that hang or idle are found by their own rhythm and use, and stopped where their user asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import checkpoint, grown, placement, submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import Activity, CheckpointMode, Resources
from steepest.events.growth import FindingKind, Reaction, Reactions
from steepest.events.parameters import PoolParameters, WatchParameters
from steepest.events.requests import Hold
from steepest.policies.placement.placer import Placer
from steepest.policies.watch import watcher
from steepest.policies.watch.watcher import Watcher
from steepest.view.state import Phase

RESTART = Reactions(hung=Reaction.RESTART)


class Pool(DeciderDriver):
    """Job ``a`` runs on node ``w1``, whose use is reported every second."""

    def __init__(self, **spec: Any) -> None:
        self.watcher = Watcher()
        super().__init__(Placer(), self.watcher, w1=4_000)
        self.fold(submitted("a", **spec))
        self.carry_out("a")
        self.steps = 0

    def trains(self, *gaps_s: float, cpu_m: int = 900, total: int | None = None) -> list[c.ClusterEvent]:
        """Steps after these gaps, each of which is used as said; what the watcher decides meanwhile."""
        before = len(self.decided)
        for gap_s in gaps_s:
            self.passes(gap_s, cpu_m)
            self.steps += 1
            incarnation = self.job("a").incarnation
            found = c.ReplicaProgress(
                job="a", incarnation=incarnation, step=self.steps, total=total, activity=Activity.OTHER
            )
            self.uses(cpu_m, found)
        return self.found_since(before)

    def says(self, activity: Activity) -> None:
        """It prints a line about that."""
        found = c.ReplicaProgress(job="a", incarnation=1, step=self.steps or None, activity=activity)
        self.uses(900, found)

    def passes(self, seconds: float, cpu_m: int) -> list[c.ClusterEvent]:
        """Time in which it makes no step."""
        before = len(self.decided)
        left_ms = round(1_000 * seconds)
        while left_ms > 0:
            self.tick(min(left_ms, 5_000))
            self.uses(cpu_m)
            left_ms -= 5_000
        return self.found_since(before)

    def uses(self, cpu_m: int, *progress: c.ReplicaProgress) -> None:
        """The node reports its use."""
        self.fold(c.NodeUsage(node="w1", used=Resources(cpu_m=cpu_m), jobs={"a": cpu_m}, progress=progress))

    def found_since(self, before: int) -> list[c.ClusterEvent]:
        """What the watcher decided."""
        kinds = (c.FindingOpened, c.FindingEnded, c.ReactionPlanned)
        return [event for event in self.decided[before:] if isinstance(event, kinds)]


def test_a_job_that_stands_still_is_hung_after_its_own_longest_silence() -> None:
    """A steady job of a second a step, after 50 typical gaps; once it goes on, that is over."""
    pool = Pool()
    assert pool.trains(*[1.0] * 40) == []
    assert pool.passes(40, cpu_m=0) == []
    (found,) = pool.passes(30, cpu_m=0)
    assert isinstance(found, c.FindingOpened)
    assert (found.kind, list(pool.job("a").findings)) == (FindingKind.HUNG, [FindingKind.HUNG])
    assert "uses no CPU" in found.why
    (over,) = pool.trains(1.0, 1.0)
    assert isinstance(over, c.FindingEnded)
    assert pool.job("a").findings == {}


def test_a_report_of_several_steps_shows_as_many_gaps() -> None:
    """A node that reports rarely knows a job's rhythm as soon as another does, after some reports: no gap was longer."""
    for reports, is_found in ((6, True), (4, False)):
        pool = Pool()
        for _ in range(reports):
            pool.steps += 20
            pool.trains(8.0)
        found = [event for event in pool.passes(500, cpu_m=0) if isinstance(event, c.FindingOpened)]
        assert [event.kind for event in found] == [FindingKind.HUNG] * is_found


def test_a_job_that_was_seldom_heard_of_and_stands_still_is_given_ten_minutes() -> None:
    """After its first report alone, half an hour; while it uses the CPU, an hour."""
    for reports, cpu_m, after_s in ((1, 0, 1_800), (3, 0, 600), (3, 900, 3_600)):
        pool = Pool()
        pool.trains(*[10.0] * reports)
        assert pool.passes(after_s - 10, cpu_m) == []
        (found,) = pool.passes(20, cpu_m)
        assert isinstance(found, c.FindingOpened)
        assert found.kind is FindingKind.HUNG


def test_a_job_that_a_signal_has_stopped_hangs_at_once_until_one_lets_it_go_on() -> None:
    """Whatever its rhythm is; of a gang, if any replica is stopped."""
    pool = Pool()
    pool.trains(1.0, 1.0)
    for stopped, why in ((True, "a signal has stopped its process (state T)"), (False, "a signal lets it go on")):
        before = len(pool.decided)
        pool.tick(1_000)
        pool.uses(0, c.ReplicaProgress(job="a", incarnation=1, step=pool.steps, stopped=stopped))
        (found,) = pool.found_since(before)
        assert isinstance(found, c.FindingOpened if stopped else c.FindingEnded)
        assert why in found.why
        assert pool.passes(3, 0) == []


def test_a_job_that_is_busy_is_given_half_an_hour() -> None:
    """A deadlock that spins looks like work, and so does an evaluation."""
    pool = Pool()
    pool.trains(*[1.0] * 40)
    assert pool.passes(1_700, cpu_m=900) == []
    (found,) = pool.passes(200, cpu_m=900)
    assert isinstance(found, c.FindingOpened)
    assert found.kind is FindingKind.HUNG


@given(long_s=st.integers(60, 900))
def test_a_silence_as_long_as_one_before_is_no_hang(long_s: int) -> None:
    """Evaluations and refills come again."""
    pool = Pool()
    pool.trains(*[1.0] * 25, float(long_s), *[1.0] * 25)
    assert pool.passes(2.9 * long_s, cpu_m=0) == []


def test_a_limit_slows_the_clock() -> None:
    """A job that may use a fiftieth of its most is silent for fifty times as long."""
    pool = Pool()
    pool.trains(*[1.0] * 40)
    limits = (c.JobLimit(job="a", incarnation=1, cpu_m=18),)
    because = c.LimitsBecause(rule="test")
    pool.fold(c.LimitsPlanned(plan="l", node="w1", limits=limits, because=because))
    pool.fold(c.LimitsApplied(plan="l", job="a", incarnation=1, node="w1", cpu_m=18))
    assert pool.job("a").limit is not None
    assert pool.passes(1_500, cpu_m=18) == []


def test_a_phase_that_the_output_names_has_silences_of_its_own() -> None:
    """The first evaluation is given an hour; a later one, three times as long as the longest; the steps are as they were."""
    pool = Pool()
    pool.trains(*[1.0] * 40)
    pool.says(Activity.EVALUATION)
    assert pool.passes(1_000, cpu_m=0) == []
    pool.trains(*[1.0] * 5)
    pool.says(Activity.EVALUATION)
    assert pool.passes(2_900, cpu_m=0) == []
    (found,) = pool.passes(200, cpu_m=0)
    assert isinstance(found, c.FindingOpened)
    assert "after a line about evaluation" in found.why
    pool.trains(*[1.0] * 5)
    (found,) = pool.passes(70, cpu_m=0)
    assert isinstance(found, c.FindingOpened)


def test_a_collector_that_starts_again_does_not_end_a_phase() -> None:
    """It does not know what was printed before it, which is no news of the job."""
    pool = Pool()
    pool.trains(*[1.0] * 40)
    pool.says(Activity.EVALUATION)
    assert pool.passes(1_000, cpu_m=0) == []
    pool.uses(900, c.ReplicaProgress(job="a", incarnation=1, step=pool.steps))
    assert pool.passes(2_500, cpu_m=0) == []
    assert pool.passes(200, cpu_m=0) != []


def test_what_a_job_was_silent_for_counts_for_the_next_of_its_model() -> None:
    """Also before its first step, which was never seen of the first job; a job without a model teaches nothing."""
    for model in ("bert", ""):
        pool = Pool(model=model)
        pool.trains(100.0, *[1.0] * 40, 200.0, *[1.0] * 5)
        pool.fold(pool.stopped("a", exit_status=0))
        pool.fold(c.JobEnded(job="a", outcome=c.Outcome.FINISHED))
        pool.fold(submitted("b", model=model))
        pool.carry_out("b")
        hung_after_s = []
        for seconds in range(0, 400, 5):
            pool.fold(c.NodeUsage(node="w1", used=Resources(), jobs={"b": 0}))
            hung_after_s += [seconds] if FindingKind.HUNG in pool.job("b").findings else []
            pool.tick(5_000)
        assert hung_after_s[:1] == ([290] if model else [])


def test_a_job_whose_output_is_not_understood_is_unread_until_it_is() -> None:
    """It says how to mend that: by what it has printed. A job that rests meanwhile is still unread."""
    for activity, mend in ((None, "submit --tty"), (Activity.OTHER, "steepest parse")):
        pool = Pool()
        if activity is not None:
            pool.says(activity)
        assert pool.passes(110, cpu_m=500) == []
        (found,) = pool.passes(20, cpu_m=500)
        assert isinstance(found, c.FindingOpened)
        assert (found.kind, mend in found.why) == (FindingKind.UNREAD, True)
        assert pool.passes(60, cpu_m=0) == []
        (over,) = pool.trains(1.0, 1.0)
        assert isinstance(over, c.FindingEnded)


def test_a_job_whose_losses_come_without_steps_is_not_unread() -> None:
    """A device reports them itself; the node says nothing of them."""
    pool = Pool()
    pool.fold(grown("a"))
    assert pool.passes(1_000, cpu_m=500) == []


def test_a_job_that_was_never_seen_to_train_is_not_hung() -> None:
    """Its output may be unreadable; without any use it is idle, and once it uses something it is not."""
    pool = Pool()
    assert [type(event) for event in pool.passes(7_200, cpu_m=500)] == [c.FindingOpened]
    assert list(pool.job("a").findings) == [FindingKind.UNREAD]
    (found,) = pool.passes(310, cpu_m=0)
    assert isinstance(found, c.FindingOpened)
    assert found.kind is FindingKind.IDLE
    (over,) = pool.passes(5, cpu_m=500)
    assert isinstance(over, c.FindingEnded)


def test_a_job_that_has_done_all_its_steps_and_stays_is_idle() -> None:
    """After a minute: it holds its place in vain."""
    pool = Pool()
    pool.trains(*[1.0] * 30, total=30)
    (found,) = pool.passes(70, cpu_m=0)
    assert isinstance(found, c.FindingOpened)
    assert (found.kind, "all 30 steps" in found.why) == (FindingKind.IDLE, True)


def test_a_job_leaves_a_gpu_that_failed() -> None:
    """Although nobody asks for that: it waits for a place again. One whose GPUs work stays."""
    pool = Pool()
    pool.fold(c.ReplicaStarted(job="a", incarnation=1, node="w1", gpus=(2,)))
    gpus = Resources(cpu_m=4_000)
    pool.fold(c.NodeJoined(node="w1", capacity=gpus, failed_gpus=(c.FailedGpu(1, "Xid 48"),)))
    assert pool.trains(1.0, 1.0) == []
    pool.fold(c.NodeJoined(node="w1", capacity=gpus, failed_gpus=(c.FailedGpu(1, "Xid 48"), c.FailedGpu(2, "Xid 79"))))
    opened, reaction = pool.trains(1.0, 1.0)

    assert isinstance(opened, c.FindingOpened)
    assert (opened.kind, opened.why) == (c.FindingKind.GPU, "GPU 2 of w1: Xid 79")
    assert isinstance(reaction, c.ReactionPlanned)
    assert reaction.restarts
    pool.carry_out("a")
    assert (pool.job("a").phase, pool.job("a").restarted) == (Phase.WAITING, 0)


def test_a_hung_job_is_restarted_as_its_user_asks_for() -> None:
    """It is stopped, costs no retry, waits for a place, and its findings are over; after three times it has failed."""
    pool = Pool(reactions=RESTART)
    for restarts in range(3):
        pool.steps = 0
        pool.trains(*[1.0] * 40)
        opened, reaction = pool.passes(120, cpu_m=0)[:2]
        assert isinstance(opened, c.FindingOpened)
        assert isinstance(reaction, c.ReactionPlanned)
        assert reaction.restarts
        pool.carry_out("a")
        assert pool.job("a").phase is Phase.WAITING
        pool.tick(60_000)
        pool.carry_out("a")
        job = pool.job("a")
        assert (job.phase, job.incarnation, job.retries_used, job.restarted) == (
            Phase.RUNNING,
            2 + restarts,
            0,
            restarts + 1,
        )
        assert (job.findings, job.reaction) == ({}, "")
    pool.steps = 0
    pool.trains(*[1.0] * 40)
    pool.passes(120, cpu_m=0)
    pool.carry_out("a")
    job = pool.job("a")
    assert (job.phase, job.outcome, job.stop_reason[:4]) == (Phase.ENDED, c.Outcome.FAILED, "hung")


@pytest.mark.parametrize(("saved_at", "from_step"), [((), 0), ((50,), 50), ((50, 150), 50), ((150,), None)])
def test_a_job_that_diverged_goes_on_only_from_before_that(saved_at: Sequence[int], from_step: int | None) -> None:
    """Also where its stop saves what has diverged; without a checkpoint from before, a restart would diverge again."""
    pool = Pool(reactions=Reactions(diverged=Reaction.RESTART))
    pool.trains(1.0)
    for step in saved_at:
        pool.fold(c.CheckpointVerified(job="a", incarnation=1, checkpoint=checkpoint(step), node="w1"))
    diverged = FindingKind.DIVERGED
    pool.fold(c.FindingOpened(job="a", incarnation=1, kind=diverged, since=100, why="its loss is not finite"))
    (reaction,) = pool.passes(1, cpu_m=900)
    assert isinstance(reaction, c.ReactionPlanned)
    assert (reaction.kind, reaction.restarts) == (diverged, from_step is not None)
    pool.fold(pool.stopped("a", exit_status=85, saved=checkpoint(200)))
    if from_step is not None:
        pool.carry_out("a")
        pool.tick(60_000)
        pool.carry_out("a")
        found = pool.job("a")
        assert (found.incarnation, found.checkpoint.step if found.checkpoint else 0) == (2, from_step)


def test_an_idle_job_that_can_save_is_suspended_until_its_user_lets_it_go_on() -> None:
    """Its place is free; a guess that was wrong costs what a suspension costs."""
    pool = Pool(reactions=Reactions(idle=Reaction.SUSPEND))
    opened, reaction = pool.passes(310, cpu_m=0)[:2]
    assert isinstance(opened, c.FindingOpened)
    assert isinstance(reaction, c.ReactionPlanned)
    assert reaction.suspends
    pool.tick()
    pool.carry_out("a")
    job = pool.job("a")
    assert (job.phase, job.hold, pool.allocated()) == (Phase.SUSPENDED, Hold.FINDING, {})
    pool.tick(600_000)
    assert pool.job("a").phase is Phase.SUSPENDED
    pool.fold(c.JobChangeRequested(job="a", request="r", held=False))
    pool.tick()
    pool.carry_out("a")
    assert (pool.job("a").phase, pool.job("a").incarnation) == (Phase.RUNNING, 2)


def test_a_job_that_cannot_save_is_not_suspended() -> None:
    """One that says so is left alone; one whose save fails runs on, and is not asked again."""
    pool = Pool(mode=CheckpointMode.NONE, reactions=Reactions(idle=Reaction.SUSPEND))
    assert [type(each) for each in pool.passes(400, cpu_m=0)] == [c.FindingOpened]
    pool = Pool(reactions=Reactions(idle=Reaction.SUSPEND))
    pool.passes(310, cpu_m=0)
    pool.tick()
    pool.fail("a", "checkpoint-timeout")
    pool.fail("a", "checkpoint-timeout")
    pool.carry_out("a")
    assert (pool.job("a").phase, pool.job("a").hold) == (Phase.RUNNING, Hold.NONE)
    assert pool.passes(400, cpu_m=0) == []
    assert list(pool.job("a").findings) == [FindingKind.IDLE]


class SharedNode(DeciderDriver):
    """A node of two cores with jobs of one core, each of which reports some of its steps every second."""

    def __init__(self, *jobs: str, drains: bool = False) -> None:
        super().__init__(Watcher(), w1=2_000)
        self.fold(c.PoolConfigured(parameters=PoolParameters(watch=WatchParameters(drains=drains))))
        self.steps: dict[str, float] = {}
        for job in jobs:
            self.starts(job)

    def starts(self, job: str) -> None:
        """Another one comes."""
        self.run(job, "w1")
        self.steps[job] = 0

    def passes(self, seconds: int, speeds: Mapping[str, float] = {}, cpu_m: int = 1_000) -> list[c.ClusterEvent]:
        """Time in which each job makes ten steps a second, or as many times as many as is said of it."""
        before = len(self.decided)
        for _ in range(seconds):
            self.tick(1_000)
            found = []
            for job in self.steps:
                self.steps[job] += 10 * speeds.get(job, 1.0)
                found.append(c.ReplicaProgress(job=job, incarnation=1, step=int(self.steps[job])))
            jobs = dict.fromkeys(self.steps, cpu_m)
            self.fold(
                c.NodeUsage(node="w1", used=Resources(cpu_m=sum(jobs.values())), jobs=jobs, progress=tuple(found))
            )
        return self.decided[before:]


def test_a_job_that_becomes_slower_says_whether_its_neighbours_are_too() -> None:
    """Alone it may be the job or the node; what it takes 200 steps for is its new pace."""
    for jobs, slow, says in (
        ("a", ("a",), "it is alone on w1"),
        ("ab", ("a",), "those of the other jobs on w1 do not"),
        ("ab", ("a", "b"), "so do those of most other jobs on w1"),
    ):
        pool = SharedNode(*jobs)
        assert pool.passes(40) == []
        found = pool.passes(15, dict.fromkeys(slow, 0.6))
        assert {event.job: says in event.why for event in found if isinstance(event, c.FindingOpened)} == dict.fromkeys(
            slow, True
        )
        over = pool.passes(15)
        assert [type(event) for event in over] == [c.FindingEnded] * len(slow)


def test_a_job_that_has_to_share_its_node_is_not_slow() -> None:
    """Four jobs of a core on two cores take twice as long, and no limit says so."""
    pool = SharedNode("a", "b")
    pool.passes(40)
    pool.starts("x")
    pool.starts("y")
    assert pool.passes(60, dict.fromkeys("abxy", 0.5), cpu_m=500) == []


@pytest.mark.parametrize("drains", [True, False])
def test_a_node_is_closed_once_several_jobs_are_slow_for_long(drains: bool) -> None:  # noqa: FBT001 - a case
    """After twenty slow paces of two jobs, where the pool asks for it; a single job closes nothing."""
    pool = SharedNode("a", "b", drains=drains)
    pool.passes(40)
    pool.passes(60, {"a": 0.6})
    assert not pool.node("w1").drained
    pool.passes(40)
    pool.passes(15, {"a": 0.6, "b": 0.6})
    assert not pool.node("w1").drained
    found = pool.passes(30, {"a": 0.6, "b": 0.6})
    assert pool.node("w1").drained is drains
    assert sum(isinstance(event, c.NodeDrainRequested) for event in found) == drains


def test_a_replica_that_computes_longer_than_its_peers_is_named() -> None:
    """By the CPU time of its steps; all replicas make them equally fast."""
    pool = DeciderDriver(Watcher(), w1=4_000)
    pool.feed(submitted("g", replicas=3), placement("g", "w1", "w1", "w1"))
    pool.carry_out("g")
    for second in range(1, 30):
        pool.tick(1_000)
        found = [
            c.ReplicaProgress(job="g", incarnation=1, replica=index, step=10 * second, cpu_ms=second * cpu_ms)
            for index, cpu_ms in enumerate((300, 310, 900))
        ]
        pool.fold(c.NodeUsage(node="w1", used=Resources(cpu_m=1_510), jobs={"g": 1_510}, progress=tuple(found)))
    (said,) = [event for event in pool.decided if isinstance(event, c.FindingOpened)]
    assert (said.kind, said.figures["replica"]) == (FindingKind.STRAGGLER, 2.0)
    assert "replica 2 on w1 computes 2.9 times as long" in said.why


def test_a_gang_is_in_the_phase_that_its_chief_names() -> None:
    """Only the chief's output is read: that another replica uses CPU is no sign of the training."""
    pool = DeciderDriver(Watcher(), w1=4_000)
    pool.feed(submitted("g", replicas=2), placement("g", "w1", "w1"))
    pool.carry_out("g")
    for second in range(1, 120):
        pool.tick(1_000)
        found = [
            c.ReplicaProgress(job="g", incarnation=1, step=min(second, 40), activity=Activity.OTHER),
            c.ReplicaProgress(job="g", incarnation=1, replica=1, cpu_ms=second),
        ]
        pool.fold(c.NodeUsage(node="w1", used=Resources(), jobs={"g": 0}, progress=tuple(found)))
    assert FindingKind.HUNG in pool.job("g").findings


@pytest.mark.parametrize("events", [[], [Reaction.NOTIFY]])
def test_by_default_a_finding_only_notifies(events: Sequence[Reaction]) -> None:
    """The job runs on."""
    pool = Pool(reactions=Reactions(hung=events[0]) if events else Reactions())
    pool.trains(*[1.0] * 40)
    assert [type(each) for each in pool.passes(300, cpu_m=0)] == [c.FindingOpened]
    assert pool.job("a").alive


def test_more_jobs_than_are_remembered_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's own jobs may push each other out; that stops nothing."""
    monkeypatch.setattr(watcher, "RHYTHMS_KEPT", 1)
    pool = Pool()
    pool.uses(900)
    pool.fold(submitted("b"))
    pool.carry_out("b")
    pool.fold(c.NodeUsage(node="w1", used=Resources(), jobs={"a": 0, "b": 0}))

    assert list(pool.watcher.state.rhythms) == ["b"]


def test_a_job_that_is_slower_than_those_of_its_model_from_its_start_is_found() -> None:
    """Each is alone on its node, so that it may be the job or the node."""
    pool = DeciderDriver(Placer(), Watcher(), w1=4_000, w2=4_000, w3=4_000, w4=4_000)
    jobs = "abcd"
    for job in jobs:
        pool.fold(submitted(job, cpu_m=3_000, model="bert"))
        pool.carry_out(job)
    for second in range(1, 61):
        pool.tick(1_000)
        for job in jobs:
            made = second if job != "d" else second // 2
            found = c.ReplicaProgress(job=job, incarnation=1, step=made, activity=Activity.OTHER)
            (node,) = pool.job(job).nodes
            pool.fold(c.NodeUsage(node=node, used=Resources(cpu_m=900), jobs={job: 900}, progress=(found,)))
    (slow,) = [event for event in pool.decided if isinstance(event, c.FindingOpened)]
    assert (slow.job, slow.kind) == ("d", FindingKind.SLOWED)
    assert slow.why.startswith("a step takes 2 times as long as those of its model on other nodes; it is alone on w")
