"""Whether a signal has stopped a replica is read from its own processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from steepest.cluster.folders.replica_roster import ResourceUse
from steepest.cluster.local.usage import Meter, UsageFile

WORKS_WITH_A_HELPER = """
import subprocess, sys, time
helper = subprocess.Popen(["sleep", "600"])
while time.process_time() < 0.2:
    pass
print(helper.pid, flush=True)
sys.stdin.read()
helper.kill()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="states of processes are Linux's")
def test_a_replica_is_stopped_once_the_process_that_worked_most_is(tmp_path: Path) -> None:
    """In two samples. A helper does not count; with a keeper, or without a control group, Steepest itself stops it."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WORKS_WITH_A_HELPER], stdin=pipe, stdout=pipe, text=True) as job:
        assert job.stdout is not None
        helper = int(job.stdout.readline())
        (tmp_path / "cgroup.procs").write_text(f"{job.pid}\n{helper}\n")
        meter, now_s = Meter[str](), iter(range(100))

        def uses(*, cgroup: str | None = str(tmp_path), kept: bool = False) -> ResourceUse:
            place = UsageFile(session=os.getsid(job.pid), cgroup=cgroup, kept=kept)
            return meter.measure({"a": place}, float(next(now_s)))["a"]

        try:
            send(helper, signal.SIGSTOP)
            assert [uses().stopped for _ in range(3)] == [False] * 3
            send(job.pid, signal.SIGSTOP)
            assert [uses().stopped for _ in range(3)] == [False, True, True]
            assert not uses(cgroup=None).stopped
            assert not uses(kept=True).stopped
            send(job.pid, signal.SIGCONT)
            assert not uses().stopped
        finally:
            for pid in (helper, job.pid):
                send(pid, signal.SIGKILL)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal, and wait until it is obeyed."""
    os.kill(pid, number)
    while number is signal.SIGSTOP and psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        os.sched_yield()
    while number is signal.SIGCONT and psutil.Process(pid).status() == psutil.STATUS_STOPPED:
        os.sched_yield()
