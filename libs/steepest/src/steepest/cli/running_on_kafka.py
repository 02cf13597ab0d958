"""The system on Kafka in the foreground: a broker if asked for, the topics, and every service as a process of its own.

It owns the order in which these come and go. It must never know what a service does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import entry_points

import msgspec

from steepest.app.embedded import GROUP, Configurator
from steepest.app.installation import (
    SYSTEM,
    KafkaPlace,
    kafka_folder,
    kafka_of,
    kafka_place,
    open_log,
    open_snapshots,
    remember_kafka,
)
from steepest.app.process_supervisor import ProcessSupervisor, Program
from steepest.app.service_main import stop_on_signals
from steepest.app.state_folder import StateFolder
from steepest.cli.commands.topics import apply_topics
from steepest.cli.job_output import printed_last
from steepest.cli.options import AUTO
from steepest.cli.printing.event_printer import EventPrinter, say
from steepest.cli.quiet import quiet
from steepest.clock import SystemClock
from steepest.errors import InputError
from steepest.events.parameters import PoolParameters
from steepest.log.kafka.broker import Broker
from steepest.log.kafka.kafka_settings import KafkaSettings, as_environment
from steepest.mqtt.settings import VARIABLE
from steepest.runtime.monitoring.probe import Address, probes
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service

WANTED_WHERE_SET = {"mqtt-bridge": VARIABLE}
"""Services that have work only where a variable names something, and then for one process."""


def run_on_kafka(
    folder: StateFolder,
    kafka: str | None,
    scales: Mapping[str, int],
    wanted: Callable[[], PoolParameters | None],
    *,
    metrics: Address | None,
    only: Collection[str],
) -> None:
    """Run the system until SIGTERM or SIGINT.

    Args:
        folder: The installation.
        kafka: ``host:port``, ``auto`` for a broker of its own, or None for where the log was before.
        scales: Processes of a service, where it is not one.
        wanted: The parameters to put in force, asked for once the log is there.
        metrics: Where the system itself answers; each service has one of the next ports.
        only: The services to run here, where the others run elsewhere; empty: all.

    Raises:
        InputError: Another system runs on the folder, or a setting is wrong.
        LogError: The log cannot be reached, or is not for this reader.
    """
    if alone := [name for name in scales if name in WANTED_WHERE_SET]:
        raise InputError(f"{alone[0]} cannot be scaled: it is one process", hint=f"leave --scale {alone[0]} out")
    quiet(logging.WARNING)
    with folder.sole(), _cluster(folder, kafka) as settings:
        installation = folder.read()
        asyncio.run(_topics(settings, folder))
        parameters = wanted()
        names = ", ".join(node.name for node in installation.nodes)
        say(f"up on {folder.root} (process {os.getpid()}) over Kafka at {settings.bootstrap}, with {names}")
        programs = list(_programs(folder, settings, scales, metrics, only))
        asyncio.run(_run(folder, programs, parameters, metrics))
        say("stopped; what ran goes on running: `steepest down` stops it")


@contextmanager
def _cluster(folder: StateFolder, kafka: str | None) -> Iterator[KafkaSettings]:
    """The cluster's settings, for as long as its broker runs if that is our own."""
    before = kafka_place(folder)
    if kafka == AUTO or (kafka is None and before is not None and before.own):
        broker = Broker(kafka_folder(folder), guarded=True)
        say("starting a Kafka broker")
        broker.start()
        os.environ |= as_environment(msgspec.structs.replace(broker.settings, prefix=_prefix(before)))
        try:
            yield _remembered(folder, own=True)
        finally:
            broker.stop()
        return
    if kafka is not None:
        os.environ["STEEPEST_KAFKA"] = kafka
    yield _remembered(folder, own=False)


def _prefix(before: KafkaPlace | None) -> str:
    """Of the topics: as the environment says, or as it was."""
    return os.environ.get("STEEPEST_KAFKA_PREFIX") or (before.prefix if before is not None and before.own else "")


def _remembered(folder: StateFolder, *, own: bool) -> KafkaSettings:
    settings = kafka_of(folder)
    assert settings is not None  # noqa: S101 - the environment or the folder names one, or we would not be here
    remember_kafka(folder, KafkaPlace(settings.bootstrap, settings.prefix, own))
    return settings


async def _topics(settings: KafkaSettings, folder: StateFolder) -> None:
    changed = dict.fromkeys(change.topic for change in await apply_topics(settings, folder.read().layout))
    if changed:
        say(f"made what they should be: the topics {', '.join(changed)}")


def _programs(
    folder: StateFolder,
    settings: KafkaSettings,
    scales: Mapping[str, int],
    metrics: Address | None,
    only: Collection[str],
) -> Iterator[Program]:
    """Every installed service or only those named, in the order of the names, as often as it is asked for."""
    modules = {point.name: point.module for point in entry_points(group=GROUP)}
    if unknown := sorted({*scales, *only} - set(modules)):
        raise InputError(f"no service {unknown[0]!r} is installed", hint=f"there are {', '.join(sorted(modules))}")
    logs = folder.root / "services"
    logs.mkdir(parents=True, exist_ok=True)
    common = {"STEEPEST_STATE_DIR": str(folder.root.absolute()), "STEEPEST_POOL": folder.read().pool}
    modules = {name: module for name, module in modules.items() if name in only or (not only and is_wanted(name))}
    for service in sorted(modules):
        for number in range(scales.get(service, 1)):
            name = service if number == 0 else f"{service}-{number + 1}"
            env = {**common, **as_environment(settings)}
            if metrics and metrics.port:
                metrics = metrics._replace(port=metrics.port + 1)
                env |= {"STEEPEST_METRICS_PORT": str(metrics.port), "STEEPEST_METRICS_HOST": metrics.host}
                say(f"{name}: metrics on {metrics}")
            yield Program(
                name=name, command=(sys.executable, "-m", modules[service]), env=env, output=logs / f"{name}.log"
            )


def is_wanted(service: str) -> bool:
    """Whether a service has any work, as far as the environment says."""
    variable = WANTED_WHERE_SET.get(service)
    return variable is None or bool(os.environ.get(variable))


async def _run(
    folder: StateFolder, programs: list[Program], parameters: PoolParameters | None, metrics: Address | None
) -> None:
    """Follow the log ourselves, to configure and to tell, beside the processes."""
    stop = stop_on_signals()
    installation = folder.read()
    log = open_log(folder, installation)
    runtime = Runtime(
        [Service(name=SYSTEM, effectors=(Configurator(parameters), EventPrinter(partial(printed_last, folder))))],
        log=log,
        layout=installation.layout,
        pool=installation.pool,
        snapshots=open_snapshots(folder, log),
        clock=SystemClock(),
    )
    try:
        with ExitStack() as stack:
            if metrics is not None:
                say(f"metrics on {stack.enter_context(probes(runtime, metrics))}")
            async with asyncio.TaskGroup() as group:
                group.create_task(ProcessSupervisor(programs, say).run(stop), name="supervisor")
                group.create_task(runtime.run(stop), name="system")
    finally:
        await log.close()
