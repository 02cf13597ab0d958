"""How large a job is taken to be that announces nothing, where jobs of its model have finished before."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, joined

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.policies.named import under
from steepest.policies.steepest.job_facts import facts_of
from steepest.policies.steepest.node_plan import JobOnNode
from steepest.policies.steepest.steepest_planner import SteepestPlanner

CORES = 4.0
EACH_M = 2_000
"""CPU of a job, whichever runs."""

STEP_MS = 500
FINISHED_AFTER_S = 10
SIZE = FINISHED_AFTER_S * EACH_M / 1000
"""Core-seconds of the job that finished."""

ANNOUNCED = 10_000


class Trainings(FoldedPool):
    """A node on which jobs train with equal parts; the planner sees every record."""

    def __init__(self) -> None:
        self.planner = SteepestPlanner()
        self.totals: dict[str, int | None] = {}
        self.seconds: dict[str, int] = {}
        super().__init__()
        parameters = under("steepest", PoolParameters())
        self.fold(c.PoolConfigured(parameters=parameters))
        self.fold(joined("n1", round(1000 * CORES)))

    def fold(self, event: c.ClusterEvent, headers: Any = None, at_ms: int | None = None) -> bool:
        """The planner decides after each record, and its decisions follow."""
        counts = super().fold(event, headers, at_ms)
        for decided in self.planner.step(self.view, self.log[-1]):
            super().fold(decided)
        return counts

    def begin_job(self, name: str, model: str, total: int | None) -> None:
        """A job that says its total, or none."""
        self.run(name, "n1", model=model)
        self.totals[name], self.seconds[name] = total, 0

    def train(self, seconds: int) -> None:
        """All jobs train for so long."""
        for _ in range(seconds):
            progress = []
            for name, total in self.totals.items():
                self.seconds[name] += 1
                cpu_ms = self.seconds[name] * EACH_M
                step = cpu_ms // STEP_MS
                progress.append(c.ReplicaProgress(job=name, incarnation=1, step=step, total=total, cpu_ms=cpu_ms))
            self.now_ms += 1_000
            jobs = dict.fromkeys(self.totals, EACH_M)
            used = Resources(cpu_m=sum(jobs.values()))
            self.fold(c.NodeUsage(node="n1", used=used, jobs=jobs, progress=tuple(progress)))
            self.fold(c.Tick(counted_ms=self.view.counted_ms + 1_000))

    def finish(self, name: str) -> None:
        """It ends as finished."""
        del self.totals[name]
        self.end(name)

    def facts(self, name: str) -> JobOnNode:
        """What the planner knows of a job."""
        return facts_of(self.planner.state, self.view.parameters.steepest, self.job(name), CORES)


@pytest.fixture
def pool() -> Trainings:
    """A job of the model has finished beside one that announces its total."""
    pool = Trainings()
    pool.begin_job("announcing", "vgg", ANNOUNCED)
    pool.begin_job("first", "resnet", None)
    pool.train(FINISHED_AFTER_S)
    pool.finish("first")
    return pool


def test_a_silent_job_is_as_large_as_the_last_ones_of_its_model(pool: Trainings) -> None:
    """Once it has had the time to announce a total; it then has a due time as others have."""
    pool.begin_job("second", "resnet", None)
    pool.train(FINISHED_AFTER_S - 1)
    found = pool.facts("second")

    assert not found.unknown
    assert found.size == pytest.approx(SIZE, rel=0.1)
    assert found.left is not None
    assert 0 < found.left < 0.3 * SIZE
    assert found.due_s is not None


def test_a_silent_job_that_has_used_more_is_of_unknown_size_again(pool: Trainings) -> None:
    """It announced nothing, so nothing that it said has proved wrong."""
    pool.begin_job("second", "resnet", None)
    pool.train(FINISHED_AFTER_S + 3)
    found = pool.facts("second")

    assert (found.unknown, found.ahead) == (True, 0.0)
    assert (found.size, found.left) == (None, None)


def test_a_job_of_another_model_or_of_none_is_of_unknown_size(pool: Trainings) -> None:
    """What other models did says nothing of it."""
    for name, model in (("other", "bert"), ("nameless", "")):
        pool.begin_job(name, model, None)
    pool.train(FINISHED_AFTER_S - 1)

    assert pool.facts("other").unknown
    assert pool.facts("nameless").unknown


def test_a_job_that_announced_too_little_gets_no_size_from_others(pool: Trainings) -> None:
    """It pays for its error from its own share; with the size of honest jobs it would not."""
    pool.begin_job("second", "resnet", 5)
    pool.train(FINISHED_AFTER_S - 1)
    found = pool.facts("second")

    assert (found.unknown, found.size) == (True, None)


def test_a_job_past_its_total_is_taken_to_do_as_much_more_as_others_did(pool: Trainings) -> None:
    """The first one announced two thirds of its steps; until then nothing is known of one that is past its total."""
    pool.begin_job("short", "bert", 26)
    pool.train(FINISHED_AFTER_S)
    pool.finish("short")
    pool.begin_job("second", "gpt", 26)
    pool.train(6)
    honest = pool.facts("second")
    pool.train(2)
    found = pool.facts("second")
    pool.train(3)

    assert honest.size == pytest.approx(26 * STEP_MS / 1000, rel=0.1)
    assert found.size == pytest.approx(SIZE, rel=0.1)
    assert pool.facts("second").size is None  # it has done more than any other


def test_where_no_job_ever_announced_a_total_nothing_is_known() -> None:
    """Such a pool is left as it is, although a job of the model has finished there."""
    pool = Trainings()
    pool.begin_job("first", "resnet", None)
    pool.train(FINISHED_AFTER_S)
    pool.finish("first")
    pool.begin_job("second", "resnet", None)
    pool.train(FINISHED_AFTER_S - 1)

    assert "resnet" in pool.planner.state.learned.sizes
    assert pool.facts("second").unknown
