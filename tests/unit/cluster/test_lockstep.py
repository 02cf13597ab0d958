"""A simulated gang steps together: hand-made cases, and what must hold for any members and nodes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cluster.port import GangPlace, ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.events.common import CheckpointRef, Resources
from steepest_lab.simulated.model import Model
from steepest_lab.simulated.node import SimulatedNode
from steepest_lab.simulated.nodes import SimulatedNodes
from steepest_lab.simulated.timeline import VirtualTimeline
from steepest_lab.simulated.training import PEER_LOST, Training

TEN_STEPS = Model(steps=10, step_s=1.0, demand_m=1000)


class Gang:
    """A gang with one member on each of these nodes, by speed; it starts whole at second 0."""

    def __init__(self, speeds: list[float], model_of: Callable[[int], Model] = lambda _: TEN_STEPS) -> None:
        self.timeline = VirtualTimeline()
        made = [
            SimulatedNode(f"n{index}", Resources(cpu_m=1000), self.timeline, speed=speed)
            for index, speed in enumerate(speeds)
        ]
        self.nodes = SimulatedNodes(made, lambda replica, _: model_of(replica.index), self.timeline)
        self.names = tuple(self.nodes.nodes)

    def start(self, rank: int, incarnation: int = 1, restore: CheckpointRef | None = None) -> None:
        """Start one member."""
        place = GangPlace(role="worker", role_index=rank, rank=rank, world_size=len(self.names), nodes=self.names)
        spec = ReplicaSpec(command=("x",), gang=place)
        self.nodes.start(ReplicaId("job", rank), incarnation, self.names[rank], spec, restore)

    def start_all(self, incarnation: int = 1) -> None:
        """Start all members."""
        for rank in range(len(self.names)):
            self.start(rank, incarnation)

    def run(self, until_s: float = 1e6) -> float:
        """Let time pass; give the second of the last event."""
        while self.timeline.now_s() < until_s and self.timeline.step():
            pass
        return self.timeline.now_s()

    def member(self, rank: int) -> Training:
        """The newest incarnation of a member."""
        found = self.nodes.newest(ReplicaId("job", rank))
        assert found is not None
        return found


def test_the_slowest_member_sets_the_pace() -> None:
    """On nodes of speeds 1, 0.5 and 2, ten steps of a second take twenty; the CPU that waits is not used."""
    gang = Gang([1.0, 0.5, 2.0])
    gang.start_all()

    assert gang.run() == pytest.approx(20.0)
    assert [gang.member(rank).step for rank in range(3)] == [10, 10, 10]
    assert [gang.member(rank).cpu_m_s for rank in range(3)] == pytest.approx([10_000.0, 20_000.0, 5_000.0])


def test_a_part_of_a_gang_makes_no_step() -> None:
    """Until the last member has started, the others wait; from then on all take their time."""
    gang = Gang([1.0, 1.0])
    gang.start(0)
    gang.timeline.call_at(100.0, lambda: gang.start(1))

    assert gang.run() == pytest.approx(110.0)


def test_a_limited_member_slows_all() -> None:
    """A limit of a member is a limit of the gang's pace: half the CPU for one, and all take twice as long."""
    gang = Gang([1.0, 1.0])
    gang.start_all()
    gang.timeline.call_at(5.0, lambda: gang.nodes.limit(ReplicaId("job", 1), 1, 500))

    assert gang.run() == pytest.approx(15.0)


def test_a_job_beside_one_member_slows_all() -> None:
    """What shares a node with one member takes CPU from it, and so time from the whole gang."""
    gang = Gang([1.0, 1.0])
    gang.start_all()
    gang.nodes.start(ReplicaId("other"), 1, "n1", ReplicaSpec(command=("x",)), None)

    assert gang.run() == pytest.approx(20.0)


def test_a_member_s_death_ends_the_gang() -> None:
    """The others cannot do their step without it: they fail at the same time, with a status that is not 0."""
    gang = Gang([1.0, 1.0, 1.0], lambda index: Model(steps=10, step_s=1.0, crash_at=4 if index == 1 else 0))
    gang.start_all()

    assert gang.run() == pytest.approx(4.0)
    assert [gang.member(rank).exit_status for rank in range(3)] == [PEER_LOST, 1, PEER_LOST]


def test_a_lost_node_ends_the_gang() -> None:
    """A member whose node fails is gone, and the others fail."""
    gang = Gang([1.0, 1.0])
    gang.start_all()
    gang.timeline.call_at(3.5, lambda: gang.nodes.lose("n1"))
    gang.run()

    assert gang.member(1).phase is ReplicaPhase.GONE
    assert gang.member(0).exit_status == PEER_LOST


def test_a_member_that_dies_before_the_first_step_is_waited_for() -> None:
    """Processes that have not met do not notice each other's death: the adapter's caller must stop them."""
    gang = Gang([1.0, 1.0], lambda index: Model(steps=10, step_s=1.0, launch_status=7 if index == 1 else None))
    gang.start_all()
    gang.run()

    assert gang.member(1).exit_status == 7
    assert (gang.member(0).running, gang.member(0).step) == (True, None)


def test_the_chief_s_checkpoint_pauses_all() -> None:
    """While replica 0 holds after its checkpoint, the others wait in the next step; released, the gang completes."""
    gang = Gang([1.0, 1.0])
    gang.start_all()
    saved: list[object] = []

    def ask() -> None:
        gang.nodes.checkpoint(ReplicaId("job"), 1, request="r", hold_s=1e3, timeout_s=10.0, then=saved.append)

    gang.timeline.call_at(2.5, ask)
    gang.timeline.call_at(50.0, lambda: gang.nodes.release(ReplicaId("job"), 1, request="r"))

    assert gang.run() == pytest.approx(57.0)
    assert [one.step for one in saved if isinstance(one, CheckpointRef)] == [3]
    assert [gang.member(rank).exit_status for rank in range(2)] == [0, 0]


@given(
    speeds=st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0]), min_size=1, max_size=5),
    late_s=st.lists(st.integers(0, 50), min_size=5, max_size=5),
)
def test_members_are_never_a_step_apart(speeds: list[float], late_s: list[int]) -> None:
    """Whenever its members start and however fast their nodes are: all complete, after the last start and the slowest."""
    gang = Gang(speeds)
    for rank in range(len(speeds)):
        gang.timeline.call_at(float(late_s[rank]), lambda rank=rank: gang.start(rank))  # type: ignore[misc]
    while gang.timeline.step():
        steps = [
            gang.member(rank).step or 0 for rank in range(len(speeds)) if gang.nodes.newest(ReplicaId("job", rank))
        ]
        assert max(steps) - min(steps) <= 1

    assert gang.timeline.now_s() == pytest.approx(max(late_s[: len(speeds)]) + 10.0 / min(speeds))
    assert {gang.member(rank).exit_status for rank in range(len(speeds))} == {0}


# --- members that may leave ----------------------------------------------------------------------------------------------


def asynchronous(index: int) -> Model:
    """A server, which computes nothing, and workers that may leave; a step is a second of each of four workers."""
    return Model(steps=100, step_s=1e-9 if index == 0 else 1.0, serves=index == 0, may_leave=index > 0)


def test_the_others_go_on_without_a_member_that_leaves() -> None:
    """Two of four workers leave after ten steps: the ninety steps that are left take the other two twice as long."""
    gang = Gang([1.0] * 5, asynchronous)
    gang.start_all()
    stopped: list[object] = []

    def leave() -> None:
        for rank in (3, 4):
            gang.nodes.stop(ReplicaId("job", rank), 1, grace_s=30.0, then=stopped.append)

    gang.timeline.call_at(10.0, leave)

    assert gang.run() == pytest.approx(10.0 + 2 * 90.0)
    assert [gang.member(rank).step for rank in range(3)] == [100, 100, 100]
    assert [gang.member(rank).exit_status for rank in (3, 4)] == [85, 85]
    assert len(stopped) == 2


def test_the_others_go_on_without_a_worker_that_fails() -> None:
    """It is lost, and not missed."""
    gang = Gang([1.0, 1.0, 1.0], lambda index: msgspec.structs.replace(asynchronous(index), crash_at=50 * (index == 2)))
    gang.start_all()

    assert gang.run() == pytest.approx(50.0 + 2 * 50.0)
    assert [gang.member(rank).exit_status for rank in range(3)] == [0, 0, 1]


def test_a_server_without_workers_makes_no_step() -> None:
    """There is nothing to serve."""
    gang = Gang([1.0, 1.0], asynchronous)
    gang.start_all()
    gang.timeline.call_at(10.5, lambda: gang.member(1).kill())
    gang.run()

    assert (gang.member(0).running, gang.member(0).pace) == (True, 0.0)


def test_a_worker_that_leaves_before_it_has_joined_is_not_waited_for() -> None:
    """The others begin without it, and the gang is whole."""
    gang = Gang(
        [1.0, 1.0, 1.0],
        lambda index: msgspec.structs.replace(asynchronous(index), launch_status=7 if index == 2 else None),
    )
    gang.start_all()

    assert gang.run() == pytest.approx(200.0)
    assert gang.nodes.gangs.partial == {}
