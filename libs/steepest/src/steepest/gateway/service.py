"""The gateway of an installation as a process: its pools, its socket, until it is stopped."""

from __future__ import annotations

from steepest.app.settings.tree import Settings
from steepest.app.signals import stop_at_eof, stop_on_signals
from steepest.errors import InputError
from steepest.gateway.pools import installation_served
from steepest.gateway.server import listening
from steepest.logger import Logger

logger = Logger()


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
    async with (
        installation_served(settings) as served,
        listening(served, settings.gateway, settings.folder.gateway) as here,
    ):
        logger.info("gateway", address=here.address)
        await stop.wait()
