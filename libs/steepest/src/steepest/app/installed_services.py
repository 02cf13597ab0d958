"""Which services are installed, and which of them have work; so the library imports none of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

import msgspec

from steepest.app.context import Build
from steepest.app.extras import refuse_without
from steepest.app.process_supervisor import Program
from steepest.app.settings.rows import as_environment
from steepest.app.settings.tree import Settings
from steepest.errors import InputError
from steepest.log.kafka.kafka_settings import KafkaSettings

GROUP = "steepest.services"
"""Entry points under which services are found."""

BRIDGE = "mqtt-bridge"
"""The service that has work only where a broker is named, and is one session at that broker."""


@cache
def installed_services() -> Mapping[str, Build]:
    """Every installed service's ``build``, by name, in the order of the names."""
    return {name: point.load() for name, point in _points().items()}


def wanted_services(settings: Settings) -> Mapping[str, Build]:
    """The services that have work under these settings.

    Raises:
        InputError: None is installed.
    """
    return {name: point.load() for name, point in _points().items() if _is_wanted(name, settings)}


def refuse_wrong_services(settings: Settings) -> None:
    """Whether the services that are named can run so.

    Raises:
        InputError: One is not installed, or cannot be scaled.
    """
    installed, scales = _points(), settings.services.scales
    if unknown := [name for name in (*scales, *settings.services.only) if name not in installed]:
        raise InputError(f"no service {unknown[0]!r} is installed", hint=f"there are {', '.join(installed)}")
    if BRIDGE in scales:
        raise InputError(f"{BRIDGE} cannot be scaled: it is one process", hint="leave it out of --scale")


def service_programs(settings: Settings, kafka: KafkaSettings) -> Iterator[Program]:
    """Each wanted service as a process of its own, as often as it is asked for, in the order of the names.

    Args:
        settings: Of the system. Where it has a port for its metrics, the processes get the next ones.
        kafka: Where the log is.
    """
    scales, only = settings.services.scales, settings.services.only
    logs = settings.folder.services
    logs.mkdir(parents=True, exist_ok=True)
    port = settings.metrics.port
    for service, point in _points().items():
        if service not in only if only else not _is_wanted(service, settings):
            continue
        for number in range(scales.get(service, 1)):
            name = service if number == 0 else f"{service}-{number + 1}"
            port = port + 1 if port else None
            own = msgspec.structs.replace(
                settings,
                state_dir=str(settings.folder.root.absolute()),
                kafka=kafka,
                metrics=msgspec.structs.replace(settings.metrics, port=port),
                stop_at_eof=True,
            )
            yield Program(
                name=name,
                command=(sys.executable, "-m", point.module),
                settings=as_environment(own),
                output=logs / f"{name}.log",
            )


def gateway_program(settings: Settings, metrics_port: int | None) -> Program | None:
    """The gateway as a process of its own, which may die without the system; None where no port is set.

    ``metrics_port`` is where it serves its metrics; None: nowhere.

    Raises:
        InputError: It is wanted, and not installed.
    """
    if settings.gateway.port is None:
        return None
    refuse_without(
        ("steepest_services.gateway", "starlette", "uvicorn"),
        "the gateway needs",
        "install services/gateway, or run `make setup`",
    )
    settings.folder.services.mkdir(parents=True, exist_ok=True)
    own = msgspec.structs.replace(
        settings,
        state_dir=str(settings.folder.root.absolute()),
        metrics=msgspec.structs.replace(settings.metrics, port=metrics_port),
        stop_at_eof=True,
    )
    return Program(
        name="gateway",
        command=(sys.executable, "-m", "steepest_services.gateway"),
        settings=as_environment(own),
        output=settings.folder.services / "gateway.log",
    )


def _points() -> Mapping[str, EntryPoint]:
    found = {point.name: point for point in entry_points(group=GROUP)}
    if not found:
        raise InputError("no service is installed", hint="install the packages under services/, or run `make setup`")
    return {name: found[name] for name in sorted(found)}


def _is_wanted(service: str, settings: Settings) -> bool:
    return service != BRIDGE or bool(settings.mqtt.broker)
