"""One service as a process of its own: settings, logging, signals, run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from steepest.clock import Clock, SystemClock
from steepest.cluster.local.cluster import LocalCluster, LocalNode
from steepest.cluster.port import Cluster
from steepest.errors import InputError, SteepestError
from steepest.log.base import Log
from steepest.log.file import FileLog
from steepest.log.snapshots import FolderSnapshots
from steepest.logging import configure_logging
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service, Settings
from steepest.state_folder import Installation, StateFolder

Build = Callable[[Settings, Log, Cluster, Clock], Service]


def run_alone(build: Build) -> None:
    """Run one service until SIGTERM or SIGINT; exit with 2 where its settings or its state folder are wrong."""
    configure_logging()
    try:
        asyncio.run(_run(build, settings_from(os.environ)))
    except SteepestError as error:
        print(f"{error}\n{error.mend}".rstrip(), file=sys.stderr)  # noqa: T201 - the last words of a process
        sys.exit(2)


def settings_from(environ: os._Environ[str] | dict[str, str]) -> Settings:
    """Settings from ``STEEPEST_POOL`` and so on.

    Raises:
        InputError: One of them is wrong; the message names it.
    """
    names = {field.name: f"STEEPEST_{field.name.upper()}" for field in msgspec.structs.fields(Settings)}
    given = {field: environ[name] for field, name in names.items() if name in environ}
    try:
        return msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"wrong setting: {error}", mend=f"look at {', '.join(names.values())}") from error


async def _run(build: Build, settings: Settings) -> None:
    folder = StateFolder(Path(settings.state_dir))
    installation = folder.read()
    clock = SystemClock()
    log = FileLog(folder.log)
    cluster = local_cluster(folder, installation)
    service = build(settings, log, cluster, clock)
    runtime = Runtime(
        [service],
        log=log,
        layout=installation.layout,
        pool=settings.pool,
        snapshots=FolderSnapshots(folder.snapshots / service.name),
        clock=clock,
    )
    try:
        await runtime.run(stop_on_signals())
    finally:
        await cluster.close()
        await log.close()


def local_cluster(folder: StateFolder, installation: Installation) -> LocalCluster:
    """The emulated nodes of an installation."""
    return LocalCluster(
        folder.cluster,
        [LocalNode(node.name, node.capacity) for node in installation.nodes],
        installation.pool,
        heartbeat_s=installation.heartbeat_ms / 1000,
    )


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
