"""How late jobs end against fair sharing of the CPU that was delivered, as ``check`` measures it."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.truth import workload
from tests.harness.scenarios.log_builder import LogBuilder
from tests.harness.scenarios.verdicts import holds

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.invariants.checkers.fair_end import FairEnd
from steepest.invariants.folds import LogFolds
from steepest.policies.named import under
from steepest_lab.sim.cluster_spec import ClusterSpec, SimNode
from steepest_lab.sim.system.simulate import simulate_system


def pool(*jobs: str, policy: str = "steepest") -> LogBuilder:
    """Jobs on one node."""
    story = LogBuilder().opened(n1=1000).add(c.PoolConfigured(parameters=under(policy, PoolParameters())))
    for job in jobs:
        story.running(job, "n1", cpu_m=50)
    return story


def train(story: LogBuilder, **cpu_ms: int) -> LogBuilder:
    """The node reports what each job has used so far."""
    progress = tuple(c.ReplicaProgress(job=job, incarnation=1, cpu_ms=used) for job, used in cpu_ms.items())
    for _ in range(10):
        story.add(c.Tick(counted_ms=1_000 * story.end))
    return story.add(c.NodeUsage(node="n1", used=Resources(), progress=progress))


def test_who_was_late_is_reported_and_no_breach() -> None:
    """Two equal jobs, one after the other: under fair sharing both would have ended with the second one."""
    story = train(pool("a", "b"), a=10_000, b=0).add(c.JobEnded(job="a", outcome=c.Outcome.FINISHED))
    train(story, b=10_000).add(c.JobEnded(job="b", outcome=c.Outcome.FINISHED))
    assert holds(FairEnd, story) == "jobs that finished: 2, more than 5% after their fair end: 0"
    late = train(train(pool("short", "long"), short=0, long=50_000), short=0, long=100_000)
    for job in ("long", "short"):
        train(late, short=1_000).add(c.JobEnded(job=job, outcome=c.Outcome.FINISHED))
    assert "more than 5% after their fair end: 1 (short +" in holds(FairEnd, late)


def test_other_policies_and_jobs_that_did_not_finish_are_not_judged() -> None:
    """Nothing is promised there."""
    for story, outcome in (
        (pool("a", policy="spread"), c.Outcome.FINISHED),
        (pool("a"), c.Outcome.CANCELLED),
        (pool("a"), c.Outcome.FAILED),
    ):
        train(story, a=1_000).add(c.JobEnded(job="a", outcome=outcome))
        assert holds(FairEnd, story).startswith("jobs that finished: 0")


def test_fair_ends_are_those_of_a_run_under_fair_sharing() -> None:
    """Of jobs that announce, name epochs alone or say nothing, on a host that gives 60 % of what it declares."""
    node = SimNode(name="n", capacity=Resources(cpu_m=8_000, memory_mib=10**6), usable=0.6)
    jobs, _ = workload(0, 1, 0.6, "mixed", "mixed")
    spec, log = ClusterSpec(source="test", nodes=[node]), list[Received[Any]]()
    fair = simulate_system(jobs, spec, "spread", under("spread", PoolParameters()), 0)
    run = simulate_system(jobs, spec, "steepest", under("steepest", PoolParameters()), 0, watch=log.append)
    checker = FairEnd(LogFolds())
    for received in log:
        checker.feed(received)
    later, jct_s = checker.later(), {job.name: job.jct_s for job in run.jobs}
    errors = [abs(jct_s[job.name] / (1 + later[job.name]) / job.jct_s - 1) for job in fair.jobs]
    assert median(errors) < 0.05
    assert sorted(errors)[int(0.9 * len(errors))] < 0.15
