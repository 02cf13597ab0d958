"""The gateway: the live page and the HTTP API of an installation. It decides nothing, and keeps nothing of its own."""

from __future__ import annotations

from steepest.app.service_main import process_command
from steepest.gateway.service import serve


def main() -> None:
    """Run the service, until SIGTERM or SIGINT."""
    process_command("steepest-gateway", str(__doc__), serve)()
