"""The embedded system: every installed service in one process, over a log in files, on emulated nodes of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from steepest.app.installation import open_cluster
from steepest.app.state_folder import StateFolder
from steepest.clock import Clock, SystemClock
from steepest.cluster.port import Cluster
from steepest.errors import InputError
from steepest.events.cluster import PoolConfigured
from steepest.events.parameters import PoolParameters
from steepest.events.registry import FLAGS, reads_for
from steepest.log.base import Log, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.log.snapshot_store import FolderSnapshots
from steepest.runtime.decode import asked_record
from steepest.runtime.effector import Effector, Send
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service, Settings
from steepest.view.cluster_view import ClusterView

GROUP = "steepest.services"
"""Entry points under which services are found; so the library imports none of them."""


@cache
def installed_services() -> Mapping[str, Any]:
    """Every installed service's ``build``, by name, in the order of the names."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    return {name: found[name].load() for name in sorted(found)}


def build_services(settings: Settings, log: Log, cluster: Cluster, clock: Clock) -> list[Service]:
    """All installed services.

    Raises:
        InputError: None is installed.
    """
    services = [build(settings, log, cluster, clock) for build in installed_services().values()]
    if not services:
        raise InputError("no service is installed", hint="install the packages under services/, or run `make setup`")
    return services


class Configurator(Effector):
    """Configures a new pool, and puts other parameters in force where the log does not hold them.

    A new pool gets every flag that this version knows. In one that is older they wait until all of its readers know them.
    """

    name = "configurator"

    def __init__(self, parameters: PoolParameters | None, *, upgrades: bool = False) -> None:
        """Compare once with what the log holds.

        Args:
            parameters: Those to put in force; None leaves what the log holds.
            upgrades: Whether this process is the pool's only reader, so that all flags may be switched on.

        Raises:
            InputError: No reader could read the parameters.
        """
        if parameters is not None:
            asked_record(TopicPartition("cluster"), "", PoolConfigured(parameters=parameters), 0)
        self._parameters = parameters
        self._upgrades = upgrades
        self._differs: asyncio.Queue[PoolConfigured] = asyncio.Queue()

    def caught_up(self, view: ClusterView) -> None:
        """Compare with what is in force."""
        state = view.state
        is_new = not state.reads
        wanted = configuration(view, self._parameters, upgrades=is_new or self._upgrades)
        self._parameters, self._upgrades = None, False
        if is_new or wanted != PoolConfigured(reads=state.reads, flags=state.flags, parameters=state.parameters):
            self._differs.put_nowait(wanted)

    async def run(self, send: Send) -> None:
        """Write what was found to differ."""
        while True:
            await send(await self._differs.get())


def configuration(view: ClusterView, parameters: PoolParameters | None = None, *, upgrades: bool) -> PoolConfigured:
    """What a pool is to be configured with: a version and flags that its log has raised stay.

    Args:
        view: The pool.
        parameters: None: those in force.
        upgrades: Whether every flag that this version knows is switched on.
    """
    state = view.state
    parameters = parameters or state.parameters
    flags = tuple(sorted({*state.flags, *FLAGS})) if upgrades else state.flags
    return PoolConfigured(reads=max(state.reads, reads_for(parameters, flags)), flags=flags, parameters=parameters)


class Embedded:
    """One process that is the whole system.

    Attributes:
        runtime: What runs the services; its view is the pool.
        cluster: The emulated nodes.
    """

    def __init__(self, runtime: Runtime, cluster: Cluster, log: Log) -> None:
        self.runtime = runtime
        self.cluster = cluster
        self.log = log


@asynccontextmanager
async def embedded(
    folder: StateFolder, parameters: PoolParameters | None = None, effectors: Sequence[Effector] = ()
) -> AsyncIterator[Embedded]:
    """The system over a state folder, ready for ``runtime.run``. One at a time for each folder.

    Args:
        folder: Which one.
        parameters: To be put in force; None leaves what the log holds.
        effectors: What else follows the log, beside the services (who tells people what happens, say).

    Raises:
        InputError: The folder is no installation, or another system runs on it.
        RecordingError: The folder is damaged, or of another version.
    """
    installation = folder.read()
    with folder.sole():
        clock = SystemClock()
        log = FileLog(folder.log, installation.layout.partitions())
        cluster = open_cluster(folder, installation)
        settings = Settings(pool=installation.pool, state_dir=str(folder.root))
        services = build_services(settings, log, cluster, clock)
        runtime = Runtime(
            [*services, Service(name="embedded", effectors=(Configurator(parameters, upgrades=True), *effectors))],
            log=log,
            layout=installation.layout,
            pool=installation.pool,
            snapshots=FolderSnapshots(folder.snapshots),
            clock=clock,
        )
        try:
            yield Embedded(runtime, cluster, log)
        finally:
            await cluster.close()
            await log.close()
