"""A gang of PyTorch's own processes over Gloo on a real system: scaled while it trains, with the losses of one process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.frameworks.conftest import ONE_THREAD, PATIENCE_S, Supervisor, needs_frameworks
from tests.harness.system.running_system import RunningSystem
from tests.integration.gang_system import append, losses, reports, submit, transition, wait_for

from steepest.events import cluster as c
from steepest.events.common import Resources

pytestmark = [needs_frameworks, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).with_name("elastic_digits.py")
JOB = "elastic"
ENDLESS = "1000000"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """Two nodes with room for all."""
    nodes = ("--node", "n1=4", "--node", "n2=4")
    running = RunningSystem(tmp_path / "state", "--heartbeat", "250ms", *nodes, env=ONE_THREAD)
    running.start()
    yield running
    running.end()


def test_a_gang_over_gloo_is_scaled_and_has_the_losses_of_one_process(
    system: RunningSystem, supervisor: Supervisor
) -> None:
    """From three processes to two, and to one and back to two: every step is done once, and each loss is one process's."""
    workers = c.Role(name="worker", replicas=3, min=1, max=4, requests=Resources(cpu_m=100))
    submit(
        system,
        JOB,
        c.JobSpec(command=(sys.executable, str(SCRIPT), "--steps", ENDLESS, "--pause", "0.1"), roles=(workers,)),
    )
    await_reports(system, 1)
    for number, nodes in enumerate((("n1", "n2"), ("n2",), ("n1", "n1")), 2):
        plan = f"to-{number}"
        append(system, transition(system, JOB, plan, c.Transition.SCALE, nodes=nodes, sizes=(len(nodes),)))
        done = system.look_for(lambda found, plan=plan: outcome_of(found.event, plan), 0, PATIENCE_S)  # type: ignore[misc]
        assert isinstance(done, c.TransitionFinished), done
        await_reports(system, number)
    append(system, c.JobCancelRequested(job=JOB, request="enough"))
    system.await_end(JOB)

    found = losses(system, JOB, (1, 2, 3, 4))
    assert [*found] == [*range(1, len(found) + 1)]
    assert sum(len(reports(system, JOB, number)) for number in (1, 2, 3, 4)) == len(found)
    alone = supervisor.start_alone(SCRIPT, "--steps", str(len(found)))
    assert alone.wait() == 0, alone.said()
    np.testing.assert_allclose(found[len(found)], float(alone.final_loss()), rtol=0, atol=1e-6)
    assert system.breaches() == []


def await_reports(system: RunningSystem, number: int) -> None:
    """Wait until an incarnation has done some steps."""
    wait_for(lambda: len(reports(system, JOB, number)) >= 3, PATIENCE_S)


def outcome_of(event: c.ClusterEvent, plan: str) -> c.ClusterEvent | None:
    """How a plan ended; None while it has not."""
    ends = c.TransitionFinished | c.TransitionFailed | c.PlanAbandoned
    return event if isinstance(event, ends) and event.plan == plan else None
