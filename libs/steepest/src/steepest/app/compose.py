"""The composition root: opens what an installation is made of, and builds the services of a process on it.

The embedded system, one service alone, and the system next to services that are processes are composed here. It owns the
order in which the parts are opened and closed. It must never know what a service does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType

import msgspec

from steepest.app.configurator import Configurator
from steepest.app.context import Build, ServiceContext
from steepest.app.installation import SYSTEM, OpenedClusters, open_log, open_snapshots, pool_share_of, shares_of
from steepest.app.installed_services import wanted_services
from steepest.app.settings.tree import Settings
from steepest.clock import Clock, SystemClock
from steepest.cluster.port import Cluster
from steepest.events.parameters import PoolParameters
from steepest.log.base import Log
from steepest.log.files.file_lock import locked
from steepest.log.files.file_log import FileLog
from steepest.logger import Logger
from steepest.runtime.effector import Effector
from steepest.runtime.layout import Layout
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.outbox import patiently
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.recovery.trimming import keep_trimmed
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import HeldPool, Service

logger = Logger()


class Composition(msgspec.Struct, frozen=True):
    """A process that is composed.

    Attributes:
        runtime: Runs its services; ``runtime.pools[name].view`` is a pool.
        clusters: The nodes of each pool.
    """

    runtime: Runtime
    clusters: Mapping[str, Cluster]
    log: Log


@asynccontextmanager
async def composed(
    settings: Settings, builds: Iterable[Build], system: Service | None = None
) -> AsyncIterator[Composition]:
    """A process over an installation, ready for ``runtime.run``.

    Args:
        settings: Which installation, and where its log is.
        builds: The services.
        system: What `steepest up` adds; None: the process is one service alone, and keeps snapshots of its own.

    Raises:
        InputError: The folder is no installation, or a setting is wrong.
        RecordingError: The folder is damaged, or of another version.
    """
    folder, clock, metrics = settings.folder, SystemClock(), Metrics()
    if settings.kafka.is_open:
        logger.warning(
            "Kafka asks for no proof of identity: all who reach it can run commands", hint="see kafka.security"
        )
    installation = folder.read()
    log = open_log(settings, installation)
    layout = installation.layout
    pools = layout.pools if settings.pool is None else (settings.pool,)
    clusters = OpenedClusters(folder, installation, pools, settings.agent.node)
    try:
        context = ServiceContext(
            settings=settings, installation=installation, log=log, clusters=clusters, clock=clock, metrics=metrics
        )
        services = [build(context) for build in builds]
        async for attempt in patiently():
            with attempt:
                await _open(log, layout, clock, folder.opening_lock)
        upkeep, services_here = None, services if system is None else [*services, system]
        snapshots = open_snapshots(settings, log, services[0].name if system is None else "")
        if system is not None and isinstance(log, FileLog):
            trim = partial(keep_trimmed, limits=settings.retention.of, clock=clock)
            upkeep = partial(trim, log, layout, services_here, snapshots)
        runtime = Runtime(
            services_here,
            log=log,
            layout=layout,
            pools=pools,
            snapshots=snapshots,
            clock=clock,
            metrics=metrics,
            pool_share=pool_share_of(settings, layout, services[0].name) if system is None else None,
            shares=shares_of(settings, layout),
            upkeep=upkeep,
        )
        yield Composition(runtime, clusters, log)
    finally:
        await clusters.close()
        await log.close()


async def _open(log: Log, layout: Layout, clock: Clock, lock: Path | None) -> None:
    """Open the log; of several services that start together on one folder, one does."""
    async with locked(lock) if lock is not None else nullcontext():
        await open_partitions(log, layout, clock)


@asynccontextmanager
async def embedded(
    settings: Settings,
    parameters: Mapping[str, PoolParameters] = MappingProxyType({}),
    effectors: Callable[[HeldPool], Sequence[Effector]] = lambda _: (),
) -> AsyncIterator[Composition]:
    """The whole system in one process over a log in files. One at a time for each folder.

    Args:
        settings: Which installation.
        parameters: To be put in force, by pool; elsewhere it stays what the log holds.
        effectors: Further followers of a pool's log, for example the one that prints events.

    Raises:
        InputError: The folder is no installation, or another system runs on it.
        RecordingError: The folder is damaged, or of another version.
    """
    system = Service(
        name=SYSTEM,
        effectors=lambda held: (Configurator(parameters.get(held.pool), upgrades=True), *effectors(held)),
    )
    with settings.folder.sole():
        async with composed(settings, wanted_services(settings).values(), system) as process:
            yield process
