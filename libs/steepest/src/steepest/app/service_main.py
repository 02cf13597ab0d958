"""One service as a process of its own: settings, logging, signals, probes, run.

It owns what a process needs around a service. It must never know what the service does.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from steepest.app.compose import Composition, composed
from steepest.app.context import Build
from steepest.app.logging import configure_logging
from steepest.app.renewal import run_renewed
from steepest.app.settings.reading import read_settings
from steepest.app.settings.rows import rows_of
from steepest.app.settings.tables import help_table
from steepest.app.settings.tree import Settings
from steepest.app.signals import stop_at_eof, stop_on_signals
from steepest.errors import SteepestError
from steepest.logger import Logger
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.probe import Address, probes

logger = Logger()

STUCK_STATUS = 70
LOOK_EVERY_S = 2.0

EPILOG = """\b
Its settings come from the environment, or from a TOML file; the environment overrides the file.

\b
{table}

\b
Exit status: 0 stopped, {statuses}.
"""


def run_service(build: Build) -> None:
    """Run one service until SIGTERM or SIGINT; exit with 2 where its settings or its state folder are wrong."""
    service_command(build)()


def service_command(build: Build) -> click.Command:
    """The command line of a service."""
    module = sys.modules[build.__module__]
    name = str(module.__spec__.name if module.__spec__ else module.__name__).rpartition(".")[2].replace("_", "-")
    about = str(module.__doc__).splitlines()[0]
    return process_command(name, about, partial(_run, build), "70 it was stuck and must be started again")


def process_command(
    program: str, about: str, run: Callable[[Settings], Coroutine[Any, Any, None]], *statuses: str
) -> click.Command:
    """The command line of a process that has settings and runs until it is stopped.

    Args:
        program: Its name.
        about: What it does.
        run: Runs it.
        statuses: The meaning of its exit statuses other than 0 and 2.
    """

    def main(config: Path | None) -> None:
        configure_logging()
        try:
            asyncio.run(run(read_settings(config=config)))
        except SteepestError as error:
            # One line: a supervisor quotes the last one.
            print("; ".join(filter(None, (str(error), error.hint))), file=sys.stderr)  # noqa: T201
            sys.exit(2)

    table = help_table(rows_of(program.removeprefix("steepest-")))
    return click.Command(
        program,
        callback=main,
        params=[click.Option(["--config"], type=click.Path(dir_okay=False, path_type=Path), help="A TOML file.")],
        help=f"{about} Runs until SIGTERM or SIGINT.",
        epilog=EPILOG.format(table=table, statuses=", ".join(("2 a setting or the log is wrong", *statuses))),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )


def _spare_the_collector() -> None:
    """Keep Python's cycle collector from scanning the modules, and from running every few records.

    Records make no cycles; looking for them took a fifth of the time of a service that is far behind.
    """
    gc.freeze()
    gc.set_threshold(10_000)


async def _run(build: Build, settings: Settings) -> None:
    stop = stop_on_signals()
    if settings.stop_at_eof:
        await stop_at_eof(stop)
    await run_renewed(settings, stop, lambda: composed(settings, [build]), partial(_work, settings))


async def _work(settings: Settings, process: Composition, ended: asyncio.Event) -> None:
    """Run what is composed until ``ended`` is set, with its probes."""
    _spare_the_collector()
    watching = asyncio.create_task(_leave_when_stuck(process.runtime.health))
    try:
        with ExitStack() as stack:
            if settings.metrics.port is not None:
                address = Address(settings.metrics.port, settings.metrics.host, settings.metrics.names)
                at = stack.enter_context(probes(process.runtime, address))
                logger.info("probes", port=at.port)
            await process.runtime.run(ended)
    finally:
        watching.cancel()


async def _leave_when_stuck(health: Health) -> None:
    """A loop that is silent for too long hangs in a call: nothing but a new process helps."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if stuck := health.stuck():
            logger.critical("stuck; this process ends, to be started again", loops=stuck)
            os._exit(STUCK_STATUS)
