"""Simulated nodes give what arithmetic gives: cases worked out by hand, and what must hold for all."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cluster.port import ReplicaId, ReplicaSpec, Stopped
from steepest.events.common import Resources
from steepest_lab.simulated.model import Delay, Model
from steepest_lab.simulated.node import SimulatedNode
from steepest_lab.simulated.nodes import SimulatedNodes
from steepest_lab.simulated.shares import share_out, slowdown
from steepest_lab.simulated.timeline import VirtualTimeline
from steepest_lab.simulated.training import Training, Witness

BURN = Model(steps=100, step_s=1.0, demand_m=None)


class Ends(Witness):
    """When each training ended."""

    def __init__(self, timeline: VirtualTimeline) -> None:
        self.at_s: dict[str, float] = {}
        self.reported: list[tuple[str, int]] = []
        self._timeline = timeline

    def reports(self, training: Training, step: int, loss: float | None) -> None:
        """See ``Witness``."""
        assert loss is None
        self.reported.append((training.replica.job, step))

    def changes(self, training: Training) -> None:
        """See ``Witness``."""
        if not training.running:
            self.at_s[training.replica.job] = self._timeline.now_s()


class World:
    """Nodes, and a timeline to run them on."""

    def __init__(
        self,
        models: dict[str, Model],
        *nodes: tuple[str, int, float],
        caps_yield: bool = True,
        contention: float = 0.0,
        gives_m: int | None = None,
    ) -> None:
        self.timeline = VirtualTimeline()
        self.ends = Ends(self.timeline)
        made = [
            SimulatedNode(
                name,
                Resources(cpu_m=cpu_m),
                self.timeline,
                speed=speed,
                caps_yield=caps_yield,
                contention=contention,
                gives_m=gives_m,
            )
            for name, cpu_m, speed in nodes or (("n", 1000, 1.0),)
        ]
        self.nodes = SimulatedNodes(made, lambda replica, _: models[replica.job], self.timeline, witness=self.ends)

    def start(self, job: str, at_s: float = 0.0, **spec: Any) -> None:
        """Start a job's first incarnation."""
        first = next(iter(self.nodes.nodes))
        replica = ReplicaSpec(command=("x",), **spec)
        self.timeline.call_at(at_s, lambda: self.nodes.start(ReplicaId(job), 1, first, replica, None))

    def run(self, until_s: float = 1e9) -> dict[str, float]:
        """Let time pass; give the ends."""
        while self.timeline.now_s() <= until_s and self.timeline.step():
            pass
        return self.ends.at_s


def test_a_job_alone_takes_its_nominal_time() -> None:
    """100 steps of a second are 100 s, and 50 s on a node of twice the speed."""
    for speed, expected_s in ((1.0, 100.0), (2.0, 50.0)):
        world = World({"a": BURN}, ("n", 1000, speed))
        world.start("a")
        assert world.run() == {"a": pytest.approx(expected_s)}


def test_two_jobs_with_caps_of_a_quarter_and_of_all_share_25_to_75() -> None:
    """FlowCon's thesis, §6.1: limits 0.25 and 1 on one node. Alone afterwards, the capped one has the node."""
    world = World({"a": BURN, "b": BURN})
    world.start("a", cpu_limit_m=250)
    world.start("b", cpu_limit_m=1000)
    # b: 100 s of work at 0.75 = 133.3 s; a has done 33.3 by then, and the rest alone, its cap yielding: 200 s in all.
    assert world.run() == {"b": pytest.approx(400 / 3), "a": pytest.approx(200.0)}


def test_a_cap_that_does_not_yield_holds_alone_too() -> None:
    """As a quota of the kernel does: 100 s of work at a quarter are 400 s."""
    world = World({"a": BURN}, caps_yield=False)
    world.start("a", cpu_limit_m=250)
    assert world.run() == {"a": pytest.approx(400.0)}


def test_contention_slows_all_by_what_is_wanted_beyond_the_node() -> None:
    """Two jobs that each want the whole node want one node too much: at k = 0.5 they take 1.5 times as long."""
    world = World({"a": BURN, "b": BURN}, contention=0.5)
    world.start("a")
    world.start("b")
    assert world.run() == {"a": pytest.approx(300.0), "b": pytest.approx(300.0)}


def test_a_job_alone_contends_with_none() -> None:
    """With any k; nor does a cap that holds back all that would be too much, while it holds."""
    alone = World({"a": BURN}, contention=5.0)
    alone.start("a")
    assert alone.run() == {"a": pytest.approx(100.0)}

    capped = World({"a": BURN, "b": BURN}, contention=5.0)
    capped.start("a", cpu_limit_m=500)
    capped.start("b", cpu_limit_m=500)
    assert capped.run() == {"a": pytest.approx(200.0), "b": pytest.approx(200.0)}


def test_contention_counts_from_what_the_node_gives() -> None:
    """A node of 1,000 millicores that gives 800: one job wants a quarter more than that."""
    world = World({"a": BURN}, contention=1.0, gives_m=800)
    world.start("a")
    assert world.run() == {"a": pytest.approx(100.0)}  # without a demand of its own, it wants what there is

    wants = msgspec.structs.replace(BURN, demand_m=1_000)
    world = World({"a": wants}, contention=1.0, gives_m=800)
    world.start("a")
    assert world.run() == {"a": pytest.approx(100 / 0.8 * 1.25)}


@given(
    contention=st.floats(0, 10),
    demands=st.lists(st.floats(0, 1e4), min_size=1, max_size=8),
    capacity=st.floats(1, 1e4),
    data=st.data(),
)
def test_limits_never_add_to_contention(
    contention: float, demands: list[float], capacity: float, data: st.DataObject
) -> None:
    """Nothing goes faster than its share, and a limit slows none of the others."""
    caps = data.draw(st.lists(st.none() | st.floats(0, 1e4), min_size=len(demands), max_size=len(demands)))
    free, limited = (slowdown(contention, capacity, demands, these) for these in ([None] * len(demands), caps))

    assert 1.0 <= limited <= free


def test_a_late_comer_slows_the_first_from_its_arrival_on() -> None:
    """B comes at 50 s; both halve. a ends at 50 + 2·50 = 150 s, b has then half left and the node alone: 200 s."""
    world = World({"a": BURN, "b": BURN})
    world.start("a")
    world.start("b", at_s=50.0)
    assert world.run() == {"a": pytest.approx(150.0), "b": pytest.approx(200.0)}


def test_a_stop_waits_for_its_step_saves_and_resumes_where_it_was() -> None:
    """Stopped in the middle of step 11, after 10.5 s: it leaves at 11 s + 2 s of saving, and step 11 is on the volume."""
    model = msgspec.structs.replace(BURN, delay_s=lambda delay, _: 2.0 if delay is Delay.SAVE else 0.0)
    world = World({"a": model})
    world.start("a")
    got: list[Any] = []
    world.timeline.call_at(10.5, lambda: world.nodes.stop(ReplicaId("a"), 1, grace_s=60.0, then=got.append))
    world.run()
    (stopped,) = got

    assert isinstance(stopped, Stopped)
    assert (stopped.exit_status, stopped.step) == (85, 11)
    assert stopped.checkpoint is not None
    assert stopped.checkpoint.step == 11
    assert world.ends.at_s == {"a": pytest.approx(13.0)}


def test_reports_come_every_so_many_steps_and_at_the_end() -> None:
    """Of 100 steps, every 30th and the last."""
    world = World({"a": msgspec.structs.replace(BURN, report_every=30)})
    world.start("a")
    world.run()
    assert world.ends.reported == [("a", step) for step in (30, 60, 90, 100)]


def test_heartbeats_name_no_step_before_the_first_and_then_those_that_are_done_though_none_was_reported() -> None:
    """As of a real job: 0 would say that its first step has taken as long as it has run."""
    world = World({"a": msgspec.structs.replace(BURN, report_every=30)})
    world.start("a")
    steps: dict[float, int | None] = {}

    def beat() -> None:
        (replica,) = world.nodes.beat("n", "pool", 0).replicas
        steps[world.timeline.now_s()] = replica.step

    for at_s in (0.5, 1.5, 12.5):
        world.timeline.call_at(at_s, beat)
    world.run()
    assert steps == {0.5: None, 1.5: 1, 12.5: 12}


@given(
    st.floats(1, 1e5),
    st.lists(st.tuples(st.floats(0, 1e5), st.none() | st.floats(0, 1e5)), min_size=1, max_size=12),
    st.booleans(),
)
def test_shares_fit_and_leave_nothing_that_is_wanted(
    capacity: float,
    jobs: list[tuple[float, float | None]],
    yields: bool,  # noqa: FBT001 - drawn
) -> None:
    """Shares sum to at most the capacity, no job has more than it can use, and no CPU is idle that a job may use."""
    demands, caps = [demand for demand, _ in jobs], [cap for _, cap in jobs]
    shares = share_out(capacity, demands, caps, yields=yields)
    slack = 1e-6 * capacity
    usable = demands if yields else [demand if cap is None else min(demand, cap) for demand, cap in jobs]

    assert sum(shares) <= capacity + slack
    assert all(0 <= share <= most + slack for share, most in zip(shares, usable, strict=True))
    assert sum(shares) >= min(capacity, sum(usable)) - slack


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 100), st.none() | st.integers(1, 1500), st.integers(50, 2000)),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_work_is_conserved(
    jobs: list[tuple[int, int, int | None, int]],
    yields: bool,  # noqa: FBT001 - drawn
) -> None:
    """For any arrivals and caps, each job uses exactly the CPU-seconds of its steps, and all end."""
    models = {
        f"j{number}": Model(steps=steps, step_s=1.0, demand_m=demand_m)
        for number, (steps, _, _, demand_m) in enumerate(jobs)
    }
    world = World(models, caps_yield=yields)
    for number, (_, at_s, limit_m, _) in enumerate(jobs):
        world.start(f"j{number}", at_s=float(at_s), cpu_limit_m=limit_m)
    ends = world.run()
    used = {training.replica.job: training.cpu_m_s for training in world.nodes.on("n")}

    assert len(ends) == len(jobs)
    for number, (steps, at_s, _, demand_m) in enumerate(jobs):
        assert used[f"j{number}"] == pytest.approx(steps * demand_m)
        assert ends[f"j{number}"] >= at_s + steps * min(1.0, demand_m / 1000) - 1e-6
    assert world.nodes.cpu_m_s() <= 1000 * max(ends.values()) + 1e-3
