"""A private Docker engine: a daemon with its own folder, socket and control group, independent of others on the machine.

It owns starting, killing and stopping; ``make engine`` installs the daemon (Debian's ``docker.io``). It needs root. The
engine has no bridge network unless it is given a bridge: containers run with ``--network none`` or ``host``. Containers
outlive the daemon (live restore), and ``stop`` removes them.
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
"""An engine starts in 3 s on two idle cores."""

STOP_S = 5.0
"""A daemon with connected clients does not exit on its own; it has no state worth waiting for."""

_LONGEST_SOCKET = 107
_PERIOD_US = 100_000
_GROUPS = Path("/sys/fs/cgroup")


class DockerEngine:
    """One daemon with a data folder, which keeps its images and containers between starts.

    Args:
        folder: Contains all of the engine's files; at most 80 characters, because socket paths are limited.
        cpu_m: CPU limit of all its containers together, in millicores; None: no limit.
        core: The only core that they run on, besides ``cpu_m``; None: all. CPU shares hold on one core: on several, the
            kernel balances a few single threads too coarsely, and a limit below all cores lets light ones use their own.
        weight: With ``cpu_m``, of all its containers together, relative to any other process on their cores.
        bridge: A bridge of this machine that has an address: containers join its network; empty: none.
        options: Further arguments of ``dockerd``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        cpu_m: int | None = None,
        core: int | None = None,
        weight: int = 1,
        bridge: str = "",
        options: Sequence[str] = (),
    ) -> None:
        self.folder = folder.absolute()
        self.group = f"steepest-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"
        self._cpu_m = cpu_m
        self._core = core
        self._weight = weight
        self._bridge = bridge
        self._options = tuple(options)
        self._daemon: psutil.Process | None = None

    @property
    def url(self) -> str:
        """The address for clients, as in ``DOCKER_HOST``."""
        return f"unix://{self.folder}/docker.sock"

    @property
    def pid(self) -> int:
        """The daemon's pid.

        Raises:
            ClusterError: It does not run.
        """
        if self._daemon is None:
            raise ClusterError(f"the engine in {self.folder} does not run", code="no-engine")
        return self._daemon.pid

    def client(self) -> docker.APIClient:
        """A new client, which the caller must close."""
        return docker.APIClient(base_url=self.url, version="auto", timeout=60)

    def start(self) -> None:
        """Start the daemon and wait until it answers; a daemon that still runs on the folder is adopted.

        Raises:
            InputError: The daemon is missing, this process is not root or may not create control groups, or the folder's
                path is too long.
            ClusterError: It does not start; the message has the end of its log.
        """
        if why := missing():
            raise InputError(why, code="no-engine", hint="make engine")
        if len(f"{self.folder}/docker.sock") > _LONGEST_SOCKET:
            raise InputError(f"the path {self.folder} is too long for a socket", hint="set TMPDIR to a shorter folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._make_group()
        except OSError as error:
            raise InputError(
                f"an engine cannot be given a part of the CPU here: {error}",
                hint="run it where root may create control groups",
            ) from error
        self._daemon = self._left_behind()
        if self._daemon is None:
            # Stale pid files of killed processes: the pid may belong to another process or to a zombie, and the daemon
            # would wait for either.
            for left in (self._pid_file, self.folder / "exec" / "containerd" / "containerd.pid"):
                left.unlink(missing_ok=True)
            with self._log.open("ab") as log:
                self._daemon = psutil.Popen(self._command(), stdout=log, stderr=log, start_new_session=True)
        self._wait()

    def kill(self) -> None:
        """Kill the daemon as in a crash; its containers keep running."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Remove all containers, stop the daemon, and clean up everything except the folder. The engine must be running."""
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
            self._daemon.wait(START_S)  # it is dead or was killed: reap it, if it is a child of this process
        self._daemon = None

    def _unmount(self) -> None:
        """Unmount left-over mounts: a daemon that starts after a killed one does not unmount its folder."""
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
            f"--bridge={self._bridge or 'none'}",
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
            # A plain socket first: the client does not close its socket if nothing listens.
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as listening:
                listening.connect(self.url.removeprefix("unix://"))
                with contextlib.suppress(DockerException, OSError), contextlib.closing(self.client()) as client:
                    client.ping()
                    return
            time.sleep(0.05)
        tail = self._log.read_text(errors="replace")[-1000:]
        raise ClusterError(f"the engine in {self.folder} does not start: {tail}", code="no-engine")

    # --- its size -----------------------------------------------------------------------------------------------------

    def _group_paths(self) -> list[Path]:
        """Its existing control groups: one in each hierarchy of version 1, or the one of version 2."""
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
            (group / "cpu.weight").write_text(str(min(100 * self._weight, 10_000)))
        else:
            (group / "cpu.shares").write_text(str(1024 * self._weight))
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        if self._core is not None:
            self._pin(self._core)

    def _pin(self, core: int) -> None:
        if _is_version_2():
            (_GROUPS / "cgroup.subtree_control").write_text("+cpu +cpuset")
            (_GROUPS / self.group / "cpuset.cpus").write_text(str(core))
            return
        group = _GROUPS / "cpuset" / self.group
        group.mkdir(exist_ok=True)
        (group / "cpuset.cpus").write_text(str(core))
        (group / "cpuset.mems").write_text((_GROUPS / "cpuset" / "cpuset.mems").read_text())


def _left(processes: Sequence[psutil.Process], patience_s: float) -> Sequence[psutil.Process]:
    """The processes that still run after ``patience_s``. A zombie does not run."""
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
    with contextlib.suppress(OSError):  # it is not empty, or another process removed it
        path.rmdir()


def missing() -> str:
    """Why no engine can be started here; empty if one can."""
    if shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        return "there is no Docker engine (dockerd) on this machine"
    return "" if os.geteuid() == 0 else "a private Docker engine needs root"


@contextlib.contextmanager
def running_engine(
    folder: Path,
    *,
    cpu_m: int | None = None,
    core: int | None = None,
    weight: int = 1,
    bridge: str = "",
    options: Sequence[str] = (),
) -> Iterator[DockerEngine]:
    """An engine that runs within the block; its folder's content is removed afterwards."""
    engine = DockerEngine(folder, cpu_m=cpu_m, core=core, weight=weight, bridge=bridge, options=options)
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()
        # In the background: there are about 20,000 files.
        subprocess.run(["sh", "-c", 'rm -rf --one-file-system "$0" &', str(engine.folder)], check=False)
