"""The steepest-planner beside nodes that fall silent or leave, and jobs that fail or are judged by another metric."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import cancelled, grown, joined, placement, submitted, used
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.policies.named import under
from steepest.policies.placement.placer import Placer
from steepest.policies.steepest.steepest_planner import SteepestPlanner
from steepest.view.folds.fold_pool import GONE_MS

NODE_M = 1_000
STEP_MS = 250


class Shared(DeciderDriver):
    """Jobs on a node, which shares its CPU equally among those without a limit."""

    def __init__(self, **totals: int | None) -> None:
        """These jobs run on ``n``, each with so many steps, as far as it says."""
        self.planner = SteepestPlanner()
        super().__init__(self.planner, n=NODE_M)
        parameters = under("steepest", PoolParameters())
        self.fold(c.PoolConfigured(parameters=parameters))
        self.totals = totals
        for job, steps in totals.items():
            self.run(job, "n", steps=steps)
        self.cpu_ms = dict.fromkeys(totals, 0)

    def second(self, *, silent: bool = False) -> None:
        """A second passes; a silent node says nothing of it, and works on."""
        self.tick(1_000)
        here = [job for job in self.totals if self.job(job).alive and self.job(job).node == "n"]
        share, left = {}, NODE_M
        for number, job in enumerate(sorted(here, key=self._cap)):
            share[job] = min(self._cap(job), left // (len(here) - number))
            left -= share[job]
            self.cpu_ms[job] += share[job]
        if not silent:
            progress = tuple(
                c.ReplicaProgress(
                    job=job,
                    incarnation=self.job(job).incarnation,
                    step=self.cpu_ms[job] // STEP_MS,
                    total=self.totals[job],
                    cpu_ms=self.cpu_ms[job],
                )
                for job in here
            )
            self.fold(c.NodeUsage(node="n", used=Resources(cpu_m=NODE_M - left), jobs=share, progress=progress))

    def _cap(self, job: str) -> int:
        limit = self.job(job).limit
        return NODE_M if limit is None or limit.cpu_m is None else limit.cpu_m

    def moves(self) -> list[tuple[str, str, str]]:
        """Those that were decided: job, source, target."""
        return [(one.job, one.source, one.target) for one in self.decided if isinstance(one, c.MigrationPlanned)]


@pytest.mark.parametrize("returns", [joined("n", NODE_M), None])
def test_a_node_that_was_silent_is_planned_and_searched_again(returns: c.NodeJoined | None) -> None:
    """Five seconds are enough to be lost. A node without jobs joins later: one that waits goes there, as it does without."""
    pools = Shared(short=2_000, middle=3_000, long=4_000), Shared(short=2_000, middle=3_000, long=4_000)
    for pool in pools:
        for second in range(300):
            silent = pool is pools[0] and 60 <= second < 65
            if silent and second == 60:
                pool.fold(c.NodeLost(node="n", silent_ms=10_000))
            if pool is pools[0] and second == 65 and returns is not None:
                pool.fold(returns)
            if second == 120:
                pool.fold(joined("empty", NODE_M))
            pool.second(silent=silent)

    assert pools[0].moves() == pools[1].moves() != []
    assert "n" in pools[0].planner.state.due


def test_a_node_that_the_view_has_forgotten_leaves_the_virtual_pool() -> None:
    """After a day of silence, without a record that says so; what was known of it goes too."""
    pool = Shared(a=2_000)
    pool.fold(joined("spot", 8 * NODE_M))
    assert pool.planner.state.fair.largest == 8.0
    pool.fold(c.NodeLost(node="spot", silent_ms=10_000))
    a_day = msgspec.structs.replace(pool.view.parameters, tick_ms=GONE_MS)
    pool.fold(c.PoolConfigured(parameters=a_day))
    pool.tick(GONE_MS)

    assert "spot" not in pool.view.nodes
    state = pool.planner.state
    assert ([*state.fair.nodes], state.fair.largest) == (["n"], 1.0)
    assert "spot" not in {*state.residences, *state.due}


def test_others_fair_ends_do_not_depend_on_how_long_a_failed_job_waits() -> None:
    """It uses nothing until it is started again; in the end its user cancels it."""
    ends_s = []
    for waits_s in (5, 600, 1_800):
        pool = Shared(failed=None, other=8_000)
        for _ in range(60):
            pool.second()
        pool.fold(pool.stopped("failed", 1))
        assert pool.fold(c.RetryPlanned(job="failed", incarnation=1, charged=True, not_before_ms=0, reason="status 1"))
        for _ in range(waits_s):
            pool.second()
        pool.feed(cancelled("failed"), c.JobEnded(job="failed", outcome=c.Outcome.CANCELLED, exit_status=1))
        pool.second()
        copy = pool.planner.state.fair.look("other", pool.planner.state.now_s)
        assert copy is not None
        assert copy.ends_s is not None
        ends_s.append(copy.ends_s)

    assert ends_s == pytest.approx([2_027] * 3, abs=20)


def test_a_copy_that_ran_ahead_of_its_job_uses_nothing_while_that_has_failed() -> None:
    """It trained before its job had a place; then the job begins, fails, and waits for its next try."""
    pool = Shared()
    pool.feed(submitted("late"), c.JobAdmitted(job="late", request="request-late"))
    pool.tick()
    fair = pool.planner.state.fair
    assert fair.runs("late")
    pool.fold(placement("late", "n"))
    pool.carry_out("late")
    pool.fold(pool.stopped("late", 1))
    assert pool.fold(c.RetryPlanned(job="late", incarnation=1, charged=True, not_before_ms=0, reason="status 1"))
    pool.tick()

    assert not fair.runs("late")


def test_a_job_that_rested_before_its_end_leaves_the_virtual_pool_as_soon_as_another() -> None:
    """It uploads its result by hardly any CPU; its copy does the rest of its work by what the job could use."""
    pool = Shared(a=400, b=4_000)
    for second in range(130):
        pool.tick()
        jobs = {"a": 900, "b": 50} if second < 110 else {"a": 10, "b": 950}
        pool.cpu_ms = {job: ms + jobs[job] for job, ms in pool.cpu_ms.items()}
        progress = tuple(
            c.ReplicaProgress(job=job, incarnation=1, step=ms // STEP_MS, total=pool.totals[job], cpu_ms=ms)
            for job, ms in pool.cpu_ms.items()
        )
        pool.fold(c.NodeUsage(node="n", used=Resources(cpu_m=sum(jobs.values())), jobs=jobs, progress=progress))
    pool.end("a")
    copy = pool.planner.state.fair.look("a", pool.planner.state.now_s)
    assert copy is not None
    assert copy.ends_s == pytest.approx(130 + 2 * 42, abs=10)


def test_a_node_without_cpu_breaks_no_plan() -> None:
    """It has memory or GPUs alone; the jobs of other nodes are planned beside it."""
    pool = Shared(a=2_000)
    pool.fold(joined("bare", 0))
    for _ in range(10):
        pool.second()
    assert "bare" in pool.planner.state.residences
    assert pool.planner.state.running["a"].left is not None


def test_the_policy_may_be_switched_on_while_jobs_run_on_a_node_that_takes_no_more() -> None:
    """It took them, and said later that it takes none."""
    planner = SteepestPlanner()
    pool = DeciderDriver(planner, n=NODE_M)
    pool.run("a", "n")
    pool.fold(joined("n", NODE_M, takes_jobs=False))
    parameters = under("steepest", PoolParameters())
    pool.fold(c.PoolConfigured(parameters=parameters))
    pool.fold(used("n", 500, a=500))
    pool.tick()

    assert "n" in planner.state.residences


def test_nothing_is_kept_of_a_device_that_took_no_jobs_and_is_gone() -> None:
    """It only reported."""
    pool = Shared(a=2_000)
    pool.feed(joined("device", takes_jobs=False), used("device", 100), c.NodeLost(node="device", silent_ms=10_000))
    pool.view.nodes.remove(pool.node("device"))
    pool.tick()

    assert "device" not in pool.planner.state.gives


def test_a_job_that_is_rejected_after_it_was_admitted_is_forgotten() -> None:
    """No node is as large; a second submission of a name that runs ends nothing."""
    planner = SteepestPlanner()
    pool = DeciderDriver(Placer(), planner, n=NODE_M)
    parameters = under("steepest", PoolParameters())
    pool.fold(c.PoolConfigured(parameters=parameters))
    pool.run("runs", "n")
    pool.fold(used("n", 500, runs=500))
    pool.fold(submitted("large", 2 * NODE_M, model="m"))
    for _ in range(10):
        pool.tick(2_000)
    pool.fold(submitted("runs", request="another"))

    assert pool.job("large").outcome is c.Outcome.FAILED
    assert planner.state.fair.waiting == {}
    assert "runs" in planner.state.running
    assert planner.state.fair.runs("runs")


def test_losses_by_another_metric_begin_anew() -> None:
    """The share of its steps at which a job has learned most is not read off two scales."""
    pool = Shared(a=2_000)
    for step in range(1, 20):
        progress = c.ReplicaProgress(job="a", incarnation=1, step=step, total=2_000, loss=2_000.0 - step)
        pool.fold(c.NodeUsage(node="n", used=Resources(), jobs={"a": 500}, progress=(progress,)))
    course = pool.planner.state.running["a"].losses
    assert course.points
    pool.fold(grown("a"))
    assert pool.planner.state.running["a"].losses is course

    pool.fold(msgspec.structs.replace(grown("a"), metric="loss"))

    assert pool.planner.state.running["a"].losses.points == []
