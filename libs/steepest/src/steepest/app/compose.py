"""The composition root: opens what an installation is made of, and builds the services of a process on it.

The embedded system, one service alone, and the system beside services that are processes are composed here. It owns the
order in which the parts are opened and closed. It must never know what a service does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import msgspec

from steepest.app.configurator import Configurator
from steepest.app.context import Build, ServiceContext
from steepest.app.installation import SYSTEM, open_cluster, open_log, open_snapshots, shares_of
from steepest.app.installed_services import wanted_services
from steepest.app.settings.tree import Settings
from steepest.clock import SystemClock
from steepest.cluster.port import Cluster
from steepest.events.parameters import PoolParameters
from steepest.log.base import Log
from steepest.log.files.file_lock import locked
from steepest.runtime.effector import Effector
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.outbox import patiently
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service


class Composition(msgspec.Struct, frozen=True):
    """A process that is composed.

    Attributes:
        runtime: Runs its services; ``runtime.pool.view`` is the pool.
    """

    runtime: Runtime
    cluster: Cluster
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
    installation = folder.read()
    log = open_log(settings, installation)
    cluster = open_cluster(folder, installation)
    try:
        context = ServiceContext(
            settings=settings, installation=installation, log=log, cluster=cluster, clock=clock, metrics=metrics
        )
        services = [build(context) for build in builds]
        async for attempt in patiently():
            with attempt:
                async with locked(folder.opening_lock):  # of several services that start together, one opens the log
                    await open_partitions(log, installation.layout, clock)
        runtime = Runtime(
            services if system is None else [*services, system],
            log=log,
            layout=installation.layout,
            pool=settings.pool or installation.pool,
            snapshots=open_snapshots(settings, log, services[0].name if system is None else ""),
            clock=clock,
            metrics=metrics,
            shares=shares_of(settings),
        )
        yield Composition(runtime, cluster, log)
    finally:
        await cluster.close()
        await log.close()


@asynccontextmanager
async def embedded(
    settings: Settings, parameters: PoolParameters | None = None, effectors: Sequence[Effector] = ()
) -> AsyncIterator[Composition]:
    """The whole system in one process over a log in files. One at a time for each folder.

    Args:
        settings: Which installation.
        parameters: To be put in force; None leaves what the log holds.
        effectors: What else follows the log, beside the services: what prints events, say.

    Raises:
        InputError: The folder is no installation, or another system runs on it.
        RecordingError: The folder is damaged, or of another version.
    """
    system = Service(name=SYSTEM, effectors=(Configurator(parameters, upgrades=True), *effectors))
    with settings.folder.sole():
        async with composed(settings, wanted_services(settings).values(), system) as process:
            yield process
