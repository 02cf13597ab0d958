"""The embedded system in the foreground: from the greeting to the farewell.

It owns what is around the runtime: signals, probes, what people are told, and which failure ends it. It must never know
what the runtime runs.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from functools import partial

from steepest.app.embedded import embedded
from steepest.app.service_main import stop_on_signals
from steepest.app.state_folder import StateFolder
from steepest.cli.job_output import printed_last
from steepest.cli.printing.event_printer import EventPrinter, say
from steepest.cli.quiet import quiet
from steepest.describe import count
from steepest.errors import SteepestError
from steepest.events.parameters import PoolParameters
from steepest.runtime.monitoring.probe import Address, probes
from steepest.view.cluster_view import ClusterView
from steepest.view.nodes import in_words


async def run(folder: StateFolder, parameters: PoolParameters | None, metrics: Address | None) -> None:
    """Run the system on a state folder until SIGTERM or SIGINT.

    Raises:
        InputError: Another one runs on it, or the port is taken.
        LogError: Its log is not for this reader.
    """
    quiet(logging.WARNING)
    async with embedded(folder, parameters, (EventPrinter(partial(printed_last, folder)),)) as system:
        stop = stop_on_signals()
        with ExitStack() as stack:
            say(_greeting(folder))
            if metrics is not None:
                say(f"metrics on {stack.enter_context(probes(system.runtime, metrics))}")
            try:
                await system.runtime.run(stop)
            except ExceptionGroup as failures:
                raise _ours(failures) or failures from failures
        say(_farewell(folder, system.runtime.pool.view))


def _greeting(folder: StateFolder) -> str:
    nodes = ", ".join(f"{node.name} ({in_words(node.capacity)})" for node in folder.read().nodes)
    return f"up on {folder.root} (process {os.getpid()}), with {nodes}"


def _farewell(folder: StateFolder, view: ClusterView) -> str:
    running = sum(job.alive for job in view.jobs)
    rest = f"; {count(running, 'job')} still running: `steepest down --state {folder.root}` stops what runs"
    return f"stopped{rest if running else ''}"


def _ours(failures: ExceptionGroup) -> SteepestError | None:
    """The first error of a group that says what to do; anything else is a bug and shows its trace."""
    for failure in failures.exceptions:
        found = _ours(failure) if isinstance(failure, ExceptionGroup) else failure
        if isinstance(found, SteepestError):
            return found
    return None
