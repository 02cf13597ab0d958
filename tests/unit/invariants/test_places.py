"""Unsound logs about where jobs run: one anomaly each, which its checker must find and point at."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.log_builder import LogBuilder
from tests.harness.scenarios.verdicts import broken, holds

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.invariants.checkers.capacity import Capacity
from steepest.invariants.checkers.device_shared import DeviceShared
from steepest.invariants.checkers.incarnations_rise import Incarnations
from steepest.invariants.checkers.one_place import OnePlace

# --- one-place ------------------------------------------------------------------------------------------------------


def test_a_start_elsewhere_while_the_process_runs_is_two_places() -> None:
    """Nothing stopped incarnation 1 on n1 when incarnation 2 may start on n2."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1")
    first = story.end - 3
    story.begun("again", c.Step.START, "a", 2, "n2")
    evidence, message = broken(OnePlace, story)
    assert evidence == (first, story.end - 1)
    assert "incarnation 2 on n2" in message
    assert "incarnation 1 on n1" in message


def test_a_lost_node_is_no_proof_that_its_processes_are_gone() -> None:
    """A job that is started elsewhere because its node is silent may run twice."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").add(c.NodeLost(node="n1", silent_ms=20_000))
    story.placement_planned("again", "a", "n2", 1).started("again", "a", "n2", 2)
    assert broken(OnePlace, story)[0][-1] == story.end - 3


def test_an_uncertain_start_may_have_worked() -> None:
    """A start that failed without being definite leaves a process that may run."""
    story = LogBuilder().opened(n1=1000, n2=1000).submitted("a").placement_planned("place", "a", "n1")
    story.begun("place", c.Step.START, "a", 1, "n1").failed("place", c.Step.START, "a", definite=False)
    story.begun("place", c.Step.START, "a", 2, "n2")
    assert broken(OnePlace, story)[0] == (story.end - 3, story.end - 1)


def test_a_process_that_is_heard_of_runs_whatever_was_said_before() -> None:
    """A start that failed definitely, and yet its process is there beside the next one."""
    story = LogBuilder().opened(n1=1000, n2=1000).submitted("a").placement_planned("place", "a", "n1")
    story.begun("place", c.Step.START, "a", 1, "n1").failed("place", c.Step.START, "a")
    story.started("place", "a", "n2", 2).add(c.ReplicaStarted(job="a", incarnation=1, node="n1"))
    assert broken(OnePlace, story)[0][-1] == story.end - 1


def test_an_incarnation_that_was_started_and_forgotten_has_ended() -> None:
    """A START found that the log had lost an earlier one of its number, which has ended; the report of it comes late."""
    story = LogBuilder().opened(n1=1000, n2=1000).submitted("a").placement_planned("place", "a", "n1")
    story.begun("place", c.Step.START, "a", 1, "n1").failed("place", c.Step.START, "a", code="stale-incarnation")
    story.started("place", "a", "n2", 2).add(c.ReplicaStarted(job="a", incarnation=1, node="n1"))
    holds(OnePlace, story)


@pytest.mark.parametrize(
    "gone",
    [
        c.StepFailed(
            plan="place", step=c.Step.START, attempt=1, job="a", code="refused", definite=True, message="no such start"
        ),
        c.PlanAbandoned(plan="place", job="a", code="refused"),
    ],
)
def test_a_process_that_was_heard_of_is_not_gone_by_giving_up_its_start(gone: c.ClusterEvent) -> None:
    """The migrator reports that nothing was started, although the node has seen the process."""
    story = LogBuilder().opened(n1=1000, n2=1000).submitted("a").placement_planned("place", "a", "n1")
    story.begun("place", c.Step.START, "a", 1, "n1").add(c.ReplicaStarted(job="a", incarnation=1, node="n1"))
    if isinstance(gone, c.PlanAbandoned):
        story.failed("place", c.Step.START, "a", definite=False)
    story.add(gone).placement_planned("again", "a", "n2", 1).begun("again", c.Step.START, "a", 2, "n2")
    assert broken(OnePlace, story)[0][-1] == story.end - 1


def test_one_incarnation_on_two_nodes_is_two_places() -> None:
    """An incarnation belongs to one node."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1")
    story.add(c.ReplicaStarted(job="a", incarnation=1, node="n2"))
    assert broken(OnePlace, story)[0][-1] == story.end - 1


def test_a_stop_that_does_not_count_stops_nothing() -> None:
    """An outcome of an older attempt is overtaken: only the newest beginning's proves that the process is gone."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").move_planned("move", "a", "n1", "n2")
    story.saved("move", "a", "n1").begun("move", c.Step.STOP, "a", 1, "n1").begun("move", c.Step.STOP, "a", 1, "n1")
    story.add(c.JobStopped(plan="move", attempt=2, job="a", incarnation=1))
    story.begun("move", c.Step.START, "a", 2, "n2")
    assert broken(OnePlace, story)[0][-1] == story.end - 1


# --- capacity -------------------------------------------------------------------------------------------------------


def test_a_process_whose_start_the_log_has_lost_holds_nothing() -> None:
    """A report alone speaks of it, and the placement that came between could not know of it."""
    story = LogBuilder().opened(n1=1000).running("a", "n1", cpu_m=800).submitted("b", cpu_m=800)
    holds(Capacity, story.add(c.ReplicaStarted(job="b", incarnation=1, node="n1")))
    story.placement_planned("place", "b", "n1")
    assert "1600m" in broken(Capacity, story.begun("place", c.Step.START, "b", 2, "n1"))[1]


def test_a_start_beyond_what_a_node_has_is_too_much() -> None:
    """Two jobs of 600m do not fit on a node of 1,000m."""
    story = LogBuilder().opened(n1=1000).running("a", "n1", 600).running("b", "n1", 600)
    evidence, message = broken(Capacity, story)
    assert evidence == (story.end - 3,)
    assert "1200m CPU" in message
    assert "a, b" in message


def test_a_reservation_counts_before_anything_runs() -> None:
    """A move that has begun holds its target's room, which a placement then takes once more."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1", 600)
    story.move_planned("move", "a", "n1", "n2").saved("move", "a", "n1").running("b", "n2", 600)
    assert broken(Capacity, story)[0] == (story.end - 3,)


def test_the_way_back_needs_room_as_well() -> None:
    """While the job was away another one took its place."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1", 600).move_planned("move", "a", "n1", "n2")
    story.saved("move", "a", "n1").stopped("move", "a", "n1").running("b", "n1", 600)
    holds(Capacity, story)
    story.begun("move", c.Step.START, "a", 2, "n1")
    assert broken(Capacity, story)[0] == (story.end - 1,)


def test_a_node_that_nobody_announced_has_no_capacity() -> None:
    """Starting there is a breach, because nothing says that there is room."""
    story = LogBuilder().opened(n1=1000).running("a", "n9")
    assert "no such node" in broken(Capacity, story)[1]


def test_every_resource_counts() -> None:
    """A node of enough CPU can have too little memory."""
    story = LogBuilder().opened().add(c.NodeJoined(node="n1", capacity=Resources(cpu_m=1000, memory_mib=100)))
    spec = c.JobSpec(command=("train",), requests=Resources(cpu_m=10, memory_mib=101))
    story.add(c.JobSubmitted(job="a", request="r", spec=spec)).placement_planned("place", "a", "n1")
    story.started("place", "a", "n1")
    assert "101 MiB" in broken(Capacity, story)[1]


def test_room_is_free_again_only_when_the_process_is_gone() -> None:
    """An end that is only asked for frees nothing."""
    story = LogBuilder().opened(n1=1000).running("a", "n1", 600).add(c.JobCancelRequested(job="a", request="cancel"))
    story.begun("cancel-9", c.Step.STOP, "a", 1, "n1").running("b", "n1", 600)
    assert broken(Capacity, story)[0] == (story.end - 3,)


# --- incarnations-rise ----------------------------------------------------------------------------------------------


def test_a_start_with_a_number_used_before_is_a_fall() -> None:
    """Reports of the first incarnation 1 and of the second could not be distinguished."""
    story = LogBuilder().opened(n1=1000).running("a", "n1")
    first = story.end - 3
    story.exited("a", "n1", status=1).placement_planned("again", "a", "n1", 1)
    story.begun("again", c.Step.START, "a", 1, "n1")
    assert broken(Incarnations, story) == ((first, story.end - 1), "job a is started as incarnation 1 after 1")


def test_a_plan_that_goes_back_to_an_older_number_is_a_fall() -> None:
    """The way back needs a new number, too."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1").move_planned("move", "a", "n1", "n2")
    story.saved("move", "a", "n1").stopped("move", "a", "n1")
    story.begun("move", c.Step.START, "a", 2, "n2").failed("move", c.Step.START, "a")
    story.begun("move", c.Step.START, "a", 1, "n1")
    assert "incarnation 1 after 2" in broken(Incarnations, story)[1]


def test_a_process_with_a_number_that_nobody_gave_is_a_breach() -> None:
    """A START gives the number before there is a process."""
    story = LogBuilder().opened(n1=1000, n2=1000).running("a", "n1")
    story.moved("a", "n1", "n2").add(c.ReplicaStarted(job="a", incarnation=3, node="n2"))
    assert broken(Incarnations, story)[0][-1] == story.end - 1


# --- device-shared ----------------------------------------------------------------------------------------------------


def holding(story: LogBuilder, job: str, gpus: tuple[int, ...], asks: Resources) -> LogBuilder:
    """A job runs on n1, and has these GPUs."""
    story.add(c.JobSubmitted(job=job, request=f"request-{job}", spec=c.JobSpec(command=("x",), requests=asks)))
    story.placement_planned(f"place-{job}", job, "n1").begun(f"place-{job}", c.Step.START, job, 1, "n1")
    return story.add(c.ReplicaStarted(job=job, incarnation=1, node="n1", gpus=gpus))


def test_a_gpu_that_two_replicas_have_whole_is_shared() -> None:
    """The second start names one that the first has, which still runs; on another node it is another GPU."""
    story = holding(LogBuilder().opened(n1=1000, n2=1000), "a", (0, 1), Resources(gpus=2))
    first = story.end - 1
    holds(DeviceShared, holding(story, "b", (2,), Resources(gpus=1)))
    evidence, message = broken(DeviceShared, holding(story, "c", (3, 1), Resources(gpus=2)))
    assert evidence == (first, story.end - 1)
    assert message == "c/0/1 has GPU 1 of n1, which a/0/1 has"


def test_shares_of_a_gpu_are_at_most_all_of_it() -> None:
    """Two of 0.4 fit together, a third does not; the whole ones are named before the one that is shared."""
    story = holding(LogBuilder().opened(n1=1000), "a", (0, 1), Resources(gpu_m=1_400))
    holds(DeviceShared, holding(story, "b", (1,), Resources(gpu_m=400)))
    assert "c/0/1 has GPU 1" in broken(DeviceShared, holding(story, "c", (1,), Resources(gpu_m=400)))[1]


def test_a_gpu_is_free_once_its_replica_has_ended() -> None:
    """A late report of the one that ended holds nothing."""
    story = holding(LogBuilder().opened(n1=1000), "a", (0,), Resources(gpus=1))
    story.add(c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=0))
    holding(story, "b", (0,), Resources(gpus=1))
    holds(DeviceShared, story.add(c.ReplicaStarted(job="a", incarnation=1, node="n1", gpus=(0,))))
