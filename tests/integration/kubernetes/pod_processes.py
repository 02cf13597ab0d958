"""The processes of a pod as this machine sees them, which a test kills without a word to the cluster."""

from __future__ import annotations

import time
from pathlib import Path

from tests.harness.processes import with_command_lines

_LOOK_S = 0.05


def process_in(uid: str, *words: str, within_s: float = 60.0) -> int:
    """The number of the process in the containers of a pod whose command line has these words, as soon as there is one."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for process, line in with_command_lines():
            if all(word in " ".join(line) for word in words) and uid in _group_of(process.pid):
                return process.pid
        time.sleep(_LOOK_S)
    raise AssertionError(f"no process with {words} in the pod {uid}")


def _group_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
