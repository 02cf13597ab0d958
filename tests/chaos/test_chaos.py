"""A short run of ``make chaos``: what must hold after services and the broker were killed, proven from the topics."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.run import HOME, chaos

from steepest.log.kafka.broker import missing, running_broker

REPLICATED = ("categorizer", "migrator", "placer", "resizer")
"""`make chaos` runs two replicas of all services, which takes longer to start than this run may.

Heartbeats, facts about them and the clock come from one process each: while one of two is taken over, the other's clock goes
on, and on a busy machine that may take as long as a node may be silent.
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_nothing_is_lost_doubled_or_run_twice(tmp_path: Path) -> None:
    """Services are killed, the broker is harmed, topics lose what was read; every report, plan and job is there once."""
    if why := missing(HOME):
        pytest.skip(f"{why}; get it with: make kafka")
    with running_broker(tmp_path / "broker", home=HOME) as broker:
        found = await chaos(tmp_path, broker, seed=7, kills=12, faults=2, jobs=12, steps=2500, replicated=REPLICATED)

    assert found["kills"] == 12
    assert found["broker_faults"] == 2
    assert found["restarts"] == 3
    assert all(found["removed"].values())
    assert found["reports"] > 0
    assert (found["lost"], found["duplicated"], found["double_runs"]) == (0, 0, 0)
    assert found["finished"] == found["jobs"] == 12
    assert found["broken"] == []
    assert found["first_difference"] is None
    assert found["nodes_lost"] == 0
    assert found["moves"] > 0
    assert found["views_equal"]
