"""A Docker engine of one's own: a daemon with its own folder, socket and control group, beside any other on the machine.

It owns starting, killing and stopping; ``make engine`` gets the daemon (Debian's ``docker.io``). It needs root. An engine
has no network of its own: containers run with ``--network none`` or ``host``. Containers outlive the daemon (live
restore), and ``stop`` removes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import docker
import psutil
from docker.errors import DockerException

from steepest.errors import ClusterError, InputError

START_S = 60.0
"""An engine is up in 3 s on two idle cores."""

STOP_S = 5.0
"""One that has clients left does not leave by itself; nothing of it is worth waiting for."""

_LONGEST_SOCKET = 107
_PERIOD_US = 100_000
_GROUPS = Path("/sys/fs/cgroup")


class DockerEngine:
    """One daemon over a folder, which keeps its images and containers between starts.

    Args:
        folder: Everything of the engine is in it; of at most 80 characters, because sockets have short names.
        cpu_m: What all its containers together may use, in millicores; None: the machine.
        options: More arguments of ``dockerd``.
    """

    def __init__(self, folder: Path, *, cpu_m: int | None = None, options: Sequence[str] = ()) -> None:
        self.folder = folder.absolute()
        self.group = f"steepest-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"
        self._cpu_m = cpu_m
        self._options = tuple(options)
        self._daemon: psutil.Process | None = None

    @property
    def url(self) -> str:
        """Where clients connect, as in ``DOCKER_HOST``."""
        return f"unix://{self.folder}/docker.sock"

    @property
    def pid(self) -> int:
        """The daemon's process.

        Raises:
            ClusterError: It does not run.
        """
        if self._daemon is None:
            raise ClusterError(f"the engine in {self.folder} does not run", code="no-engine")
        return self._daemon.pid

    def client(self) -> docker.APIClient:
        """A client, to be closed."""
        return docker.APIClient(base_url=self.url, version="auto", timeout=60)

    def start(self) -> None:
        """Start the daemon and wait until it answers; one that was left behind on the folder runs on.

        Raises:
            InputError: The daemon is missing, or we are not root, or the folder's name is too long.
            ClusterError: It does not come up; the end of its log is told.
        """
        if why := missing():
            raise InputError(why, code="no-engine", hint="make engine")
        if len(f"{self.folder}/docker.sock") > _LONGEST_SOCKET:
            raise InputError(f"{self.folder} is too long a name for a socket", hint="set TMPDIR to a shorter folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_group()
        self._daemon = self._left_behind()
        if self._daemon is None:
            # Numbers of killed processes, which may be another's by now, or that of a dead one that nobody reaped: the
            # daemon would wait for either.
            for left in (self._pid_file, self.folder / "exec" / "containerd" / "containerd.pid"):
                left.unlink(missing_ok=True)
            with self._log.open("ab") as log:
                self._daemon = psutil.Popen(self._command(), stdout=log, stderr=log, start_new_session=True)
        self._wait()

    def kill(self) -> None:
        """End the daemon as a crash would; its containers go on."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Remove all containers, end the daemon, and leave nothing but the folder. To be called of a running engine."""
        with contextlib.suppress(DockerException), contextlib.closing(self.client()) as client:
            for container in client.containers(all=True):
                with contextlib.suppress(DockerException):
                    client.remove_container(container["Id"], force=True)
        self._end(signal.SIGTERM)
        self._unmount()
        for path in self._group_paths():
            for child in sorted(path.glob("*/"), reverse=True):
                _rmdir(child)
            _rmdir(path)

    def _end(self, number: int) -> None:
        if self._daemon is None:
            return
        helpers = self._daemon.children(recursive=True) if self._daemon.is_running() else []
        with contextlib.suppress(psutil.NoSuchProcess):
            self._daemon.send_signal(number)
        alive = _left(processes := [self._daemon, *helpers], STOP_S)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _left(processes, STOP_S)
        with contextlib.suppress(psutil.Error):
            self._daemon.wait(START_S)  # it is dead or was killed: reaped, where it is a child of ours
        self._daemon = None

    def _unmount(self) -> None:
        """A daemon that came after a killed one leaves the mount of its folder behind."""
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for mount in reversed(mounts):
            if Path(mount).is_relative_to(self.folder):
                subprocess.run(["umount", "-l", mount], check=False)

    @property
    def _pid_file(self) -> Path:
        return self.folder / "docker.pid"

    @property
    def _log(self) -> Path:
        return self.folder / "docker.log"

    def _left_behind(self) -> psutil.Process | None:
        with contextlib.suppress(FileNotFoundError, ValueError, psutil.Error):
            process = psutil.Process(int(self._pid_file.read_text()))
            return process if str(self._pid_file) in process.cmdline() else None
        return None

    def _command(self) -> Sequence[str]:
        return [
            "dockerd",
            f"--data-root={self.folder}/data",
            f"--exec-root={self.folder}/exec",
            "--pidfile",
            str(self._pid_file),
            f"--host={self.url}",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            "--live-restore",
            f"--cgroup-parent=/{self.group}",
            *self._options,
        ]

    def _wait(self) -> None:
        assert self._daemon is not None  # noqa: S101 - started just before
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if not self._daemon.is_running() or self._daemon.status() == psutil.STATUS_ZOMBIE:
                break
            # A plain socket first: the client leaves one open where nobody listens.
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as listening:
                listening.connect(self.url.removeprefix("unix://"))
                with contextlib.suppress(DockerException, OSError), contextlib.closing(self.client()) as client:
                    client.ping()
                    return
            time.sleep(0.05)
        tail = self._log.read_text(errors="replace")[-1000:]
        raise ClusterError(f"the engine in {self.folder} does not come up: {tail}", code="no-engine")

    # --- its size -----------------------------------------------------------------------------------------------------

    def _group_paths(self) -> list[Path]:
        """Its control group, in each hierarchy of version 1 or in the one of version 2, where it is there."""
        places = [_GROUPS] if _is_version_2() else sorted(_GROUPS.iterdir())
        return [place / self.group for place in places if (place / self.group).is_dir()]

    def _make_group(self) -> None:
        if self._cpu_m is None:
            return
        quota_us = self._cpu_m * _PERIOD_US // 1000
        group = (_GROUPS if _is_version_2() else _GROUPS / "cpu") / self.group
        group.mkdir(exist_ok=True)
        if _is_version_2():
            (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))


def _left(processes: Sequence[psutil.Process], patience_s: float) -> Sequence[psutil.Process]:
    """Those that still run after a while. A dead one that nobody reaps does not run."""
    deadline = time.monotonic() + patience_s
    while (alive := [each for each in processes if _runs(each)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return alive


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _is_version_2() -> bool:
    return (_GROUPS / "cgroup.controllers").exists()


def _rmdir(path: Path) -> None:
    with contextlib.suppress(OSError):  # something is left in it, or somebody else removed it
        path.rmdir()


def missing() -> str:
    """Why no engine can be started here; empty where one can."""
    if shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        return "there is no Docker engine (dockerd) on this machine"
    return "" if os.geteuid() == 0 else "a Docker engine of one's own needs root"


@contextlib.contextmanager
def running_engine(folder: Path, *, cpu_m: int | None = None, options: Sequence[str] = ()) -> Iterator[DockerEngine]:
    """An engine for the time of the block; its folder's content is removed afterwards."""
    engine = DockerEngine(folder, cpu_m=cpu_m, options=options)
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()
        # Some 20,000 files, for which nobody waits.
        subprocess.run(["sh", "-c", 'rm -rf --one-file-system "$0" &', str(engine.folder)], check=False)
