"""Jobs, nodes and replicas that are slower than before or than their peers: found, and the cause named where it can be.

Nodes are simulated: paces wander, and one step in a hundred is several times as long. The replicas are those of three
trainings at ByteDance ("Understanding Stragglers in Large Model Training Using What-if Analysis", 2025): the seconds that
each computed for a step, from the traces that its authors published.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from steepest.policies.watch.pace import GangPace, Pace

TRACES = Path(__file__).parents[2] / "data" / "straggler-busy.json"
NODES, WORLDS, SLOWER = 8, 40, 1 / 0.6


class Seen(NamedTuple):
    """A simulated fault: after how many of its steps it was found, and the cause; False sayings, of so many steps."""

    found: int | None
    cause: tuple[str, int] | None
    wrong: int
    steps: int


def world(rng: random.Random, jobs_a_node: int, noise: float, fault: str) -> Seen:
    """One job or node of eight becomes slower; ``fault``: which, or neither."""
    nodes = {f"j{node}-{job}": f"n{node}" for node in range(NODES) for job in range(jobs_a_node)}
    typical = {job: math.exp(rng.uniform(-1, 1)) for job in nodes}
    level = dict.fromkeys(nodes, 0.0)
    paces = {job: Pace(node=node) for job, node in nodes.items()}
    bad = rng.choice(sorted(nodes))
    begins = rng.uniform(50, 70) * typical[bad]
    queue = [(0.0, job) for job in nodes]
    heapq.heapify(queue)
    found, cause, since, wrong, steps = None, None, 0, 0, 0
    slow_before: set[str] = set()
    while queue:
        now, job = heapq.heappop(queue)
        level[job] = 0.5 * level[job] + rng.gauss(0, noise) * 0.866
        seconds = typical[job] * math.exp(level[job])
        if rng.random() < 0.01:
            seconds *= 1 + rng.paretovariate(1.5)
        is_hurt = now >= begins and fault == (
            "node" if nodes[job] == nodes[bad] and fault == "node" else "job" if job == bad else ""
        )
        seconds *= SLOWER if is_hurt else 1
        paces[job].add(seconds, nodes[job], paces)
        steps += 1
        is_slow = paces[job].peers is not None
        if is_hurt and job == bad:
            since += 1
            found = found or (since if is_slow else None)
            said = paces[job].cause(paces) if is_slow else None
            cause = cause or ((said, since) if said else None)
        elif is_slow and not is_hurt:
            wrong += job not in slow_before
        slow_before = slow_before | {job} if is_slow else slow_before - {job}
        if now + seconds < min(200 * typical[bad], 240 * typical[job]):
            heapq.heappush(queue, (now + seconds, job))
    return Seen(found, cause, wrong, steps)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["node", "job"])
@pytest.mark.parametrize("jobs_a_node", [2, 4])
@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_what_is_two_thirds_slower_is_found_in_ten_steps_and_its_cause_in_25(
    noise: float, jobs_a_node: int, fault: str
) -> None:
    """In 95 % and 75 % of the worlds; the wrong one is named in at most 2 %."""
    rng = random.Random(f"{noise} {jobs_a_node} {fault}")
    seen = [world(rng, jobs_a_node, noise, fault) for _ in range(WORLDS)]
    causes = [one.cause for one in seen if one.cause is not None]
    assert sum(one.found is not None and one.found <= 10 for one in seen) >= 0.95 * WORLDS
    assert sum(name == fault and after <= 25 for name, after in causes) >= 0.75 * WORLDS
    assert sum(name not in {fault, "unclear"} for name, _ in causes) <= max(1, 0.02 * WORLDS)


@pytest.mark.slow
def test_a_job_that_is_alone_on_its_node_gets_no_cause() -> None:
    """It cannot tell itself from its node; it is found all the same."""
    rng = random.Random(1)
    seen = [world(rng, 1, 0.1, "node") for _ in range(WORLDS)]
    assert {one.cause[0] for one in seen if one.cause is not None} == {"unclear"}
    assert sum(one.found is not None for one in seen) >= 0.95 * WORLDS


@pytest.mark.slow
def test_without_a_fault_next_to_nothing_is_slow() -> None:
    """At most one in a thousand steps."""
    rng = random.Random(2)
    seen = [world(rng, 2, 0.1, "none") for _ in range(10)]
    assert sum(one.wrong for one in seen) <= sum(one.steps for one in seen) / 1_000


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
