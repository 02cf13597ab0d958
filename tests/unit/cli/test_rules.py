"""The rules of a pool in one line name the policy as the option does."""

from __future__ import annotations

import pytest

from steepest.describe.rules import policy_name, rules_in_force
from steepest.events.parameters import PoolParameters, QueueParameters
from steepest.policies.named import POLICIES, under


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_is_said_by_its_name(name: str) -> None:
    """What is read from the parameters is what `--policy` was given."""
    assert policy_name(under(name, PoolParameters())) == name


def test_queue_and_preemption_are_said() -> None:
    """With what they change for a job that waits."""
    queueing = QueueParameters(policy="priority", preempt=True, blocking=True)
    line = rules_in_force(under("steepest", PoolParameters(queueing=queueing)))
    assert line == "policy steepest, queue priority (preempts) (blocks), interval 30 s, placement spread"
