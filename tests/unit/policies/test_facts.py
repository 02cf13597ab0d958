"""From heartbeats to facts: only what is new, and nothing that is new is missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import START_MS, checkpoint

from steepest.events import cluster as c
from steepest.events.common import LARGEST, CheckpointMode, KeeperFacts, Resources, Taint
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.parameters import Resource
from steepest.events.received import Received
from steepest.events.registry import CLUSTER, encode
from steepest.policies.monitor import facts
from steepest.policies.monitor.facts import JOIN_EVERY_MS, Facts, FactsState
from steepest.policies.monitor.use import SAVED_EVERY_MS, USAGE_EVERY_MS

RUNNING, EXITED, GONE = ReplicaState.RUNNING, ReplicaState.EXITED, ReplicaState.GONE
SIZE = Resources(cpu_m=1_000)


def report(job: str = "job", state: ReplicaState = RUNNING, incarnation: int = 1, **more: object) -> ReplicaReport:
    """What a node says of one incarnation."""
    return ReplicaReport(job=job, incarnation=incarnation, state=state, **more)  # type: ignore[arg-type]


class Monitor:
    """The decider, fed with heartbeats."""

    every_ms = 0
    progress_every_ms = 0
    saved_every_ms = 0

    def __init__(self) -> None:
        self.facts = Facts()
        self.at_ms = START_MS

    def hear(
        self,
        *replicas: ReplicaReport,
        node: str = "w1",
        later_ms: int = 0,
        capacity: Resources = SIZE,
        takes_jobs: bool = True,
    ) -> list[c.ClusterEvent]:
        """What follows from a node's heartbeat, without the node's usage."""
        return [
            event
            for event in self.hear_all(
                *replicas, node=node, later_ms=later_ms, capacity=capacity, takes_jobs=takes_jobs
            )
            if not isinstance(event, c.NodeUsage)
        ]

    def hear_all(
        self,
        *replicas: ReplicaReport,
        node: str = "w1",
        later_ms: int = 0,
        capacity: Resources = SIZE,
        used: int = 0,
        takes_jobs: bool = True,
        usage_of: tuple[Resource, ...] = (),
        **more: Any,
    ) -> list[c.ClusterEvent]:
        """What follows from a node's heartbeat."""
        self.at_ms += later_ms
        beat = NodeHeartbeat(
            node=node,
            pool="pool",
            at_ms=self.at_ms,
            capacity=capacity,
            used=Resources(used),
            replicas=replicas,
            takes_jobs=takes_jobs,
            usage_every_ms=self.every_ms,
            usage_of=usage_of,
            **more,
            progress_every_ms=self.progress_every_ms,
            saved_every_ms=self.saved_every_ms,
        )
        received = Received(event=beat, topic="heartbeats", partition=0, offset=0, at_ms=self.at_ms)
        decided = self.facts.step(received)
        assert all(decision.pool == "pool" for decision in decided)
        return [decision.event for decision in decided]


def joined(capacity: Resources = SIZE) -> c.NodeJoined:
    """The node is here."""
    return c.NodeJoined(node="w1", capacity=capacity)


def started(incarnation: int = 1) -> c.ReplicaStarted:
    """The incarnation runs."""
    return c.ReplicaStarted(job="job", incarnation=incarnation, node="w1")


def kinds(events: Sequence[c.ClusterEvent]) -> list[str]:
    """The types of events."""
    return [type(event).__name__ for event in events]


def test_a_node_joins_once_and_again_when_its_capacity_changes() -> None:
    """A heartbeat repeats it; the log gets the change."""
    monitor = Monitor()
    larger = Resources(cpu_m=2_000)
    assert monitor.hear() == [joined()]
    assert monitor.hear() == []
    assert monitor.hear(capacity=larger) == [joined(larger)]


def test_a_node_joins_again_when_what_it_says_of_itself_changes() -> None:
    """Each once, and what it has no more is gone."""
    facts = Facts()
    taint = Taint(key="gpu")

    def heard(**said: Any) -> list[c.ClusterEvent]:
        beat = NodeHeartbeat(node="w1", pool="pool", at_ms=START_MS, capacity=SIZE, **said)
        found = facts.step(Received(event=beat, topic="heartbeats", partition=0, offset=0, at_ms=START_MS))
        return [one.event for one in found if isinstance(one.event, c.NodeJoined)]

    assert heard() == [joined()]
    keeper = KeeperFacts(kernel="6.18")
    sayings: list[dict[str, Any]] = [{"labels": {"z": "a"}}, {"labels": {}, "taints": (taint,)}, {"keeper": keeper}]
    for said in sayings:
        assert heard(**said) == [c.NodeJoined(node="w1", capacity=SIZE, **said)]
        assert heard(**said) == []
    assert heard() == [joined()]


def test_a_node_whose_capacity_changes_keeps_its_replicas() -> None:
    """They are not started again."""
    monitor = Monitor()
    assert monitor.hear(report()) == [joined(), started()]
    assert kinds(monitor.hear(report(), capacity=Resources(cpu_m=2_000))) == ["NodeJoined"]


def test_usage_is_told_at_most_once_in_half_a_second() -> None:
    """However often the node beats."""
    monitor = Monitor()
    usages = [
        len([event for event in monitor.hear_all(later_ms=100) if isinstance(event, c.NodeUsage)]) for _ in range(11)
    ]
    assert USAGE_EVERY_MS == 500
    assert usages == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]


def test_use_besides_cpu_is_a_fact_where_the_heartbeat_asks_for_it() -> None:
    """The sum over a job's replicas of each resource that is asked for; what is not measured is left out."""
    reports = (
        report("a", cpu_m=10, memory_mib=100, block_bytes_s=7),
        report("a", cpu_m=10, memory_mib=50, replica=1),
        report("b", cpu_m=10),
    )
    for usage_of, wanted in (
        ((), {}),
        ((Resource.MEMORY,), {"a": c.OtherUse(memory_mib=150)}),
        ((Resource.CPU, Resource.NETWORK_IO, Resource.BLOCK_IO), {"a": c.OtherUse(block_bytes_s=7)}),
    ):
        assert usages(Monitor().hear_all(*reports, usage_of=usage_of))[0].others == wanted
    device = Monitor().hear_all(*reports, usage_of=(Resource.MEMORY,), takes_jobs=False)
    assert usages(device)[0].others == {}


def test_use_besides_cpu_is_a_mean_of_what_was_measured() -> None:
    """A measurement that lacks a resource does not count for it."""
    monitor = Monitor()
    monitor.every_ms = 1_000
    facts_seen = [
        fact
        for memory_mib in (None, 100, None, 300)
        for fact in monitor.hear_all(
            report("a", cpu_m=10, memory_mib=memory_mib), later_ms=400, usage_of=(Resource.MEMORY,)
        )
    ]
    assert [one.others for one in usages(facts_seen)] == [{}, {"a": c.OtherUse(memory_mib=200)}]


def usages(events: Sequence[c.ClusterEvent]) -> list[c.NodeUsage]:
    """The facts about usage among events."""
    return [event for event in events if isinstance(event, c.NodeUsage)]


def test_usage_names_the_cpu_of_each_running_job() -> None:
    """In the order of their names; what is unknown or has ended is left out."""
    monitor = Monitor()
    facts_seen = monitor.hear_all(
        report("b", cpu_m=20),
        report("a", cpu_m=10),
        report("unknown"),
        report("ended", EXITED, cpu_m=5, exit_status=0),
        report("a", cpu_m=1, replica=1),
        used=31,
    )
    assert facts_seen[1] == c.NodeUsage(node="w1", used=Resources(31), jobs={"a": 11, "b": 20})
    assert list(facts_seen[1].jobs) == ["a", "b"]


def test_a_node_whose_clock_is_set_back_is_still_heard_of() -> None:
    """Else it would be silent in the log until its clock has caught up, and be lost by that."""
    monitor = Monitor()
    monitor.hear_all()
    assert kinds(monitor.hear_all(later_ms=-3_600_000)) == ["NodeUsage"]
    assert kinds(monitor.hear_all(later_ms=100)) == []
    assert kinds(monitor.hear_all(later_ms=400)) == ["NodeUsage"]


def test_a_replica_starts_and_stops_once() -> None:
    """However often it is repeated; its end is reported with all that the node knows."""
    monitor = Monitor()
    monitor.hear()
    ended = report(state=EXITED, exit_status=3, step=70, checkpoint=checkpoint(60), reason="out of memory")
    assert monitor.hear(report()) == [started()]
    assert monitor.hear(report(step=10)) == []
    assert monitor.hear(ended) == [
        c.CheckpointVerified(job="job", incarnation=1, node="w1", checkpoint=checkpoint(60)),
        c.ReplicaStopped(
            job="job",
            incarnation=1,
            node="w1",
            exit_status=3,
            step=70,
            checkpoint=checkpoint(60),
            reason="out of memory",
        ),
    ]
    assert monitor.hear(ended) == []


def test_a_replica_that_ends_between_two_heartbeats_has_started_and_stopped() -> None:
    """Both are reported, in this order."""
    monitor = Monitor()
    monitor.hear()
    assert kinds(monitor.hear(report(state=EXITED, exit_status=0))) == ["ReplicaStarted", "ReplicaStopped"]


def test_a_start_names_its_gpus() -> None:
    """As the node's first report of it does."""
    (_, found) = [one for one in Monitor().hear(report(gpus=(2, 5))) if not isinstance(one, c.NodeUsage)]
    assert found == c.ReplicaStarted(job="job", incarnation=1, node="w1", gpus=(2, 5))


def test_a_node_says_which_gpus_failed_and_how_busy_the_others_are() -> None:
    """It joins again without one that failed, once; its usage has the newest use of the others."""
    monitor = Monitor()
    monitor.hear()
    beat: dict[str, Any] = {"failed_gpus": (c.FailedGpu(1, "Xid 79"),), "gpus": (c.GpuUse(0, 40, 512),)}
    first, *usages = monitor.hear_all(later_ms=1_000, **beat)
    assert isinstance(first, c.NodeJoined)
    assert first.failed_gpus == (c.FailedGpu(1, "Xid 79"),)
    assert [one.gpus for one in usages if isinstance(one, c.NodeUsage)] == [(c.GpuUse(0, 40, 512),)]
    assert kinds(monitor.hear_all(later_ms=1_000, **beat)) == ["NodeUsage"]


def test_a_replica_that_is_gone_has_stopped_and_nobody_knows_how() -> None:
    """Gone is said only of what surely does not run."""
    monitor = Monitor()
    monitor.hear(report())
    (stopped,) = monitor.hear(report(state=GONE))
    assert isinstance(stopped, c.ReplicaStopped)
    assert stopped.exit_status is None


def test_a_replica_that_a_heartbeat_does_not_list_has_not_stopped() -> None:
    """Silence proves nothing."""
    monitor = Monitor()
    monitor.hear(report())
    assert monitor.hear() == []


def test_a_newer_incarnation_starts_anew_and_an_older_one_says_nothing() -> None:
    """A heartbeat that was late on its way must not bring the old one back."""
    monitor = Monitor()
    monitor.hear(report())
    assert monitor.hear(report(incarnation=2)) == [started(2)]
    assert monitor.hear(report(state=EXITED, exit_status=0, incarnation=1)) == []
    assert kinds(monitor.hear(report(state=EXITED, exit_status=0, incarnation=2))) == ["ReplicaStopped"]


def test_the_checkpoint_mode_is_told_when_it_is_said_or_changes() -> None:
    """Not with every heartbeat."""
    monitor = Monitor()
    monitor.hear(report())
    answers = [
        monitor.hear(report(checkpoint_mode=mode))
        for mode in (None, CheckpointMode.ON_STOP, CheckpointMode.ON_STOP, CheckpointMode.ON_REQUEST)
    ]
    declared = [[event.mode for event in events if isinstance(event, c.CheckpointModeDeclared)] for events in answers]
    assert declared == [[], [CheckpointMode.ON_STOP], [], [CheckpointMode.ON_REQUEST]]


def told(monitor: Monitor, replica: int = 0) -> list[int]:
    """The steps of the checkpoints that are told, where one is saved each second for half a minute."""
    return [
        event.checkpoint.step
        for step in range(1, 31)
        for event in monitor.hear(report(replica=replica, checkpoint=checkpoint(step)), later_ms=1_000)
        if isinstance(event, c.CheckpointVerified)
    ]


def test_only_the_first_checkpoint_of_an_incarnation_is_told() -> None:
    """It is the proof that it can save, where the heartbeat asks for no more."""
    assert told(Monitor()) == [1]


def test_later_checkpoints_are_told_from_time_to_time() -> None:
    """Where the heartbeat asks for that; of a gang by its first replica, as all see the same volume."""
    monitor = Monitor()
    monitor.saved_every_ms = SAVED_EVERY_MS
    assert told(monitor) == [1, 11, 21]
    assert told(monitor, replica=1) == [1]


def test_two_nodes_do_not_mix() -> None:
    """What is known is known of a node."""
    monitor = Monitor()
    monitor.hear(report())
    assert kinds(monitor.hear(node="w2")) == ["NodeJoined"]
    assert monitor.hear(report()) == []


def test_a_restarted_monitor_tells_nothing_twice() -> None:
    """Its state is all it knows."""
    monitor = Monitor()
    monitor.hear(report(checkpoint_mode=CheckpointMode.ON_STOP, checkpoint=checkpoint()))
    state = msgspec.msgpack.encode(monitor.facts.state)
    monitor.facts = Facts(msgspec.msgpack.decode(state, type=FactsState))
    assert monitor.hear_all(report(checkpoint_mode=CheckpointMode.ON_STOP, checkpoint=checkpoint())) == []


def test_other_records_say_nothing() -> None:
    """The topic's first record is no heartbeat."""
    opened = Received(event=c.LogOpened(epoch="e"), topic="heartbeats", partition=0, offset=0, at_ms=0)
    assert Facts().step(opened) == ()


def test_a_heartbeat_that_comes_again_changes_nothing() -> None:
    """Where its source numbers it, an old heartbeat is not taken for news; another source's, or an unnumbered one, is."""
    monitor = Monitor()

    def hear(number: str, *replicas: ReplicaReport, source: str = "w1.g1") -> list[str]:
        beat = NodeHeartbeat(node="w1", pool="pool", at_ms=START_MS, capacity=SIZE, replicas=replicas)
        headers = {"source": source, "seq": number}
        received = Received(event=beat, topic="heartbeats", partition=0, offset=0, at_ms=START_MS, headers=headers)
        return kinds([decision.event for decision in monitor.facts.step(received)])

    assert hear("1") == ["NodeJoined", "NodeUsage"]
    assert hear("2", report()) == ["ReplicaStarted"]
    assert hear("1") == []
    assert hear("2", report()) == []
    assert hear("3", report(state=EXITED)) == ["ReplicaStopped"]
    assert hear("1", report(state=EXITED), source="w1.g2") == []
    assert hear("no number", source="w1.g2") == []
    assert hear("2", report(incarnation=2), source="w1.g2") == ["ReplicaStarted"]
    for number in range(10):
        hear("1", source=f"w1.other{number}")
    assert len(monitor.facts.state.nodes["w1"].sequences) == 4


def test_a_node_that_takes_no_jobs_is_heard_of_and_its_processes_are_not() -> None:
    """Its reports of processes are ignored; once it takes jobs, its reports count."""
    monitor = Monitor()
    said = report(checkpoint_mode=CheckpointMode.ON_REQUEST, checkpoint=checkpoint(60), cpu_m=10)
    usage = c.NodeUsage(node="w1", used=Resources(70))
    assert monitor.hear_all(said, used=70, takes_jobs=False) == [
        c.NodeJoined(node="w1", capacity=SIZE, takes_jobs=False),
        usage,
    ]
    assert monitor.hear(report(state=EXITED, exit_status=0), takes_jobs=False) == []
    assert kinds(monitor.hear(said)) == [
        "NodeJoined",
        "ReplicaStarted",
        "CheckpointModeDeclared",
        "CheckpointVerified",
    ]


# --- where a heartbeat says how often use is reported ----------------------------------------------------------------------


class Sparing(Monitor):
    """Heartbeats that say that use is reported every five seconds."""

    every_ms = 5_000


def test_use_is_reported_as_often_as_the_heartbeat_says() -> None:
    """As the mean of all measurements since the last report, with their number."""
    monitor = Sparing()
    answers = [monitor.hear_all(report(cpu_m=cpu_m), used=2 * cpu_m, later_ms=500) for cpu_m in range(0, 2_200, 100)]
    facts = [event for events in answers for event in events if isinstance(event, c.NodeUsage)]

    assert [(one.used.cpu_m, one.jobs["job"], one.measured) for one in facts] == [
        (0, 0, 1),
        (1_100, 550, 10),
        (3_100, 1_550, 10),
    ]


def test_use_is_told_where_other_jobs_run_than_before() -> None:
    """First what was measured with those of before, then with those of now."""
    monitor = Sparing()
    monitor.hear_all(report("a", cpu_m=100), used=100)
    monitor.hear_all(report("a", cpu_m=300), used=300, later_ms=500)
    monitor.hear_all(report("a", cpu_m=500), used=500, later_ms=500)
    answers = monitor.hear_all(report("b", cpu_m=7), used=7, later_ms=500)

    assert [event for event in answers if isinstance(event, c.NodeUsage)] == [
        c.NodeUsage(node="w1", used=Resources(400), jobs={"a": 400}, measured=2),
        c.NodeUsage(node="w1", used=Resources(7), jobs={"b": 7}),
    ]


def test_no_measurement_is_too_large_for_a_snapshot() -> None:
    """What a device says is added up within what 64 bits hold."""
    monitor = Sparing()
    for _ in range(4):
        monitor.hear_all(report("a", cpu_m=LARGEST), used=LARGEST, later_ms=500)

    again = msgspec.msgpack.decode(msgspec.msgpack.encode(monitor.facts.state), type=FactsState)
    assert again == monitor.facts.state


def test_a_node_joins_again_every_hour() -> None:
    """So that one that the pool has forgotten is there again; also where its clock was set back meanwhile."""
    monitor = Sparing()
    hour = [5_000] * (JOIN_EVERY_MS // 5_000)
    answers = [kinds(monitor.hear(later_ms=ms)) for ms in (0, *hour, 1, -5_000)]

    assert [number for number, events in enumerate(answers) if events] == [0, len(hour), len(hour) + 2]
    assert {name for events in answers for name in events} == {"NodeJoined"}


def test_a_node_joins_again_after_a_silence() -> None:
    """A node that was silent for as long as a lost one may no longer belong to the pool."""
    monitor = Sparing()
    answers = [kinds(monitor.hear(report(), later_ms=ms)) for ms in (0, 5_000, 14_999, 5_000, 15_000, 500)]

    assert answers == [["NodeJoined", "ReplicaStarted"], [], [], [], ["NodeJoined"], []]


def test_a_node_joins_again_after_a_silence_that_a_started_agent_ends() -> None:
    """Its first heartbeats have no period, as it does not know the pool yet: the silence is judged with the next ones."""
    monitor = Sparing()
    answers = []
    for later_ms, every_ms in ((0, 5_000), (5_000, 5_000), (15_000, 0), (500, 0), (500, 5_000), (5_000, 5_000)):
        monitor.every_ms = every_ms
        answers.append(kinds(monitor.hear(later_ms=later_ms)))

    assert answers == [["NodeJoined"], [], [], [], ["NodeJoined"], []]


def test_a_started_agent_whose_node_was_not_silent_joins_once() -> None:
    """Its own period is no silence."""
    monitor = Sparing()
    answers = []
    for every_ms in (0, 0, 5_000, 5_000, 0, 5_000):
        monitor.every_ms = every_ms
        answers.append(kinds(monitor.hear(later_ms=5_000)))

    assert answers == [["NodeJoined"], *[[]] * 5]


def test_a_node_with_rare_heartbeats_joins_no_more_often_than_others() -> None:
    """Its own period is no silence, however short the period of the usage facts is; twice its period is one."""
    monitor = Sparing()
    answers = [kinds(monitor.hear(later_ms=ms)) for ms in (0, *[20_000] * 50, 39_999, 20_000, 40_000, 20_000)]

    assert [number for number, events in enumerate(answers) if events] == [0, 1, 53]
    assert {name for events in answers for name in events} == {"NodeJoined"}


def test_a_node_that_is_silent_for_long_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is counted in heartbeats of other nodes, not by clocks; it then joins again, and its processes start again."""
    monkeypatch.setattr(facts, "BEATS_KEPT", 3)
    monitor = Sparing()
    monitor.hear(report(), node="spot")
    for _ in range(3):
        monitor.hear()
    assert sorted(monitor.facts.state.nodes) == ["spot", "w1"]
    monitor.hear()

    assert sorted(monitor.facts.state.nodes) == ["w1"]
    assert kinds(monitor.hear(report(), node="spot")) == ["NodeJoined", "ReplicaStarted"]


def test_heartbeats_of_before_are_answered_as_before() -> None:
    """For heartbeats without a reporting interval each usage is reported as it is, and no node joins twice."""
    monitor = Monitor()
    monitor.hear_all(used=100)
    answers = monitor.hear_all(used=200, later_ms=JOIN_EVERY_MS)

    assert answers == [c.NodeUsage(node="w1", used=Resources(200))]
    assert monitor.facts.state.beats == 0


def test_figures_without_measure_make_no_unreadable_fact() -> None:
    """The sum of two replicas' CPU is bounded as every number on the log is."""
    answers = Monitor().hear_all(report("a", cpu_m=LARGEST), report("a", cpu_m=LARGEST, replica=1), used=LARGEST)
    assert [CLUSTER.decode(encode(event)) for event in answers] == answers


# --- how far replicas have come ------------------------------------------------------------------------------------------


class Attentive(Monitor):
    """Heartbeats twice a second that state how often progress may become a fact."""

    every_ms = 500
    progress_every_ms = 1_000

    def progress(self, *replicas: ReplicaReport, later_ms: int = 500) -> list[c.ReplicaProgress]:
        """What a heartbeat of a node that takes jobs adds about the progress of its replicas."""
        events = self.hear_all(*replicas, later_ms=later_ms)
        return [one for event in events if isinstance(event, c.NodeUsage) for one in event.progress]


def test_progress_is_reported_of_replicas_that_came_further() -> None:
    """With all that the heartbeat says, and not again before a second is over."""
    monitor = Attentive()
    assert monitor.progress(report("a", step=1), report("b")) == [], "they are known after their start"
    said: dict[str, Any] = {"step": 2, "total": 9, "epoch": 0.5, "epochs": 3.0, "cpu_ms": 700, "loss": 0.25}
    assert monitor.progress(report("a", **said), report("b")) == [c.ReplicaProgress(job="a", incarnation=1, **said)]
    assert monitor.progress(report("a", step=3), report("b")) == []
    assert monitor.progress(report("a", step=4), report("b", cpu_ms=5)) == [
        c.ReplicaProgress(job="a", incarnation=1, step=4),
        c.ReplicaProgress(job="b", incarnation=1, cpu_ms=5),
    ]
    assert monitor.progress(report("a", step=4), report("b", cpu_ms=5), later_ms=9_000) == []


def test_the_last_progress_of_a_replica_is_reported_with_its_end() -> None:
    """In a fact that stands before its end, whenever the one before it was."""
    monitor = Attentive()
    monitor.progress(report("a", cpu_m=100))
    monitor.progress(report("a", cpu_m=100, step=1))
    events = monitor.hear_all(report("a", EXITED, step=2, exit_status=0), later_ms=100)

    assert kinds(events) == ["NodeUsage", "ReplicaStopped"]
    assert [one.progress for one in events if isinstance(one, c.NodeUsage)] == [
        (c.ReplicaProgress(job="a", incarnation=1, step=2),)
    ]


def test_that_a_signal_stops_or_continues_a_replica_is_reported_at_once() -> None:
    """Neither the period of use nor that of progress delays it."""
    monitor = Attentive()
    monitor.every_ms = 5_000
    monitor.progress(report("a", step=1))
    for stopped in (True, False):
        told = [monitor.progress(report("a", step=1, stopped=stopped), later_ms=500) for _ in range(4)]
        assert [[one.stopped for one in each] for each in told] == [[stopped], [], [], []]


def test_no_progress_is_reported_of_an_older_agent_or_a_device() -> None:
    """Their heartbeats give the facts that they always gave."""
    older, device = Attentive(), Attentive()
    older.progress_every_ms = 0
    for _ in range(3):
        assert older.progress(report("a", step=1)) == []
        events = device.hear_all(report("a", step=1), later_ms=2_000, takes_jobs=False)
        assert all(not one.progress for one in events if isinstance(one, c.NodeUsage))


def test_what_was_reported_is_repeated_where_the_log_lost_it() -> None:
    """See ``restate``: all progress is reported again."""
    monitor = Attentive()
    for _ in range(2):
        monitor.progress(report("a", step=1))
    monitor.facts.restate()
    monitor.progress(report("a", step=1))
    assert monitor.progress(report("a", step=1)) == [c.ReplicaProgress(job="a", incarnation=1, step=1)]


@given(st.lists(st.tuples(st.integers(-2_000, 2_000), st.integers(0, 3), st.sampled_from([RUNNING, EXITED]))))
def test_progress_is_reported_at_most_once_a_second(beats: list[tuple[int, int, ReplicaState]]) -> None:
    """Also where the node's clock jumps back, a fact has something new in it."""
    monitor = Attentive()
    monitor.progress(report("a"))
    found: list[tuple[int, c.ReplicaProgress]] = []
    for later_ms, step, state in beats:
        for one in monitor.progress(report("a", state, step=step), later_ms=later_ms):
            assert not found or one != found[-1][1]
            assert not found or state is not RUNNING or not 0 <= monitor.at_ms - found[-1][0] < 1_000
            found.append((monitor.at_ms, one))
