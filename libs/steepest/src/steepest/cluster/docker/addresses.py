"""Parses the engines that a user names, and makes a node of each.

It owns ``docker``, ``docker=HOST,…`` and how an engine's own description becomes a node.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from docker.errors import DockerException
from requests import RequestException

from steepest.cluster.docker.host import DockerNode, Host, connect
from steepest.errors import InputError
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
