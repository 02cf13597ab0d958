"""Engines as a user names them, and the nodes that they make.

It owns ``docker``, ``docker=HOST,…`` and what an engine tells of itself when it becomes a node.
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
_LONGEST_NAME = 50  # of the 63 that a name may have: a number may follow


def addresses(asked: str, environ: Mapping[str, str] = os.environ) -> list[tuple[str, str | None]]:
    """The address of each engine, and its TLS folder.

    Args:
        asked: Hosts between commas: ``unix://…``, ``tcp://host:port``, ``ssh://user@host``, or a host's bare name, which is
            reached by SSH; empty: ``$DOCKER_HOST``, else the one on this machine.
        environ: ``DOCKER_TLS_VERIFY`` and ``DOCKER_CERT_PATH`` are the Docker client's own: TLS for every ``tcp://``.

    Raises:
        InputError: One is named twice.
    """
    urls = [_url(one.strip()) for one in asked.split(",") if one.strip()] or [environ.get("DOCKER_HOST") or HERE]
    if len(set(urls)) < len(urls):
        raise InputError(f"an engine is named twice in {asked!r}", hint="name each once")
    folder = None
    if environ.get("DOCKER_TLS_VERIFY"):
        folder = environ.get("DOCKER_CERT_PATH") or os.path.expanduser("~/.docker")  # noqa: PTH111 - as the client does
    return [(url, folder if url.startswith("tcp://") else None) for url in urls]


def nodes(engines: Sequence[tuple[str, str | None]]) -> list[DockerNode]:
    """A node of each engine: with its machine's name, processors and memory. It blocks.

    Raises:
        InputError: One does not answer.
    """
    made: dict[str, DockerNode] = {}
    for url, tls in engines:
        said = _info(url, tls)
        plain = re.sub(r"[^a-z0-9-]+", "-", str(said["Name"]).lower()).strip("-")[:_LONGEST_NAME] or "node"
        numbered = (plain if number == 1 else f"{plain}-{number}" for number in itertools.count(1))
        name = next(one for one in numbered if one not in made)
        capacity = Resources(cpu_m=int(said["NCPU"]) * 1000, memory_mib=int(said["MemTotal"]) >> 20)
        made[name] = DockerNode(name=name, url=url, capacity=capacity, tls=tls)
    return list(made.values())


def _info(url: str, tls: str | None) -> Mapping[str, Any]:
    asked = DockerNode(name="new", url=url, capacity=Resources(), tls=tls)
    host = Host(asked)
    try:
        if not host.ping():
            connect(asked, 10.0).close()  # says why
        said: Mapping[str, Any] = host.client().info()
    except (DockerException, RequestException, OSError) as error:
        raise InputError(
            f"no Docker engine answers at {url}: {error}",
            code="no-engine",
            hint=f"start it, or try `docker --host {url} info`",
        ) from error
    finally:
        host.close()
    return said


def _url(named: str) -> str:
    return named if "://" in named else f"ssh://{named}"
