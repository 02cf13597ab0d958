"""The gateway: the live page and the HTTP API of an installation. It decides nothing, and keeps nothing of its own.

Reads: ``cluster``, ``dead-letters``: from the beginning, or from a long log's newest snapshot on
Writes: ``cluster``: ``JobSubmitted``, ``JobCancelRequested``, as callers ask for them
Scales by: itself: each process reads the log for itself and keeps nothing
"""

from __future__ import annotations

from steepest.app.service_main import process_command
from steepest.gateway.service import serve


def main() -> None:
    """Run the service, until SIGTERM or SIGINT."""
    process_command("steepest-gateway", str(__doc__), serve)()


if __name__ == "__main__":
    main()
