"""A process that holds a local cluster, as ``up`` does, and is killed by SIGKILL at a chosen moment of a start.

Arguments: the state folder, and the moment: ``before-spawn``, ``after-spawn`` or ``started``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from tests.harness.contracts import contract_job

from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources

JOB = ReplicaId("doomed")
SPEC = ReplicaSpec(command=(sys.executable, contract_job.__file__))


def cluster(state_dir: Path) -> LocalCluster:
    """The adapter that is killed, and the one that comes after it."""
    return LocalCluster(state_dir, [LocalNode("a", Resources(cpu_m=1000))], "test", heartbeat_s=0.1, cpu="duty-cycle")


def die(*_: Any, **__: Any) -> NoReturn:
    """End as a killed process does: without a word to anybody."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


async def main(state_dir: Path, moment: str) -> None:
    """Start the job and die."""
    if moment == "before-spawn":
        subprocess.Popen.__init__ = die  # type: ignore[method-assign]
    if moment == "after-spawn":
        subprocess.Popen.communicate = die  # type: ignore[method-assign]
    adapter = cluster(state_dir)
    await adapter.start(JOB, 1, "a", SPEC, None)
    await adapter.wait_for_step(JOB, 1, at_least=1, timeout_s=60.0)
    die()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
