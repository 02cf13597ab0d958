"""The system in the foreground, from its first line to its last: in this process, or each service as a process over Kafka.

It owns what is around the runtime: the order in which things start and stop, what is printed, and which failure ends it. It
must never know what a service does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from functools import partial
from typing import Any

import msgspec

from steepest.aio import leaves
from steepest.app.compose import Composition, composed, embedded
from steepest.app.configurator import Configurator
from steepest.app.installation import SYSTEM, apply_topics, running_cluster
from steepest.app.installed_services import gateway_program, refuse_wrong_services, service_programs
from steepest.app.process_supervisor import ProcessSupervisor, Program
from steepest.app.renewal import run_renewed
from steepest.app.settings.tree import Settings
from steepest.app.signals import stop_on_signals
from steepest.app.state_folder import KafkaPlace, StateFolder
from steepest.cli.jobs.job_output import printed_last
from steepest.cli.printing.event_printer import EventPrinter, say
from steepest.cli.quiet import quiet
from steepest.describe import count
from steepest.errors import SteepestError
from steepest.events.parameters import PoolParameters
from steepest.log.kafka.kafka_settings import AUTO, KafkaSettings
from steepest.runtime.monitoring.probe import Address, probes
from steepest.runtime.service import HeldPool, Service
from steepest.standard_streams import printing_on
from steepest.view.cluster_view import ClusterView
from steepest.view.nodes import format_resources

Wanted = Callable[[Settings], PoolParameters | None]
"""The parameters to put in force in the settings' pool, asked for once the log is there; None: those that it holds."""

LOOK_EVERY_S = 0.1
"""How often to look whether the live page is served."""


@printing_on()
def run_embedded(settings: Settings, wanted: Wanted) -> None:
    """Run the system in this process until SIGTERM or SIGINT.

    Raises:
        InputError: Another one runs on the folder, or the port is taken.
        LogError: Its log is not for this reader.
    """
    quiet("WARNING")
    with settings.folder.sole():  # before a line says what will be in force
        parameters = _of_each_pool(settings, wanted)
    asyncio.run(_run_embedded(settings, parameters))


def _of_each_pool(settings: Settings, wanted: Wanted) -> dict[str, PoolParameters]:
    """The parameters to put in force, by pool."""
    found = {pool: wanted(msgspec.structs.replace(settings, pool=pool)) for pool in settings.pools}
    return {pool: parameters for pool, parameters in found.items() if parameters is not None}


async def _run_embedded(settings: Settings, parameters: Mapping[str, PoolParameters]) -> None:
    async with embedded(settings, parameters, _printers(settings)) as process:
        say(_greeting(settings.folder))
        gateway = _gateway(settings, 1)
        stop = stop_on_signals()
        runs = [partial(_follow, settings, process)]
        if gateway:
            runs += [partial(ProcessSupervisor(gateway, say).run), partial(_tell_page, settings.folder)]
        await _side_by_side(stop, *runs)
        say(_farewell(settings.folder, [loop.view for loop in process.runtime.pools.values()]))


@printing_on()
def run_on_kafka(settings: Settings, wanted: Wanted) -> None:
    """Run the system over Kafka until SIGTERM or SIGINT: a broker if asked for, the topics, and the services' processes.

    Raises:
        InputError: Another system runs on the folder, or a setting is wrong.
        LogError: The log cannot be reached, or is not for this reader.
    """
    refuse_wrong_services(settings)
    quiet("WARNING")
    folder = settings.folder
    with folder.sole():
        own = settings.kafka.bootstrap == AUTO
        if own:
            say("starting a Kafka broker")
        with running_cluster(settings) as kafka:
            asyncio.run(_topics(kafka, folder))
            _remember(folder, KafkaPlace(kafka.bootstrap, kafka.prefix, own))
            settings = msgspec.structs.replace(settings, kafka=kafka)
            parameters = _of_each_pool(settings, wanted)
            nodes = ", ".join(node.name for pool in folder.read().all_pools for node in pool.nodes)
            say(f"up on {folder.root} (process {os.getpid()}) over Kafka at {kafka.bootstrap}, with {nodes}")
            asyncio.run(_run_on_kafka(settings, kafka, parameters))
            say("stopped; what ran goes on running: `steepest down` stops it")


def _remember(folder: StateFolder, place: KafkaPlace) -> None:
    before = folder.kafka_place()
    if before is not None and (before.bootstrap, before.prefix) != (place.bootstrap, place.prefix):
        say(f"the log was {_in_words(before)}; from now on it is {_in_words(place)}")
    folder.remember_kafka(place)


def _in_words(place: KafkaPlace) -> str:
    return f"on Kafka at {place.bootstrap}" + (f" with the prefix {place.prefix}" if place.prefix else "")


async def _topics(kafka: KafkaSettings, folder: StateFolder) -> None:
    changed = dict.fromkeys(change.topic for change in await apply_topics(kafka, folder.read().layout))
    if changed:
        say(f"created or changed the Kafka topics {', '.join(changed)}")


async def _run_on_kafka(settings: Settings, kafka: KafkaSettings, parameters: Mapping[str, PoolParameters]) -> None:
    """Follow the log here, to configure it and to print what happens, next to the processes."""
    programs = list(service_programs(settings, kafka))
    for program in programs:
        if port := program.settings.get("STEEPEST_METRICS_PORT"):
            say(f"{program.name}: metrics on {Address(int(port), settings.metrics.host)}")

    def composition() -> AbstractAsyncContextManager[Composition]:
        printers = _printers(settings)
        system = Service(name=SYSTEM, effectors=lambda held: (Configurator(parameters.get(held.pool)), *printers(held)))
        return composed(settings, (), system)

    async def follow(stop: asyncio.Event) -> None:
        await run_renewed(settings, stop, composition, partial(_follow, settings))

    gateway = _gateway(settings, 1 + len(programs))
    page = [partial(_tell_page, settings.folder)] if gateway else []
    await _side_by_side(stop_on_signals(), follow, ProcessSupervisor([*programs, *gateway], say).run, *page)


def _gateway(settings: Settings, behind: int) -> Sequence[Program]:
    """The gateway, where one is wanted; its metrics' port is this many ports after the system's."""
    port = settings.metrics.port + behind if settings.metrics.port else None
    program = gateway_program(settings, port)
    if program is None:
        return ()
    if port is not None:
        say(f"gateway: metrics on {Address(port, settings.metrics.host)}")
    settings.folder.gateway.unlink(missing_ok=True)  # a gateway that was killed left its own
    return (program,)


async def _tell_page(folder: StateFolder, stop: asyncio.Event) -> None:
    """Say where the live page is, once its gateway answers there and has written so."""
    while not stop.is_set():
        with suppress(FileNotFoundError):
            say(f"the live page is on {msgspec.json.decode(folder.gateway.read_bytes())['address']}")
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_EVERY_S)


async def _side_by_side(stop: asyncio.Event, *runs: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for run in runs:
                group.create_task(run(stop))
    except ExceptionGroup as failures:
        raise _ours(failures) or failures from failures


async def _follow(settings: Settings, process: Composition, ended: asyncio.Event) -> None:
    """Run until ``ended`` is set, and serve metrics meanwhile where a port is set."""
    with ExitStack() as stack:
        if settings.metrics.port is not None:
            address = Address(settings.metrics.port, settings.metrics.host, settings.metrics.names)
            say(f"metrics on {stack.enter_context(probes(process.runtime, address))}")
        await process.runtime.run(ended)


def _printers(settings: Settings) -> Callable[[HeldPool], Sequence[EventPrinter]]:
    """The printer of a pool's events."""
    installation = settings.folder.read()

    def of_pool(held: HeldPool) -> Sequence[EventPrinter]:
        folder = settings.folder.of_pool(installation, held.pool)
        return (EventPrinter(partial(printed_last, folder), label=held.pool if installation.pools else ""),)

    return of_pool


def _greeting(folder: StateFolder) -> str:
    every = [node for pool in folder.read().all_pools for node in pool.nodes]
    nodes = ", ".join(f"{node.name} ({format_resources(node.capacity)})" for node in every)
    return f"up on {folder.root} (process {os.getpid()}), its log in files, with {nodes}"


def _farewell(folder: StateFolder, views: Sequence[ClusterView]) -> str:
    running = sum(job.alive for view in views for job in view.jobs)
    rest = f"; {count(running, 'job')} still running: `steepest down --state {folder.root}` stops what runs"
    return f"stopped{rest if running else ''}"


def _ours(failures: ExceptionGroup) -> SteepestError | None:
    """The first error of a group that says what to do; anything else is a bug and shows its trace."""
    return next((failure for failure in leaves(failures) if isinstance(failure, SteepestError)), None)
