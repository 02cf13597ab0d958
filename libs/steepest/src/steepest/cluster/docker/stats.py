"""Measures containers through the engine's statistics streams: one thread per container, woken once per second.

It owns the streams and their arithmetic. Unknown is None, never 0: control groups of version 1 often do not count block I/O,
and a container in the host's network, or without a network, has no network counters of its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from steepest.cluster.docker.host import STREAM_FAILED, Host
from steepest.cluster.folders.replica_roster import ResourceUse
from steepest.errors import UntrustedError
from steepest.events.common import LARGEST
from steepest.logger import Logger
from steepest.untrusted.json import decoder

_log = Logger()
_SILENT_S = 10.0  # a stream that is silent for longer is broken
_MIB = 1 << 20
_LINE_BYTES_MOST = 1 << 20


class _Cpu(msgspec.Struct):
    total_usage: int | None = None


class _CpuStats(msgspec.Struct):
    cpu_usage: _Cpu = msgspec.field(default_factory=_Cpu)


class _Memory(msgspec.Struct):
    usage: int | None = None
    stats: dict[str, int] = {}


class _Operation(msgspec.Struct):
    op: str
    value: int


class _Blocks(msgspec.Struct):
    io_service_bytes_recursive: list[_Operation] | None = None


class _Network(msgspec.Struct):
    rx_bytes: int = 0
    tx_bytes: int = 0


class _Stats(msgspec.Struct):
    read: str = ""
    cpu_stats: _CpuStats = msgspec.field(default_factory=_CpuStats)
    memory_stats: _Memory = msgspec.field(default_factory=_Memory)
    blkio_stats: _Blocks = msgspec.field(default_factory=_Blocks)
    networks: dict[str, _Network] | None = None


class Sample(msgspec.Struct, frozen=True):
    """Counters of a container at one time; None: unknown.

    Attributes:
        at_s: The engine's clock, in seconds.
        cpu_s: CPU time so far, in seconds.
        memory_mib: Memory in use without the reclaimable file cache, in MiB.
        block_bytes: Bytes read and written so far.
        network_bytes: Bytes received and sent so far.
        received_bytes: Bytes received so far: what it has read from a storage server, and little else.
    """

    at_s: float
    cpu_s: float | None
    memory_mib: int | None
    block_bytes: int | None
    network_bytes: int | None
    received_bytes: int | None = None


_stats_of = decoder(_Stats)


def sample_of(line: bytes) -> Sample | None:
    """Decode one line of the stream; None if it is empty or malformed.

    It never raises: the line is untrusted input.
    """
    try:
        found = _stats_of(line)
        at_s = _seconds(found.read)
    except (UntrustedError, ValueError, OverflowError):
        return None
    cpu, memory = found.cpu_stats.cpu_usage.total_usage, found.memory_stats
    if at_s is None or not cpu:  # the counters of an ended container are all 0
        return None
    dropped = memory.stats.get("total_inactive_file", memory.stats.get("inactive_file", 0))
    operations = found.blkio_stats.io_service_bytes_recursive
    blocks = [each.value for each in operations or () if each.op.lower() in {"read", "write"}]
    networks = found.networks
    return Sample(
        at_s=at_s,
        cpu_s=cpu / 1e9,
        memory_mib=None if not memory.usage else max(memory.usage - dropped, 0) // _MIB,
        block_bytes=sum(blocks) if blocks else None,
        network_bytes=sum(each.rx_bytes + each.tx_bytes for each in networks.values()) if networks else None,
        received_bytes=sum(each.rx_bytes for each in networks.values()) if networks else None,
    )


def use_between(before: Sample, after: Sample) -> ResourceUse:
    """The usage per second between two samples."""
    span_s = after.at_s - before.at_s

    def rate(first: float | None, last: float | None) -> float | None:
        # A counter that falls was reset.
        return None if first is None or last is None or span_s <= 0 or last < first else (last - first) / span_s

    cpu = rate(before.cpu_s, after.cpu_s)
    block = rate(before.block_bytes, after.block_bytes)
    network = rate(before.network_bytes, after.network_bytes)
    return ResourceUse(
        cpu_m=None if cpu is None else round(cpu * 1000),
        cpu_ms=_cpu_ms(after),
        memory_mib=after.memory_mib,
        block_bytes_s=None if block is None else round(block),
        network_bytes_s=None if network is None else round(network),
        read_bytes=_read_bytes(after),
    )


def _cpu_ms(sample: Sample) -> int | None:
    return None if sample.cpu_s is None else round(sample.cpu_s * 1000)


def _read_bytes(sample: Sample) -> int | None:
    count = sample.received_bytes
    return None if count is None or count < 0 else min(count, LARGEST)


def _seconds(read: str) -> float | None:
    """Seconds within the day of ``2026-11-21T14:57:58.077870616Z``: only spans matter, and midnight costs one sample."""
    time_of_day = read.partition("T")[2].removesuffix("Z")
    if not time_of_day or read.startswith("0001-"):
        return None
    hours, minutes, seconds = time_of_day.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


class Stats:
    """Follows one container until closed, or until the container is gone."""

    def __init__(self, host: Host, container: str) -> None:
        self._host = host
        self._container = container
        self._newest: Sample | None = None
        self._taken: Sample | None = None
        self._use = ResourceUse()
        self._leave = threading.Event()
        self.is_over = False
        threading.Thread(target=self._follow, name=f"stats-{container[:60]}", daemon=True).start()

    def use(self) -> ResourceUse:
        """The usage between the newest sample of this call and that of an earlier one; unknown before there are two."""
        newest = self._newest
        if newest is not None and newest is not self._taken:
            if self._taken is not None:
                self._use = use_between(self._taken, newest)
            else:
                self._use = ResourceUse(
                    cpu_ms=_cpu_ms(newest), memory_mib=newest.memory_mib, read_bytes=_read_bytes(newest)
                )
            self._taken = newest
        return self._use

    def close(self) -> None:
        """Stop with the next line."""
        self._leave.set()

    def _follow(self) -> None:
        try:
            with contextlib.closing(self._open()) as response:
                response.raise_for_status()
                read_lines(response, self._take)
        except STREAM_FAILED as error:
            _log.debug("no stats", container=self._container, why=str(error))
        finally:
            self.is_over = True

    def _open(self) -> Any:
        client = self._host.client(_SILENT_S)
        url = f"{client.base_url}/v{client.api_version}/containers/{self._container}/stats"
        return client.get(url, stream=True, timeout=_SILENT_S)

    def _take(self, line: bytes) -> bool:
        sample = sample_of(line)
        if sample is not None:
            self._newest = sample
        return not self._leave.is_set()


def read_lines(response: Any, take: Callable[[bytes], bool]) -> None:
    """Pass each line of a chunked response to ``take`` until that returns False. It blocks."""
    pending = b""
    for chunk in response.raw.stream(_LINE_BYTES_MOST, decode_content=False):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            if line and not take(line):
                return
        if len(pending) > _LINE_BYTES_MOST:
            pending = b""
