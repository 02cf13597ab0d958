"""The gateway of an installation as a process: its pools, its socket, until it is stopped."""

from __future__ import annotations

from contextlib import AsyncExitStack

import msgspec

from steepest.app.settings.tree import Settings
from steepest.app.signals import stop_at_eof, stop_on_signals
from steepest.clock import SystemClock
from steepest.errors import InputError
from steepest.gateway.metrics import FeedWatch, GatewayMetrics
from steepest.gateway.pools import installation_served
from steepest.gateway.server import listening
from steepest.logger import Logger
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.health_metrics import HealthMetrics
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.monitoring.probe import Address, probes

logger = Logger()


class GatewayProcess(msgspec.Struct, frozen=True):
    """The gateway's answers to probes."""

    metrics: Metrics
    health: Health


async def serve(settings: Settings) -> None:
    """Serve an installation until SIGTERM or SIGINT.

    Raises:
        InputError: No port is set, or it is taken, or tokens are missing.
        LogError: The log cannot be read.
    """
    if settings.gateway.port is None:
        raise InputError("no port is set", hint="set STEEPEST_GATEWAY_PORT, or gateway.port in a file")
    stop = stop_on_signals()
    if settings.stop_at_eof:
        await stop_at_eof(stop)
    metrics, health = Metrics(), Health(SystemClock())
    counted = GatewayMetrics()
    for collector in (HealthMetrics(health), *counted.collectors()):
        metrics.registry.register(collector)
    async with AsyncExitStack() as stack:
        if settings.metrics.port is not None:
            address = Address(settings.metrics.port, settings.metrics.host, settings.metrics.names)
            stack.enter_context(probes(GatewayProcess(metrics, health), address))
        served = await stack.enter_async_context(installation_served(settings, FeedWatch(metrics, health)))
        here = await stack.enter_async_context(listening(served, settings.gateway, settings.folder.gateway, counted))
        logger.info("gateway", address=here.address)
        await stop.wait()
