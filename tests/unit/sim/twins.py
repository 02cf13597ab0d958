"""One scene twice: as the services run live, in virtual time, and as a simulated pool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.harness.system.fake_training import PROGRAM, model_of
from tests.harness.system.rig import Rig
from tests.harness.waiting import until

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.log.base import TopicPartition
from steepest.view.state import Phase
from steepest_lab.sim.system.pool import SimulatedPool, StartingPoint, engine_of_a_pool
from steepest_lab.simulated.node import SimulatedNode
from steepest_lab.simulated.nodes import SimulatedNodes

NODES = {"n1": 8000, "n2": 8000}
FLAGS = {
    "soon-flat": ("--steps", "80", "--step-s", "0.5", "--flat-after", "8"),
    "later-flat": ("--steps", "100", "--step-s", "0.5", "--flat-after", "60"),
    "growing": ("--steps", "90", "--step-s", "0.5", "--flat-after", "90"),
}
PARAMETERS = PoolParameters(specon=SpeConParameters(interval_ms=3_000))
DECISIONS = (c.MigrationPlanned, c.StayDecided, c.CategoryChanged)
SERVICES = ("log-collector", "categorizer", "worker-monitor", "placer", "node-scorer", "rebalancer", "migrator")


async def decided_in_a_rig(folder: Path) -> list[Any]:
    """What the services decide."""
    rig = Rig(folder, NODES)
    try:
        process = rig.start(*SERVICES)
        await rig.configure(PARAMETERS)
        for job, flags in FLAGS.items():
            await rig.submit(job, *flags, node="n1")
        await until(lambda: len(process.view.jobs) == len(FLAGS))
        await until(lambda: all(job.phase is Phase.ENDED for job in process.view.jobs), "the ends", within_s=300)
        await process.stop()
        return [one.event for one in await rig.events() if isinstance(one.event, DECISIONS)]
    finally:
        await rig.aclose()


def decided_in_simulation() -> list[Any]:
    """What the simulated pool decides."""
    decided: list[Any] = []
    ended: list[str] = []

    def watch(received: Any) -> None:
        if isinstance(received.event, DECISIONS):
            decided.append(received.event)
        elif isinstance(received.event, c.JobEnded):
            ended.append(received.event.job)

    pool = SimulatedPool(
        StartingPoint(engine_of_a_pool(TopicPartition("cluster"))),
        lambda timeline, collector: SimulatedNodes(
            [SimulatedNode(name, Resources(cpu_m=cpu_m), timeline) for name, cpu_m in NODES.items()],
            model_of,
            timeline,
            witness=collector,
        ),
        heartbeat_s=1.0,
        act_s=0.0,
        watch=watch,
    )
    pool.open(PARAMETERS)
    for job, flags in FLAGS.items():
        spec = c.JobSpec(command=(PROGRAM, *flags), requests=Resources(cpu_m=100), first_node="n1")
        pool.append(c.JobSubmitted(job=job, request=f"submit-{job}", spec=spec))
    while len(ended) < len(FLAGS) and pool.timeline.step():
        pass
    return decided
