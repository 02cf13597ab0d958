"""The state folder of an embedded system: where its log, snapshots and jobs are, which nodes it emulates, and its version.

It owns names and versions; nobody else builds a path in the folder by hand.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from steepest.errors import InputError, RecordingError
from steepest.events.common import Name, Resources
from steepest.log.aside import write_aside
from steepest.runtime.layout import Layout

VERSION = 1
"""Version of the folder's layout; another one is refused."""


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node: emulated on this machine, or a Docker engine.

    Attributes:
        engine: The engine's address; empty: it is emulated.
        tls: The folder of the keys for it; empty: none.
    """

    name: Name
    capacity: Resources
    engine: str = ""
    tls: str = ""


class Installation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``steepest.json``: what the folder is.

    Attributes:
        pool: The pool's name.
        heartbeat_ms: Period of the nodes' heartbeats.
        image: The image of jobs that name none, where nodes are Docker engines.
        soft_limits: CPU limits are weights there, and no caps.
    """

    version: int = VERSION
    pool: Name = "default"
    nodes: tuple[NodeSpec, ...]
    heartbeat_ms: int = 500
    loss_partitions: int = 4
    image: str = ""
    soft_limits: bool = False

    @property
    def layout(self) -> Layout:
        """Its topics and partitions."""
        return Layout(pools=(self.pool,), loss_partitions=self.loss_partitions)


class _Version(msgspec.Struct):
    version: int = 0


class StateFolder:
    """Paths of a state folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "log"
        self.snapshots = root / "snapshots"
        self.cluster = root / "cluster"
        self.opening_lock = root / "opening.lock"
        self._up_lock = root / "up.lock"
        self._installation = root / "steepest.json"

    @property
    def exists(self) -> bool:
        """Whether there is an installation in it."""
        return self._installation.exists()

    def create(self, installation: Installation) -> None:
        """Make the folder an installation.

        Raises:
            RecordingError: It cannot be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            write_aside(self._installation, msgspec.json.format(msgspec.json.encode(installation), indent=2))
        except OSError as error:
            raise RecordingError(
                f"cannot write the state folder {self.root}: {error.strerror}",
                mend="make room there, or name another with --state",
            ) from error

    def read(self) -> Installation:
        """What the folder is.

        Raises:
            InputError: There is no installation in it.
            RecordingError: It is damaged, or of another version.
        """
        try:
            data = self._installation.read_bytes()
        except FileNotFoundError:
            raise InputError(
                f"no state folder at {self.root}",
                code="no-state",
                mend="start one with `steepest up`, or name another with --state",
            ) from None
        except OSError as error:
            raise RecordingError(f"cannot read {self._installation}: {error.strerror}") from error
        try:
            version = msgspec.json.decode(data, type=_Version).version
            if version == VERSION:
                return msgspec.json.decode(data, type=Installation)
        except msgspec.DecodeError as error:
            raise RecordingError(
                f"{self._installation} is damaged: {error}", mend="restore it, or begin with a new folder"
            ) from error
        raise RecordingError(
            f"the state folder {self.root} is of version {version}, and this Steepest knows version {VERSION}",
            mend="use the Steepest that made it, or begin with a new folder",
        )

    @contextmanager
    def sole(self) -> Iterator[None]:
        """Be the one system on this folder for as long as the context lasts; the kernel frees it when a process dies.

        Raises:
            InputError: Another one runs.
        """
        with self._up_lock.open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"a Steepest runs on {self.root} already (process {self.running()})",
                    code="already-up",
                    mend=f"stop it with `steepest down --state {self.root}`",
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def running(self) -> int | None:
        """The process that runs on this folder; None where none does."""
        try:
            with self._up_lock.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
        except FileNotFoundError:
            return None
        except BlockingIOError:
            text = self._up_lock.read_text()
            return int(text) if text.isdecimal() else None
