"""CPU limits across adapters: duty cycles respect a limit that another process has set."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.harness.contracts import contract_job

from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources

JOB = ReplicaId("job")


async def test_a_limit_that_another_process_has_set_is_heeded(tmp_path: Path) -> None:
    """Both adapters send the same supervisor its share of the time: the other adapter reads the new limit too."""
    nodes = [LocalNode("n1", Resources(cpu_m=400))]
    asked, other = (LocalCluster(tmp_path, nodes, "test", heartbeat_s=0.1, cpu="duty-cycle") for _ in range(2))
    try:
        spec = ReplicaSpec(command=(sys.executable, contract_job.__file__))
        await asked.start(JOB, 1, "n1", spec, None)
        async for beat in other.heartbeats():
            if beat.replicas:
                break
        await asked.limit(JOB, 1, 120)
        limits: list[int | None] = []
        async for _ in other.heartbeats():
            engine = await other._ready()
            tracked = engine.roster.get(JOB)
            limits.append(tracked.limit_m if tracked else None)
            if 120 in limits or len(limits) > 50:
                break
    finally:
        await asked.stop(JOB, 1, grace_s=0.0)
        await asked.close()
        await other.close()

    assert limits[-1] == 120
