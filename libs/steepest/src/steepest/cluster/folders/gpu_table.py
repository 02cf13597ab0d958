"""Which replica has which GPUs of a node.

It owns the assignment of GPUs by their ids: whole ones, or a share of one. It must never know how a process is kept to its
GPUs. The table is a file in the state folder, changed under a lock, so that it outlives the adapter. GPUs are free again
when their incarnation is proven ended. Its calls block.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.observation import recorded_end
from steepest.cluster.port import ReplicaId
from steepest.errors import ClusterError, RefusedError, UntrustedError
from steepest.events.common import Count, Name, Positive, Resources
from steepest.untrusted import files, json

WHOLE_M = 1000
"""Thousandths of a GPU."""

_TABLE_BYTES_MOST = 1 << 22


class GpuAssignment(msgspec.Struct, frozen=True):
    """The GPUs of one incarnation of a replica.

    Attributes:
        ids: The whole ones, then the one of which it has a share.
        share_m: That share, in thousandths; 0: all are whole.
    """

    job: Name
    replica: Count
    incarnation: Positive
    node: Name
    ids: tuple[Count, ...]
    share_m: Count = 0

    def taken_m(self, gpu: int) -> int:
        """How much of a GPU it has, in thousandths."""
        if gpu not in self.ids:
            return 0
        return self.share_m if self.share_m and gpu == self.ids[-1] else WHOLE_M


class GpuTable:
    """The table of a state folder.

    Args:
        state: The folder.
        gpus: The ids of each node's GPUs.
    """

    def __init__(self, state: AdapterFolder, gpus: Mapping[str, Sequence[int]]) -> None:
        self._state = state
        self._gpus = gpus

    def assign(
        self, folder: IncarnationFolder, node: str, requests: Resources, failed: Collection[int] = ()
    ) -> tuple[int, ...] | None:
        """The GPUs of an incarnation, by their ids: those that it has already, or free ones that have not failed.

        None: its node has no GPUs.

        Raises:
            RefusedError: ``no-free-gpus``, or ``damaged-table``: it is not known which are free. Nothing was changed.
            OSError: The table could not be written.
        """
        whole, share_m = divmod(requests.all_gpus_m, WHOLE_M)
        there = [gpu for gpu in self._gpus.get(node, ()) if gpu not in failed]
        if not self._gpus.get(node) and not requests.all_gpus_m:
            return None
        with incarnation_locks.held(self._lock):
            kept = []
            for known in self._read():
                if _is_of(known, folder) and known.node == node:
                    return known.ids
                if not _is_of(known, folder) and self._lives(known):
                    kept.append(known)
            ids = _chosen(there, kept, node, whole, share_m)
            if ids is None:
                free_m = {gpu: WHOLE_M - _taken_m(kept, node, gpu) for gpu in there}
                raise RefusedError(
                    f"{folder} asks for {requests.all_gpus_m / WHOLE_M:g} GPUs; {node} has {len(there)}, "
                    f"of which {sum(free_m.values()) / WHOLE_M:g} are free",
                    code="no-free-gpus",
                    hint="wait for a job to end, or see who has them: steepest nodes --json",
                )
            if ids:
                self._state.job(folder.replica.job).mkdir(parents=True, exist_ok=True)  # else it counts as forgotten
                replica = folder.replica
                kept.append(GpuAssignment(replica.job, replica.index, folder.incarnation, node, ids, share_m))
                self._write(kept)
            return ids

    def release(self, folder: IncarnationFolder) -> None:
        """The incarnation was not started, and needs no GPUs.

        Raises:
            OSError: The table could not be written.
        """
        with incarnation_locks.held(self._lock):
            known = self._read()
            kept = [one for one in known if not _is_of(one, folder)]
            if len(kept) < len(known):
                self._write(kept)

    @contextlib.contextmanager
    def released_unless_started(self, folder: IncarnationFolder) -> Iterator[None]:
        """Start the incarnation in the block; if that definitely fails, its GPUs are free again."""
        try:
            yield
        except (ClusterError, OSError) as error:
            if not isinstance(error, ClusterError) or error.definite:
                self.release(folder)
            raise

    def ids_of(self, folder: IncarnationFolder) -> tuple[int, ...]:
        """The GPUs of an incarnation; none where it has none, or the table cannot be read."""
        with contextlib.suppress(RefusedError, OSError):
            return next((known.ids for known in self._read() if _is_of(known, folder)), ())
        return ()

    @property
    def _lock(self) -> Path:
        return self._state.locks / ".gpus"

    def _read(self) -> list[GpuAssignment]:
        table = self._state.gpus
        try:
            return json.read_json(table, list[GpuAssignment], below=self._state.path, most=_TABLE_BYTES_MOST)
        except FileNotFoundError:
            return []
        except UntrustedError as error:
            raise RefusedError(
                f"{table} cannot be read: {error}",
                code="damaged-table",
                hint="remove it once no job runs that has a GPU",
            ) from error

    def _write(self, table: Sequence[GpuAssignment]) -> None:
        files.replace(self._state.gpus, msgspec.json.encode(table), below=self._state.path)

    def _lives(self, known: GpuAssignment) -> bool:
        """Whether the incarnation may run, or still be started."""
        if not self._state.job(known.job).exists():
            return False
        folder = self._state.incarnation(ReplicaId(known.job, known.replica), known.incarnation)
        if folder.path.exists():
            return recorded_end(folder) is None
        newer = (self._state.incarnations(replica)[-1:] for replica in self._state.replicas(known.job))
        return not any(each.incarnation > known.incarnation for found in newer for each in found)


def _is_of(known: GpuAssignment, folder: IncarnationFolder) -> bool:
    return (ReplicaId(known.job, known.replica), known.incarnation) == (folder.replica, folder.incarnation)


def _taken_m(known: Sequence[GpuAssignment], node: str, gpu: int) -> int:
    return sum(one.taken_m(gpu) for one in known if one.node == node)


def _chosen(
    there: Sequence[int], known: Sequence[GpuAssignment], node: str, whole: int, share_m: int
) -> tuple[int, ...] | None:
    """The unused GPUs with the lowest ids, and for a share the GPU that it fills most; None if there are not enough."""
    taken_m = {gpu: _taken_m(known, node, gpu) for gpu in there}
    ids = [gpu for gpu in there if not taken_m[gpu]][:whole]
    if len(ids) < whole:
        return None
    if share_m:
        fitting = [gpu for gpu in there if gpu not in ids and taken_m[gpu] + share_m <= WHOLE_M]
        if not fitting:
            return None
        ids.append(max(fitting, key=lambda gpu: (taken_m[gpu], -gpu)))
    return tuple(ids)
