"""One Docker engine: its clients, the threads that call it, and what a failed call means.

It owns the way to the engine and must never know replicas. Calls block, so they run on threads of the engine's own: an
engine that hangs holds up nobody but those who ask it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import docker
import msgspec
import requests
import urllib3
from docker.errors import APIError, DockerException, NotFound
from docker.tls import TLSConfig

from steepest.errors import ClusterError, InputError, RefusedError, UncertainError
from steepest.events.common import Name, Resources

_T = TypeVar("_T")
CALLS_AT_ONCE = 8
CALL_S = 30.0
"""Time limit of one call: an engine answers in milliseconds, and in seconds while its disk is busy."""

LOOK_S = 10.0
"""The same for calls that only look."""

PING_S = 5.0
_STREAMS = 4096
SERVER_FAILED = 500
_NOT_SENT = (ConnectionRefusedError, FileNotFoundError, PermissionError, urllib3.exceptions.NewConnectionError)


class DockerNode(msgspec.Struct, frozen=True, kw_only=True):
    """A Docker engine as a node.

    Attributes:
        url: ``unix:///var/run/docker.sock``, ``tcp://host:2376`` or ``ssh://user@host``.
        capacity: What its containers may have together.
        tls: A folder with ``ca.pem``, ``cert.pem`` and ``key.pem``, for ``tcp``; None: no TLS.
    """

    name: Name
    url: str
    capacity: Resources
    tls: str | None = None


class EngineInfo(msgspec.Struct, frozen=True):
    """What an engine says of itself.

    Attributes:
        id: Its own, for as long as it keeps its folder.
        capacity: What its machine has.
        has_bridge: Whether containers get a network of their own.
    """

    id: str
    capacity: Resources
    has_bridge: bool


class Host:
    """An engine. It is connected when first called.

    Attributes:
        is_up: Whether it answered when it was last asked.
        ends_seen: Containers whose end the engine told as it happened, and whose status is 255.
    """

    def __init__(self, node: DockerNode) -> None:
        self.node = node
        self.is_up = False
        self.ends_seen: set[str] = set()
        self._info: EngineInfo | None = None
        self._changing = threading.Lock()
        self._closed = False
        self._pool = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix=f"docker-{node.name}")
        self._clients: dict[float | None, docker.APIClient] = {}

    def __str__(self) -> str:
        return f"the engine of {self.node.name} at {self.node.url}"

    def client(self, timeout_s: float | None = CALL_S) -> docker.APIClient:
        """A client with this limit for each wait on the engine; None: for streams that may be silent. It blocks.

        Raises:
            DockerException, requests.RequestException, OSError: The engine does not answer.
        """
        _knock(self.node.url)
        client = self._clients.get(timeout_s)
        if client is not None:
            return client
        made = connect(self.node, timeout_s)
        with self._changing:
            if not self._closed:
                client = self._clients.setdefault(timeout_s, made)
        if client is not made:  # another thread was faster
            made.close()
        if client is None:
            raise DockerException(f"{self} was let go of")
        return client

    async def run(self, act: Callable[[], _T]) -> _T:
        """Run on one of the engine's threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, act)

    def ping(self) -> bool:
        """Whether the engine answers now. It blocks."""
        try:
            self.client(PING_S).ping()
        except (DockerException, requests.RequestException, OSError):
            self.is_up = False
        else:
            self.is_up = True
        return self.is_up

    def info(self, *, anew: bool = False) -> EngineInfo:
        """What the engine says of itself, asked once unless ``anew``. It blocks.

        Raises:
            UncertainError: It does not answer.
        """
        if self._info is None or anew:
            with self.looking():
                client = self.client(LOOK_S)
                said = client.info()
                memory_mib = int(said["MemTotal"]) >> 20
                self._info = EngineInfo(
                    id=str(said["ID"]),
                    capacity=Resources(cpu_m=int(said["NCPU"]) * 1000, memory_mib=memory_mib),
                    has_bridge=bool(client.networks(names=["bridge"])),
                )
        return self._info

    def close(self) -> None:
        """Let go of it; threads that wait for it end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changing:
            self._closed = True
        for client in self._clients.values():
            with contextlib.suppress(OSError, DockerException):
                client.close()

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """For calls that change nothing: whatever keeps the engine from answering leaves open what is so.

        Raises:
            UncertainError: In place of any failure but ``NotFound``.
        """
        try:
            yield
        except NotFound:
            raise
        except (DockerException, requests.RequestException, OSError) as error:
            raise UncertainError(
                f"{self} does not answer: {_in_words(error)}", code="node-unreachable", hint=f"start {self}"
            ) from error

    @contextlib.contextmanager
    def acting(self, consequence: str) -> Iterator[None]:
        """For calls that change something.

        Raises:
            ClusterError: The engine said no, or was never asked: nothing happened.
            RefusedError: ``node-lost``: there is no engine.
            UncertainError: It may have happened.
        """
        try:
            yield
        except NotFound:
            raise
        except APIError as error:
            kind = UncertainError if status_of(error) >= SERVER_FAILED else ClusterError
            raise kind(f"{consequence}: {self} says: {_in_words(error)}", code="engine-failed") from error
        except (DockerException, requests.RequestException, OSError) as error:
            if _was_not_sent(error):
                raise RefusedError(
                    f"{consequence}: {self} is not there: {_in_words(error)}", code="node-lost", hint=f"start {self}"
                ) from error
            raise UncertainError(
                f"{self} did not answer: {_in_words(error)}", code="node-unreachable", hint="look it up"
            ) from error


class _Client(docker.APIClient):
    """The client, whose authority is the one in the TLS folder also where the environment names another for the web."""

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:  # as the base has it
        """What a request is sent with: ``REQUESTS_CA_BUNDLE`` would come before what the client was made with."""
        return super().merge_environment_settings(url, proxies, stream, self.verify if verify is None else verify, cert)


def connect(node: DockerNode, timeout_s: float | None) -> docker.APIClient:
    """A new client of an engine. It blocks.

    Raises:
        InputError: The address or the TLS folder is none.
        DockerException, requests.RequestException: The engine does not answer.
    """
    if not node.url.startswith(("unix://", "tcp://", "ssh://", "http://", "https://")):
        raise InputError(f"{node.url!r} is no address of an engine", hint="write unix://…, tcp://… or ssh://…")
    tls: Any = False
    if node.tls is not None:
        try:
            tls = TLSConfig(
                client_cert=(f"{node.tls}/cert.pem", f"{node.tls}/key.pem"), ca_cert=f"{node.tls}/ca.pem", verify=True
            )
        except DockerException as error:
            raise InputError(
                f"no TLS for {node.name} with {node.tls}: {error}", hint="put its three files there"
            ) from error
    return _Client(
        base_url=node.url,
        version="auto",
        timeout=timeout_s,  # type: ignore[arg-type] # None waits for ever, as requests has it
        tls=tls,
        use_ssh_client=node.url.startswith("ssh://"),
        max_pool_size=_STREAMS if timeout_s is None else 2 * CALLS_AT_ONCE,
    )


def _knock(url: str) -> None:
    """Find out with a socket of one's own that nobody listens: the client would leave one open.

    Raises:
        OSError: Nobody does.
    """
    if url.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as trial:
            trial.settimeout(PING_S)
            trial.connect(url.removeprefix("unix://"))


def status_of(error: APIError) -> int:
    """The HTTP status of an answer."""
    return int(error.response.status_code) if error.response is not None else SERVER_FAILED


def _was_not_sent(error: BaseException) -> bool:
    """Whether a call failed because nobody took the connection, anywhere in the chain of its causes."""
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, BaseException) or one in seen:
            continue
        if isinstance(one, _NOT_SENT):
            return True
        seen.append(one)
        waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    return False


def _in_words(error: BaseException) -> str:
    said = error.explanation if isinstance(error, APIError) and error.explanation else error
    return str(said)[:500]
