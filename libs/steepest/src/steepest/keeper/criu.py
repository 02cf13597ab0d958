"""CRIU's two commands, as the keeper needs them, and its refusals in words.

CRIU is never killed while it saves: it has code of its own in the job then, and a job in which that stays may die. A restore
has a limit of time, because a damaged image can make it wait for ever.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from steepest.keeper.processes import CannotBeSaved

FREEZE_S = 60
"""How long CRIU waits for processes to stand still, for example behind a slow disk."""

RESTORE_S = 300

_CONFIGURATION = "CRIU_CONFIG_FILE"  # an image may set it, and such a file may name a program
_COMMON = ("-v2", "--manage-cgroups=ignore", "--file-locks", "--no-default-config")
_DUMP = (
    *("--leave-stopped", "--network-lock", "skip"),
    *("--ghost-limit", "4G", "--link-remap", "--timeout", str(FREEZE_S)),
)
_RESTORE = ("--restore-detached", "--leave-stopped", "--network-lock", "skip")

_REASONS = (
    (r"io_uring", "io-uring"),
    (r"Zombies with threads", "busy"),  # a process that is just ending, as a loader's worker after each epoch
    (r"Can't get 1:(16|34) opt", "old-criu"),
    (
        r"[Ee]xternal socket|external stream|half of stream|[Uu]nix connection|unix socket.*(peer|extern)",
        "outside-socket",
    ),
    (r"Address already in use|Cannot assign requested address", "address"),
    (r"bad size|bad build-ID|Can't open file|No such file|bad mode", "changed-file"),
    (r"No space left|write.*ENOSPC", "disk-full"),
    (r"userfault", "userfaultfd"),
    (r"[Ss]ys[Vv]|shmem|IPC", "shared-memory"),
    (r"ptrace|SEIZE|seize|Unseizable|traced", "traced"),
    (r"mnt: |mount|nsid|namespace", "namespace"),
    (r"Can't dump file|chrdev|tty|unsupported type|Unknown shit", "device"),
    (r"get rlimit|creds", "rights"),
    (r"Timeout reached|In-flight connection", "busy"),
)
_HARMLESS = ("Can't setup RLIMIT_NOFILE",)

PASSING = frozenset({"busy", "timer", "killed", "disk-full", "ended", "gang"})
"""What another try may not meet again."""


class Criu:
    """The program.

    Args:
        command: How it is called.
        contained: It runs in a container, with few of root's rights: it does without namespaces, and looks at no connection.
    """

    def __init__(self, command: Sequence[str], *, contained: bool = False) -> None:
        self._command = command
        self._common = (*_COMMON, "--unprivileged") if contained else _COMMON
        self._connections = "--tcp-close" if contained else "--tcp-established"

    def dump(self, root: int, into: Path) -> None:
        """Save a process and its descendants; they are left stopped.

        Raises:
            CannotBeSaved: Nothing of use was saved; the processes may be stopped.
        """
        done = self._run(
            "dump", "--tree", str(root), "--images-dir", str(into), "--log-file", "dump.log", *_DUMP, self._connections
        )
        if done:
            raise _refusal(done, into / "dump.log")

    def restore(
        self, image: Path, work: Path, pipes: Mapping[str, int], *, connected: bool, script: Path | None = None
    ) -> int:
        """Restore the processes, stopped; return the id of the first one.

        Args:
            image: What ``dump`` has saved.
            work: An empty folder for its log.
            pipes: What the job printed to, as ``pipe:[INODE]``, and which descriptor of this process that is now.
            connected: Whether it has connections, all of which are among its own processes; else they are closed.
            script: What CRIU runs at each of its stages; None: nothing.

        Raises:
            CannotBeSaved: Nothing runs that is known; the caller kills what was restored so far.
        """
        connections = "--tcp-established" if connected else "--tcp-close"
        inherited = [word for link, number in pipes.items() for word in ("--inherit-fd", f"fd[{number}]:{link}")]
        scripts = ("--action-script", str(script)) if script is not None else ()
        folders = ("--images-dir", str(image), "--work-dir", str(work), "--log-file", "restore.log")
        done = self._run(
            "restore",
            *folders,
            *scripts,
            "--pidfile",
            "root.pid",
            *inherited,
            *_RESTORE,
            connections,
            limit_s=RESTORE_S,
        )
        if done:
            raise _refusal(done, work / "restore.log")
        return int((work / "root.pid").read_text(encoding="ascii"))

    def version(self) -> list[int]:
        """Its version, as 4 and 2."""
        said = subprocess.run(
            [*self._command, "--version", "--no-default-config"], capture_output=True, text=True, check=False
        ).stdout
        return [int(number) for number in re.findall(r"\d+", said)[:2]]

    def _run(self, verb: str, *arguments: str, limit_s: float | None = None) -> int:
        """Its exit status. Processes that it leaves when it is killed go with its session."""
        env = {name: value for name, value in os.environ.items() if name != _CONFIGURATION}
        # Not its output: what it says is in its log, and standard output is the job's.
        running = subprocess.Popen(
            [*self._command, verb, *arguments, *self._common],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=1 if verb == "restore" else subprocess.DEVNULL,
            stderr=2 if verb == "restore" else subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return running.wait(limit_s)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            if verb == "restore" or running.returncode:
                _end_session(running)


def _end_session(running: subprocess.Popen[bytes]) -> None:
    try:
        if running.returncode != 0:
            os.killpg(running.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    running.wait()


def _refusal(status: int, log: Path) -> CannotBeSaved:
    if status < 0:
        return CannotBeSaved("killed", f"CRIU was killed by signal {-status}, or did not end in time")
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    # After the place in CRIU's source, as in "Error (criu/seize.c:91): Can't freeze": the name of a file is no reason.
    errors = [line.partition("Error ")[2].partition("): ")[2] for line in lines if "Error " in line]
    errors = [line for line in errors if not any(each in line for each in _HARMLESS)]
    said = "; ".join(line[:160] for line in errors[:3])
    # The first error is the cause of the others.
    codes = (code for line in errors for pattern, code in _REASONS if re.search(pattern, line))
    return CannotBeSaved(next(codes, "other"), said or f"CRIU ended with {status}")
