"""Observes one incarnation through its folder and the kernel, and kills a job that lost its supervisor.

It owns the proof behind each phase and must never guess: a process that is not proven dead counts as running. It blocks.

=============  ==============  ===========  =====================================================================
exit/gone.json lock            start.json   phase
=============  ==============  ===========  =====================================================================
there          –               –            ``EXITED`` / ``GONE``
–              held            there / –    ``RUNNING`` / ``STARTING``: its supervisor lives
–              free            –            ``STARTING``: it never ran; a start completes it
–              free            there        only the supervisor died: ``RUNNING`` until the whole job is proven dead,
                                            then ``gone.json`` is written; ``exit.json``, as of a job that was
                                            killed, where the job has put another file in the lock's place
=============  ==============  ===========  =====================================================================
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil

from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import IncarnationFolder, StartRecord
from steepest.cluster.local.groups import pids_in
from steepest.cluster.local.supervisor import start_mark
from steepest.cluster.observation import Observation, end, record, recorded_end
from steepest.cluster.port import ReplicaPhase
from steepest.errors import UntrustedError
from steepest.logger import Logger

_log = Logger()
_DEATH_S = 2.0  # SIGKILL takes microseconds unless the process waits for a disk


def observe(folder: IncarnationFolder, boot: str) -> Observation:
    """The state of an incarnation whose folder exists. It kills a job whose supervisor died.

    Args:
        folder: The incarnation.
        boot: The id of the machine's current boot.
    """
    if (ended := recorded_end(folder)) is not None:
        return ended
    if incarnation_locks.is_held(folder.lock):
        started = folder.start.exists()
        return Observation(phase=ReplicaPhase.RUNNING if started else ReplicaPhase.STARTING)
    # The supervisor may have written the end after the first check and released the lock before the second.
    if (ended := recorded_end(folder)) is not None:
        return ended
    if not folder.start.exists():
        return Observation(phase=ReplicaPhase.STARTING, began=False)
    if not _nothing_left(folder, boot):
        return Observation(phase=ReplicaPhase.RUNNING, reason="its supervisor died; it is being killed")
    # One that hid that it was supervised has failed by itself, or it could do so for ever, free.
    hid = end(-signal.SIGKILL, "it was killed because it replaced its lock")
    lost = end(None, "its supervisor died, and the exit status is lost")
    return record(folder, hid if _has_replaced_lock(folder, boot) else lost)


def _has_replaced_lock(folder: IncarnationFolder, boot: str) -> bool:
    """Whether the lock is not the one that the supervisor holds. A copied folder has other inodes, and another boot."""
    start = folder.started()
    if start is None or start.lock is None or start.boot != boot:
        return False
    try:
        return folder.lock.lstat().st_ino != start.lock
    except OSError:
        return True


def _nothing_left(folder: IncarnationFolder, boot: str) -> bool:
    start = folder.started()
    if start is None:  # the record is damaged: only the lock that the job inherited shows whether it runs
        return not incarnation_locks.is_held(folder.job_lock)
    # No process outlives the machine's boot, and another one may have the pid now.
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
    """The living processes of a job, found by its control group, its environment, its session and its process group.

    Session and process group prove nothing once another process has the leader's pid.
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
    """Whether the process inherited the job's environment."""
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
