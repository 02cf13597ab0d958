"""Parses the engines that a user names, and makes a node of each.

It owns ``docker``, ``docker=HOST,…``, how an engine's own description becomes a node, and what its address says of its
machine: at which address containers on the machines' own networks reach each other.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from docker.errors import DockerException
from requests import RequestException

from steepest.cluster.docker.host import DockerNode, Host, connect
from steepest.errors import InputError, RefusedError
from steepest.events.common import Resources

HERE = "unix:///var/run/docker.sock"
_LONGEST_NAME = 50  # of the 63 characters that a name may have: a number may follow


def addresses(asked: str, environ: Mapping[str, str] = os.environ) -> list[tuple[str, str | None]]:
    """The address of each engine, and its TLS folder.

    Args:
        asked: Hosts, separated by commas: ``unix://…``, ``tcp://host:port``, ``ssh://user@host``, or a bare host name, which
            is reached by SSH; empty: ``$DOCKER_HOST``, or the engine of this machine.
        environ: ``DOCKER_TLS_VERIFY`` and ``DOCKER_CERT_PATH`` are the Docker client's own: TLS for every ``tcp://``.

    Raises:
        InputError: An engine is named twice.
    """
    urls = [_url(one.strip()) for one in asked.split(",") if one.strip()] or [environ.get("DOCKER_HOST") or HERE]
    if len(set(urls)) < len(urls):
        raise InputError(f"an engine is named twice in {asked!r}", hint="name each once")
    folder = None
    if environ.get("DOCKER_TLS_VERIFY"):
        folder = environ.get("DOCKER_CERT_PATH") or os.path.expanduser("~/.docker")  # noqa: PTH111 - as the client does
    return [(url, folder if url.startswith("tcp://") else None) for url in urls]


def nodes(engines: Sequence[tuple[str, str | None]]) -> list[DockerNode]:
    """Make a node of each engine, with its machine's name, processors and memory. It blocks.

    Raises:
        InputError: An engine does not answer.
    """
    made: dict[str, DockerNode] = {}
    for url, tls in engines:
        info = _info(url, tls)
        plain = re.sub(r"[^a-z0-9-]+", "-", str(info["Name"]).lower()).strip("-")[:_LONGEST_NAME] or "node"
        numbered = (plain if number == 1 else f"{plain}-{number}" for number in itertools.count(1))
        name = next(one for one in numbered if one not in made)
        capacity = Resources(cpu_m=int(info["NCPU"]) * 1000, memory_mib=int(info["MemTotal"]) >> 20)
        made[name] = DockerNode(name=name, url=url, capacity=capacity, tls=tls)
    return list(made.values())


def _info(url: str, tls: str | None) -> Mapping[str, Any]:
    asked = DockerNode(name="new", url=url, capacity=Resources(), tls=tls)
    host = Host(asked)
    try:
        if not host.ping():
            connect(asked, 10.0).close()  # raises the reason
        info: Mapping[str, Any] = host.client().info()
    except (DockerException, RequestException, OSError) as error:
        raise InputError(
            f"no Docker engine answers at {url}: {error}",
            code="no-engine",
            hint=f"start it, or try `docker --host {url} info`",
        ) from error
    finally:
        host.close()
    return info


def _url(named: str) -> str:
    return named if "://" in named else f"ssh://{named}"


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
