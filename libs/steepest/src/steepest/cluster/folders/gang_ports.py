"""The ports of all gangs of a state folder.

It owns which ports a gang has, and for how long: an incarnation of a gang has its own, the same ones for each of its
processes and after a restart of the adapter; no other gang gets them until all of its processes are proven ended. The
table is a file in the state folder, changed under a lock, so adapters on the same folder agree. Its calls block.

Ports are assigned in rotation, so that a process of an older incarnation reaches no process of a newer one. The rotation
begins at a random port: two state folders on one machine rarely choose the same ones.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable

import msgspec

from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import AdapterFolder, warn_once
from steepest.cluster.observation import recorded_end
from steepest.errors import RefusedError, UntrustedError
from steepest.events.common import Count, Name, Positive
from steepest.untrusted import files, json

PORTS = range(20_000, 32_768)
"""Below the ports that Linux (from 32768) and macOS (from 49152) give to outgoing connections."""

_TABLE_BYTES_MOST = 1 << 22


class GangPorts(msgspec.Struct, frozen=True):
    """The ports of one incarnation of a gang: from ``first`` on one for each rank, then the master port."""

    job: Name
    incarnation: Positive
    first: Positive
    world_size: Positive

    @property
    def all(self) -> range:
        """All of them."""
        return range(self.first, self.master + 1)

    @property
    def of_ranks(self) -> tuple[int, ...]:
        """The port of each rank."""
        return tuple(range(self.first, self.master))

    @property
    def master(self) -> int:
        """A further port of rank 0."""
        return self.first + self.world_size


class _Table(msgspec.Struct, frozen=True):
    next: Count
    gangs: tuple[GangPorts, ...] = ()


def is_unused(port: int) -> bool:
    """Whether no process of this machine listens at a port."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ports of closed connections may be reused
        try:
            trial.bind(("", port))
        except OSError:
            return False
    return True


class PortTable:
    """The table of a state folder.

    Args:
        state: The folder.
        usable: Whether a port that no gang has may be assigned.
        ports: All ports that may be assigned.
    """

    def __init__(self, state: AdapterFolder, usable: Callable[[int], bool] = is_unused, ports: range = PORTS) -> None:
        self._state = state
        self._usable = usable
        self._ports = ports

    def reserve(self, job: str, incarnation: int, world_size: int) -> GangPorts:
        """The ports of an incarnation of a gang: those that it has already, or free ones.

        Raises:
            RefusedError: ``no-free-ports``: nothing was changed.
            OSError: The table could not be written.
        """
        with incarnation_locks.held(self._state.locks / ".gang-ports"):
            table = self._read()
            for known in table.gangs:
                if (known.job, known.incarnation, known.world_size) == (job, incarnation, world_size):
                    return known
            # A job without a folder counts as forgotten, and its ports as free.
            self._state.job(job).mkdir(parents=True, exist_ok=True)
            kept = tuple(
                gang for gang in table.gangs if (gang.job, gang.incarnation) != (job, incarnation) and self._lives(gang)
            )
            made = GangPorts(job, incarnation, self._free(world_size + 1, table.next, kept), world_size)
            table = _Table(made.all.stop, (*kept, made))
            files.replace(self._state.gang_ports, msgspec.json.encode(table), below=self._state.path)
            return made

    def _read(self) -> _Table:
        try:
            return json.read_json(self._state.gang_ports, _Table, below=self._state.path, most=_TABLE_BYTES_MOST)
        except FileNotFoundError:
            pass
        except UntrustedError as error:
            warn_once(self._state.gang_ports, str(error))
        return _Table(self._ports.start + secrets.randbelow(len(self._ports)))

    def _lives(self, gang: GangPorts) -> bool:
        """Whether a process of it may run, or still be started."""
        if not self._state.job(gang.job).exists():
            return False
        began, is_replaced = 0, False
        for replica in self._state.replicas(gang.job):
            for folder in self._state.incarnations(replica):
                is_replaced = is_replaced or folder.incarnation > gang.incarnation
                if folder.incarnation == gang.incarnation:
                    began += 1
                    if recorded_end(folder) is None:
                        return True
        return not is_replaced and began < gang.world_size

    def _free(self, count: int, preferred: int, taken: tuple[GangPorts, ...]) -> int:
        """The first of ``count`` adjacent free ports, searched from ``preferred`` on and then from the beginning."""
        occupied = {port for gang in taken for port in gang.all}
        for start in (max(preferred, self._ports.start), self._ports.start):
            first, port = start, start
            while port < self._ports.stop:
                if port in occupied or not self._usable(port):
                    first = port + 1
                elif port - first + 1 == count:
                    return first
                port += 1
        raise RefusedError(
            f"there are no {count} adjacent free ports from {self._ports.start} to {self._ports.stop - 1}",
            code="no-free-ports",
            hint="run fewer or smaller gangs in this state folder",
        )
