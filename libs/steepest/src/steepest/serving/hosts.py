"""Under which names a server is asked, as the header ``Host`` says: those that browsers use.

It owns which names are a machine's own. A page of another host, whose name is made to point to this machine, would read what
needs no token.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection

_HOST = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::[0-9]*)?")


def host_of(header: str) -> str:
    """The name in a ``Host`` header, without its port; empty where it has no such form."""
    found = _HOST.fullmatch(header)
    return (found[1] or found[2]) if found else ""


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def is_own(host: str, names: Collection[str]) -> bool:
    """Whether no one else can make a name point to this machine: an address, its own name, or one of some others."""
    return host in ("localhost", socket.gethostname(), *names) or _is_address(host)


def _is_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host) is not None
    except ValueError:
        return False
