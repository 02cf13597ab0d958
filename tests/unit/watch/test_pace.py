"""Jobs, nodes and replicas that are slower than before or than their peers: found, and the cause named where it can be.

Nodes are simulated. The replicas are those of three
trainings at ByteDance ("Understanding Stragglers in Large Model Training Using What-if Analysis", 2025): the seconds that
each computed for a step, from the traces that its authors published.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.slow_nodes import world

from steepest.policies.watch.pace import LASTS, PAST, WAITS, GangPace, Pace

TRACES = Path(__file__).parents[2] / "data" / "straggler-busy.json"
WORLDS = 20


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["node", "job"])
@pytest.mark.parametrize("jobs_a_node", [2, 4])
@pytest.mark.parametrize("noise", [0.03, 0.1])
@pytest.mark.parametrize("by_model", [False, True], ids=["later", "from its start"])
def test_what_is_two_thirds_slower_is_found_in_ten_steps_and_its_cause_in_25(
    *, by_model: bool, noise: float, jobs_a_node: int, fault: str
) -> None:
    """In 95 % and 75 % of the worlds; the wrong one is named in at most 2 %. From its start: by the jobs of its model."""
    rng = random.Random(f"{noise} {jobs_a_node} {fault}")
    seen = [world(rng, jobs_a_node, noise, fault, by_model=by_model) for _ in range(WORLDS)]
    causes = [one.cause for one in seen if one.cause is not None]
    assert sum(one.found is not None and one.found <= 10 for one in seen) >= 0.95 * WORLDS
    assert sum(name == fault and after <= 25 for name, after in causes) >= 0.75 * WORLDS
    assert sum(name not in {fault, "unclear"} for name, _ in causes) <= max(1, 0.02 * WORLDS)


@pytest.mark.slow
@pytest.mark.parametrize("by_model", [False, True])
def test_a_job_that_is_alone_on_its_node_gets_no_cause(*, by_model: bool) -> None:
    """It cannot tell itself from its node; it is found all the same."""
    rng = random.Random(1)
    seen = [world(rng, 1, 0.1, "node", by_model=by_model) for _ in range(WORLDS)]
    assert {one.cause[0] for one in seen if one.cause is not None} == {"unclear"}
    assert sum(one.found is not None for one in seen) >= 0.95 * WORLDS


@pytest.mark.slow
def test_without_a_fault_next_to_nothing_is_slow() -> None:
    """At most one in a thousand steps."""
    rng = random.Random(2)
    seen = [world(rng, 2, 0.1, "none", by_model=by_model) for by_model in (False, True) for _ in range(10)]
    assert sum(one.wrong for one in seen) <= sum(one.steps for one in seen) / 1_000


@given(
    acts=st.lists(
        st.tuples(
            st.integers(0, 5),
            st.integers(0, 2),
            st.sampled_from([0.0, 1.0, 1.1, 1.7, 9.0]),
            st.sampled_from([1, 5, 40, 250]),
        ),
        max_size=40,
    )
)
def test_whatever_jobs_do_a_cause_needs_the_jobs_that_show_it(acts: list[tuple[int, int, float, int]]) -> None:
    """They move, end and are slow at any time; each cause is named only where there are such other jobs."""
    paces: dict[str, Pace] = {}
    for number, at, seconds, times in acts:
        name, node = f"j{number}", f"n{at}"
        if not seconds:
            paces.pop(name, None)
            continue
        pace = paces.setdefault(name, Pace(node=node, model="m" if number < 4 else ""))
        for _ in range(times):
            pace.add(seconds, node, paces)
            pace.compare(paces)
        for name, pace in paces.items():
            here = [one for other, one in paces.items() if other != name and one.node == pace.node]
            kin = [one for one in paces.values() if one.node != pace.node and one.model == pace.model != ""]
            possible = {None, "unclear", *(("job", "node") if here else ()), *(("model",) if kin else ())}
            assert pace.cause(paces) in possible
            assert not pace.blames_node(paces) or here
            assert msgspec.json.decode(msgspec.json.encode(pace), type=Pace) == pace


def test_one_that_waits_for_a_stopped_neighbour_gets_its_cause_in_the_end() -> None:
    """A neighbour that makes no more steps is not waited for."""
    paces = {job: Pace(node="n1") for job in ("a", "b")}
    for pace in paces.values():
        for _ in range(PAST):
            pace.add(1.0, "n1", paces)
    causes = []
    for _ in range(WAITS + 1):
        paces["a"].add(2.0, "n1", paces)
        causes.append(paces["a"].cause(paces))
    assert causes[: WAITS - 1] == [None] * (WAITS - 1)
    assert causes[-1] == "unclear"


def test_a_slow_storage_closes_no_node() -> None:
    """Where the jobs of a model are slower on all nodes, each says so, and none blames its node."""
    paces = {f"j{node}-{job}": Pace(node=f"n{node}", model="m") for node in range(4) for job in range(2)}
    for seconds, times in ((1.0, PAST), (2.0, 2 * LASTS)):
        for _ in range(times):
            for pace in paces.values():
                pace.add(seconds, pace.node, paces)
                pace.compare(paces)
    assert {pace.cause(paces) for pace in paces.values()} == {"model"}
    assert not any(pace.blames_node(paces) for pace in paces.values())


def traces() -> Mapping[str, tuple[dict[int, int], list[dict[int, float]]]]:
    """Of each training: the stage of each replica, and what each computed in each step."""
    found = json.loads(TRACES.read_text())
    return {
        name: (
            {index: stage for index, (_, stage) in enumerate(trace["workers"])},
            [dict(enumerate(row)) for row in trace["busy_s"]],
        )
        for name, trace in found.items()
    }


def named(stages: Mapping[int, int], steps: list[dict[int, float]]) -> set[int]:
    """The replicas that are named in any window of ten steps."""
    found = set()
    for begin in range(len(steps) - 9):
        gang = GangPace()
        for busy in steps[begin : begin + 10]:
            gang.compare(busy, stages)
        found |= set() if gang.straggler is None else {gang.straggler[0]}
    return found


@pytest.mark.parametrize(("training", "replicas"), [("AR", {0}), ("SE", set()), ("ST", set())])
def test_the_worker_that_its_authors_blame_is_named_and_no_other(training: str, replicas: set[int]) -> None:
    """In AR the first worker, in every window of ten steps; in SE and ST a stage is slow, and no worker."""
    stages, steps = traces()[training]
    assert named(stages, steps) == replicas


@pytest.mark.parametrize("training", ["SE", "ST"])
def test_any_worker_that_computes_two_thirds_longer_is_named(training: str) -> None:
    """Each of them, put into the real traces; nobody else."""
    stages, steps = traces()[training]
    for bad in stages:
        slower = [{**busy, bad: busy[bad] / 0.6} for busy in steps[:10]]
        assert named(stages, slower) == {bad}


def test_from_the_times_of_steps_nothing_is_named() -> None:
    """They are equal, for all wait for the slowest one."""
    stages, _ = traces()["AR"]
    assert named(stages, [dict.fromkeys(stages, 46.6)] * 20) == set()


def test_reports_of_replicas_become_what_each_computes_for_a_step() -> None:
    """Whatever the order of reports; a step that is reported again, or a process that begins again, counts nothing."""
    gang = GangPace()
    for replica, step, cpu_ms in [(0, 1, 100), (1, 1, 100), (0, 3, 300), (1, 3, 900), (1, 3, 950), (1, 2, 10)]:
        gang.hear(replica, step, cpu_ms)
    assert gang.busy == {0: 100.0, 1: 400.0}
    gang.hear(1, 4, 50)
    assert gang.busy[1] == 400.0
