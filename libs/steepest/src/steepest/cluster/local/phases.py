"""What surely is so of one incarnation, read from its folder and the kernel, and the end of what lost its supervisor.

It owns the proof behind each phase and must never guess: what cannot be proven dead counts as running. Its calls block.

=============  ==============  ===========  =====================================================================
exit/gone.json lock            start.json   then
=============  ==============  ===========  =====================================================================
there          –               –            ``EXITED`` / ``GONE``
–              held            there / –    ``RUNNING`` / ``STARTING``: its supervisor lives
–              free            –            ``STARTING``: nothing of it ever ran; a start completes it
–              free            there        the supervisor died alone: ``RUNNING`` until all of the job is proven dead,
                                            then ``gone.json`` is written
=============  ==============  ===========  =====================================================================
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import structlog

from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import IncarnationFolder, StartRecord
from steepest.cluster.local.groups import pids_in
from steepest.cluster.local.supervisor import ON_LINUX, start_mark
from steepest.cluster.observation import Observation, declare_gone, recorded_end
from steepest.cluster.port import ReplicaPhase
from steepest.errors import UntrustedError

_log = structlog.get_logger(__name__)
_DEATH_S = 2.0  # SIGKILL takes microseconds unless the process waits for a disk


def observe(folder: IncarnationFolder, boot: str) -> Observation:
    """What is so of an incarnation whose folder is there. It ends a job whose supervisor died.

    Args:
        folder: The incarnation.
        boot: Which boot of the machine it is now.
    """
    if (ended := recorded_end(folder)) is not None:
        return ended
    if incarnation_locks.is_held(folder.lock):
        started = folder.start.exists()
        return Observation(phase=ReplicaPhase.RUNNING if started else ReplicaPhase.STARTING)
    # The supervisor may have written the end after the first look and let go of the lock before the second.
    if (ended := recorded_end(folder)) is not None:
        return ended
    if not folder.start.exists():
        return Observation(phase=ReplicaPhase.STARTING, began=False)
    if not _nothing_left(folder, boot):
        return Observation(phase=ReplicaPhase.RUNNING, reason="its supervisor died; it is being killed")
    return _gone(folder)


def _gone(folder: IncarnationFolder) -> Observation:
    why = "its supervisor died, and nobody saw how the job ended"
    with contextlib.suppress(OSError):  # the disk is full, or the job has removed its folder: it is so all the same
        return declare_gone(folder, why)
    return Observation(phase=ReplicaPhase.GONE, reason=why)


def _nothing_left(folder: IncarnationFolder, boot: str) -> bool:
    start = folder.started()
    if start is None:  # it is damaged: only the lock that the job inherited can tell
        return not incarnation_locks.is_held(folder.job_lock)
    if start.boot != boot:
        return True
    deadline = time.monotonic() + _DEATH_S
    while left := _survivors(folder, start):
        for pid in left:
            _log.warning("orphan killed", incarnation=str(folder), pid=pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return not incarnation_locks.is_held(folder.job_lock)


def _survivors(folder: IncarnationFolder, start: StartRecord) -> list[int]:
    """The living processes of a job: by its control group, by its environment, and by its session and process group.

    The numbers of the last two prove nothing once another process has the leader's pid.
    """
    leader_is_ours = start.mark is not None and start_mark(start.pid) == start.mark
    found = set(_group_members(start.cgroup))
    for pid in psutil.pids():
        if (leader_is_ours and _belongs(pid, start.pid)) or _is_marked(pid, folder):
            found.add(pid)
    return [pid for pid in sorted(found) if _runs(pid)]


def _belongs(pid: int, leader: int) -> bool:
    try:
        return leader in (os.getsid(pid), os.getpgid(pid))
    except OSError:
        return False


def _is_marked(pid: int, folder: IncarnationFolder) -> bool:
    """Whether it inherited the job's environment."""
    try:
        return psutil.Process(pid).environ().get("STEEPEST_CONTROL") == str(folder.control)
    except (psutil.Error, OSError):
        return False


def _group_members(cgroup: str | None) -> list[int]:
    if cgroup is None:
        return []
    try:
        return pids_in(Path(cgroup))
    except (OSError, UntrustedError):
        return []


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


def boot_id() -> str:
    """Which boot of the machine this is: process ids mean nothing across two of them."""
    if ON_LINUX:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    said = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=True)
    return said.stdout.strip()
