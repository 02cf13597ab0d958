"""The addresses at which containers on the machines' own networks reach each other.

It owns what an engine's address says of its machine. It must never call an engine.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from steepest.errors import RefusedError

LOOPBACK = "127.0.0.1"
_ANY_PORT = 9  # nothing is sent


def peer_hosts(urls: Sequence[str]) -> tuple[str, ...]:
    """The host of each engine, as the machines of the others reach it. It may resolve a name, and blocks.

    Engines at Unix sockets are on this machine: among themselves they use loopback, and with others the address from which
    this machine reaches the first of these. Another engine's host is the one by which this machine reaches it.

    Raises:
        RefusedError: ``no-address``: this machine's own address cannot be determined.
    """
    hosts = [_host(url) for url in urls]
    others = [host for host in hosts if host is not None]
    here = LOOPBACK
    if others and None in hosts:
        here = _own_address(others[0])
    return tuple(host or here for host in hosts)


def _host(url: str) -> str | None:
    return None if url.startswith("unix://") else urlsplit(url).hostname


def _own_address(other: str) -> str:
    try:
        family, kind, *_, address = socket.getaddrinfo(other, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise RefusedError(
            f"this machine has no address at which {other} reaches it: {error}",
            code="no-address",
            hint="reach this machine's engine by tcp:// or ssh:// too",
        ) from error
