"""One service as a process of its own: settings, logging, signals, probes, run.

It owns what a process needs around a service. It must never know what the service does.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import tomllib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import msgspec
import structlog

from steepest.app.installation import open_cluster, open_log, open_snapshots, shares_of
from steepest.app.logging import configure_logging
from steepest.app.state_folder import StateFolder
from steepest.clock import Clock, SystemClock
from steepest.cluster.port import Cluster
from steepest.errors import InputError, SteepestError
from steepest.log.base import Log
from steepest.log.files.file_lock import locked
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.probe import Address, probes
from steepest.runtime.outbox import patiently
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service, Settings

Build = Callable[[Settings, Log, Cluster, Clock], Service]

logger = structlog.get_logger(__name__)

STUCK_STATUS = 70
LOOK_EVERY_S = 2.0

HELP = """\
usage: {program} [--config FILE] [--help]

Runs this service until SIGTERM or SIGINT. Its settings, from the environment or from a TOML file with the same names in
lower case and without STEEPEST_ (the environment comes first):

  STEEPEST_POOL           the pool it works for (default)
  STEEPEST_STATE_DIR      the state folder of the installation (.steepest)
  STEEPEST_METRICS_PORT   serve /metrics, /healthz and /readyz there; 0 takes any free port
  STEEPEST_METRICS_HOST   on which of the machine's addresses (127.0.0.1)
  STEEPEST_STOP_AT_EOF    true: stop when standard input ends, because whoever started it is gone
  STEEPEST_KAFKA          host:port; without it, the log is where the state folder says
  STEEPEST_KAFKA_PREFIX   put before the names of topics and groups
  STEEPEST_KAFKA_SECURITY PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
  STEEPEST_KAFKA_CA_FILE, _CERT_FILE, _KEY_FILE, _SASL_MECHANISM, _USERNAME, _PASSWORD
  STEEPEST_MQTT           host:port of the broker whose devices mqtt-bridge hears
  STEEPEST_MQTT_DEVICE    whose log-collector this is: it writes over MQTT
  STEEPEST_MQTT_AGENTS    the nodes whose log-collectors mqtt-bridge hears
  STEEPEST_MQTT_PREFIX, _CLIENT_ID, _USERNAME, _PASSWORD, _TLS, _CA_FILE, _CERT_FILE, _KEY_FILE

Exit status: 0 stopped, 2 a setting or the log is wrong, 70 it was stuck and should be started anew.
"""


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a service's process.

    Attributes:
        metrics_port: Where probes are answered; None for nowhere.
        metrics_host: Which of the machine's addresses that is.
        stop_at_eof: Stop when standard input ends.
    """

    pool: str = "default"
    state_dir: str = ".steepest"
    metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    metrics_host: str = "127.0.0.1"
    stop_at_eof: bool = False


def run_alone(build: Build) -> None:
    """Run one service until SIGTERM or SIGINT; exit with 2 where its settings or its state folder are wrong."""
    configure_logging()
    try:
        settings = settings_from(with_file(os.environ, sys.argv[1:]))
        asyncio.run(_run(build, settings))
    except SteepestError as error:
        print(f"{error}\n{error.hint}".rstrip(), file=sys.stderr)  # noqa: T201 - the last words of a process
        sys.exit(2)


def _spare_the_collector() -> None:
    """Let Python's collector of cycles look at what a service makes, and not at its modules, nor at every few records.

    Records make no cycles; looking for them took a fifth of the time of a service that is far behind.
    """
    gc.freeze()
    gc.set_threshold(10_000)


def with_file(environ: os._Environ[str], arguments: list[str]) -> Mapping[str, str]:
    """The environment, filled up from the file that the arguments name.

    Raises:
        InputError: The arguments are others, or the file is no TOML.
        SystemExit: Help was asked for, and has been given.
    """
    match arguments:
        case []:
            return environ
        case ["--help" | "-h"]:
            print(HELP.format(program=Path(sys.argv[0]).name), end="")  # noqa: T201 - this is what was asked for
            raise SystemExit(0)
        case ["--config", name]:
            for key, value in _read_toml(Path(name)).items():
                environ.setdefault(
                    f"STEEPEST_{key.upper()}", str(value).lower() if value in {True, False} else str(value)
                )
            return environ
    raise InputError(f"cannot make sense of {' '.join(arguments)}", hint="call it with --help")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}", hint="name a TOML file with one setting a line") from error


def settings_from(environ: Mapping[str, str]) -> ProcessSettings:
    """Settings from ``STEEPEST_POOL`` and so on.

    Raises:
        InputError: One of them is wrong; the message names it.
    """
    names = {field.name: f"STEEPEST_{field.name.upper()}" for field in msgspec.structs.fields(ProcessSettings)}
    given = {field: environ[name] for field, name in names.items() if name in environ}
    try:
        return msgspec.convert(given, ProcessSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"wrong setting: {error}", hint=f"look at {', '.join(names.values())}") from error


async def _run(build: Build, settings: ProcessSettings) -> None:
    folder = StateFolder(Path(settings.state_dir))
    installation = folder.read()
    clock = SystemClock()
    stop = stop_on_signals()
    if settings.stop_at_eof:
        await _stop_at_eof(stop)
    log = open_log(folder, installation)
    async for attempt in patiently():
        with attempt:
            async with locked(folder.opening_lock):  # of several services that start at once, one opens the log
                await open_partitions(log, installation.layout, clock)
    cluster = open_cluster(folder, installation)
    service = build(Settings(pool=settings.pool, state_dir=settings.state_dir), log, cluster, clock)
    runtime = Runtime(
        [service],
        log=log,
        layout=installation.layout,
        pool=settings.pool,
        snapshots=open_snapshots(folder, log, service.name),
        clock=clock,
        shares=shares_of(folder),
    )
    _spare_the_collector()
    watching = asyncio.create_task(_leave_when_stuck(runtime.health))
    try:
        with ExitStack() as stack:
            if settings.metrics_port is not None:
                at = stack.enter_context(probes(runtime, Address(settings.metrics_port, settings.metrics_host)))
                logger.info("probes", port=at.port, service=service.name)
            await runtime.run(stop)
    finally:
        watching.cancel()
        await cluster.close()
        await log.close()


async def _leave_when_stuck(health: Health) -> None:
    """A loop that is silent for too long hangs in a call: nothing but a new process helps."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if stuck := health.stuck():
            logger.critical("stuck; leaving, to be started anew", loops=stuck)
            os._exit(STUCK_STATUS)


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _stop_at_eof(stop: asyncio.Event) -> None:
    """Whoever started us holds the other end, and never writes: its end is the end."""

    class Held(asyncio.Protocol):
        def connection_lost(self, _: Exception | None) -> None:
            stop.set()

        def eof_received(self) -> None:
            stop.set()

    await asyncio.get_running_loop().connect_read_pipe(Held, sys.stdin)
