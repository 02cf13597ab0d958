"""One Docker engine: its clients, the threads that call it, and the meaning of a failed call.

It owns the connection to the engine and must never know replicas. Calls block, so each engine has its own threads: an engine
that hangs delays only its own callers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

import docker
import msgspec
import requests
import urllib3
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.tls import TLSConfig

from steepest.errors import ClusterError, InputError, RefusedError, UncertainError
from steepest.events.common import KeeperFacts, Name, Resources
from steepest.logger import Logger

_log = Logger()
_T = TypeVar("_T")
CALLS_AT_ONCE = 8
CALL_S = 30.0
"""Time limit of a call: an engine answers in milliseconds, or in seconds while its disk is busy."""

LOOK_S = 10.0
"""Time limit of a read-only call."""

PING_S = 5.0
_STREAMS = 4096
SERVER_FAILED = 500
_NVIDIA = "nvidia"
_NOT_SENT = (ConnectionRefusedError, FileNotFoundError, PermissionError, urllib3.exceptions.NewConnectionError)

STREAM_FAILED = (
    DockerException,
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    OSError,
    ValueError,
    AttributeError,
)
"""The errors of a stream of an engine. Its client reads some streams without ``requests``, which would wrap these errors."""


class DockerNode(msgspec.Struct, frozen=True, kw_only=True):
    """A Docker engine as a node.

    Attributes:
        url: ``unix:///var/run/docker.sock``, ``tcp://host:2376`` or ``ssh://user@host``.
        capacity: The total that its containers may use.
        tls: A folder with ``ca.pem``, ``cert.pem`` and ``key.pem``, for ``tcp``; None: no TLS.
    """

    name: Name
    url: str
    capacity: Resources
    tls: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether the engine is on this machine."""
        return self.url.startswith("unix:")


class EngineInfo(msgspec.Struct, frozen=True):
    """An engine's description of itself.

    Attributes:
        id: Its id, which is stable as long as it keeps its data folder.
        capacity: The machine's resources.
        has_bridge: Whether it has the default bridge network.
        has_gpu_runtime: Whether it can give containers NVIDIA's GPUs.
        version: Its major version; 0: it does not say.
    """

    id: str
    capacity: Resources
    has_bridge: bool
    has_gpu_runtime: bool = False
    version: int = 0


class Host:
    """An engine. It connects with the first call.

    Attributes:
        is_up: Whether it answered the last ping.
        keeper: What an image of its containers depends on, as far as it says that; None: it has not answered yet.
        seen_since: From when on it has surely not been started again, in seconds of its own clock; None: it is away.
    """

    def __init__(self, node: DockerNode) -> None:
        self.node = node
        self.is_up = False
        self.keeper: KeeperFacts | None = None
        self.seen_since: float | None = None
        self._info: EngineInfo | None = None
        self._changing = threading.Lock()
        self._closed = False
        self._pool = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix=f"docker-{node.name}")
        self._clients: dict[float | None, docker.APIClient] = {}

    def __str__(self) -> str:
        return f"the engine of {self.node.name} at {self.node.url}"

    def client(self, timeout_s: float | None = CALL_S) -> docker.APIClient:
        """A client with this timeout for each read; None: no timeout, for streams that may be silent. It blocks.

        Raises:
            DockerException, requests.RequestException, OSError: The engine does not answer.
        """
        _check_listens(self.node.url)
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
            raise DockerException(f"{self} was closed")
        return client

    async def run(self, act: Callable[[], _T]) -> _T:
        """Run on one of the engine's threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, act)

    def ping(self) -> bool:
        """Whether the engine answers now. It blocks, over SSH for as long as the connection takes to break."""
        try:
            self.client(PING_S).ping()
            if self.seen_since is None:
                self._info = None  # another engine may answer in its place
                self.seen_since = self.now_s()
        except Exception as error:  # noqa: BLE001 - what answers may be no engine
            _log.debug("no engine", engine=str(self), why=repr(error))
            self.lose()
        else:
            self.is_up = True
        return self.is_up

    def lose(self) -> None:
        """It does not answer."""
        self.is_up, self.seen_since = False, None

    def info(self, *, refresh: bool = False) -> EngineInfo:
        """The engine's description, which is cached unless ``refresh``. It blocks.

        Raises:
            UncertainError: The engine does not answer.
        """
        known = None if refresh else self._info
        if known is None:
            with self.looking():
                client = self.client(LOOK_S)
                info = client.info()
                memory_mib = int(info["MemTotal"]) >> 20
                major = str(info.get("ServerVersion")).partition(".")[0]
                self._info = known = EngineInfo(
                    id=str(info["ID"]),
                    capacity=Resources(cpu_m=int(info["NCPU"]) * 1000, memory_mib=memory_mib),
                    has_bridge=bool(client.networks(names=["bridge"])),
                    has_gpu_runtime=_NVIDIA in (info.get("Runtimes") or {}),
                    version=int(major) if major.isdecimal() else 0,
                )
        return known

    def now_s(self) -> float:
        """The time by the engine's own clock, in seconds since 1970. It blocks, and raises what the client does."""
        info = self.client(LOOK_S).info()
        kernel = ".".join(str(info.get("KernelVersion", "")).split(".")[:2])
        self.keeper = KeeperFacts(machine=str(info.get("Architecture", "")), kernel=kernel)
        return datetime.fromisoformat(info["SystemTime"]).timestamp()

    def layers(self, image: str) -> str:
        """A digest of the layers that a container of an image would have now; empty: there is no such image. It blocks.

        Raises:
            UncertainError: The engine does not answer.
        """
        try:
            with self.looking():
                return layers_of(self.client(LOOK_S).inspect_image(image))
        except ImageNotFound:
            return ""

    def outlived(self, container: str) -> bool:
        """Whether the engine surely runs on since a container ended. It blocks, and raises what the client does.

        An engine ends its containers when it stops, while it accepts no connection, and those that its predecessor left
        when it starts, before it answers anybody; and it forgets its events, of which it keeps the last 256.
        """
        with contextlib.closing(connect(self.node, LOOK_S)) as client:  # one that was there before proves nothing
            if self.seen_since is None:
                return False
            since: Any = f"{self.seen_since:.6f}"
            ends = {"container": container, "event": "die"}
            until = int(self.now_s()) + 1
            with closed_at_the_end(client.events(since=since, until=until, filters=ends, decode=True)) as found:
                return any(found)

    def close(self) -> None:
        """Close the clients; threads that wait for the engine end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changing:
            self._closed = True
        for client in self._clients.values():
            with contextlib.suppress(OSError, DockerException):
                client.close()

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Wrap a read-only call: if the engine does not answer, the state is unknown.

        Raises:
            UncertainError: In place of any failure except ``NotFound``.
        """
        try:
            yield
        except NotFound:
            raise
        except (DockerException, requests.RequestException, OSError) as error:
            raise UncertainError(
                f"{self} does not answer: {_message_of(error)}", code="node-unreachable", hint=f"start {self}"
            ) from error

    @contextlib.contextmanager
    def acting(self, consequence: str) -> Iterator[None]:
        """Wrap a call that changes something.

        Raises:
            ClusterError: The engine refused, or the request was not sent: nothing happened.
            RefusedError: ``node-lost``: no engine listens.
            UncertainError: It may have happened.
        """
        try:
            yield
        except NotFound:
            raise
        except APIError as error:
            kind = UncertainError if status_of(error) >= SERVER_FAILED else ClusterError
            raise kind(f"{consequence}: {self} reports: {_message_of(error)}", code="engine-failed") from error
        except (DockerException, requests.RequestException, OSError) as error:
            if _was_not_sent(error):
                raise RefusedError(
                    f"{consequence}: {self} is not running: {_message_of(error)}",
                    code="node-lost",
                    hint=f"start {self}",
                ) from error
            raise UncertainError(
                f"{self} did not answer: {_message_of(error)}", code="node-unreachable", hint="look it up"
            ) from error


class _Client(docker.APIClient):
    """A client that verifies with the TLS folder's authority even if the environment names another one for HTTPS."""

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:  # as the base has it
        """Settings of a request. Without this, ``REQUESTS_CA_BUNDLE`` would override the client's own authority."""
        return super().merge_environment_settings(url, proxies, stream, self.verify if verify is None else verify, cert)


@contextlib.contextmanager
def closed_at_the_end(stream: Any) -> Iterator[Any]:
    """A stream of an engine, of which the reader closes the connection; the library leaves that to the garbage collector."""
    try:
        yield stream
    finally:
        stream._response.close()  # noqa: SLF001 - its ``close`` is for another thread, and leaves the connection open


def connect(node: DockerNode, timeout_s: float | None) -> docker.APIClient:
    """A new client of an engine. It blocks.

    Raises:
        InputError: The address or the TLS folder is invalid.
        DockerException, requests.RequestException: The engine does not answer.
    """
    if not node.url.startswith(("unix://", "tcp://", "ssh://", "http://", "https://")):
        raise InputError(f"{node.url!r} is not the address of an engine", hint="write unix://…, tcp://… or ssh://…")
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
        timeout=timeout_s,  # type: ignore[arg-type] # None: no timeout, as in requests
        tls=tls,
        use_ssh_client=node.url.startswith("ssh://"),
        max_pool_size=_STREAMS if timeout_s is None else 2 * CALLS_AT_ONCE,
    )


def _check_listens(url: str) -> None:
    """Check that a Unix socket has a listener. The client does not close its socket when the connection fails.

    Raises:
        OSError: Nothing listens.
    """
    if url.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as trial:
            trial.settimeout(PING_S)
            trial.connect(url.removeprefix("unix://"))


def layers_of(image: Mapping[str, Any]) -> str:
    """A digest of the layers of an image, as ``docker inspect`` describes it."""
    return hashlib.sha256("\n".join(image["RootFS"]["Layers"]).encode()).hexdigest()


def status_of(error: APIError) -> int:
    """The HTTP status of an answer."""
    return int(error.response.status_code) if error.response is not None else SERVER_FAILED


def _was_not_sent(error: BaseException) -> bool:
    """Whether a call failed because the connection was not accepted: searches the chain of its causes."""
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


def _message_of(error: BaseException) -> str:
    message = error.explanation if isinstance(error, APIError) and error.explanation else error
    return str(message)[:500]
