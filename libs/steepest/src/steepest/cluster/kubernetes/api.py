"""Requests to the API server: what each failure means, and how long to wait.

It owns the connection, and the rule which failures certainly had no effect. It must never know jobs. The client
(kubernetes-asyncio) brings configuration, authentication and transport; answers are decoded here, because the adapter reads
few of their fields.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config

from steepest.errors import ClusterError, InputError, RefusedError, UncertainError

_T = TypeVar("_T")

CALL_S = 15.0
"""The limit of a request; the API server's own is longer, and a saga tries again."""

MERGE = "application/strategic-merge-patch+json"
JSON_MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
NOT_FOUND = 404
_UNKNOWN_CALLER = 401
_FORBIDDEN = 403
_NO_RIGHT = re.compile('User ".*" cannot ')
"""So a missing right is said. A quota, a policy, a webhook or an ending namespace refuses what was asked with 403 too."""

CONFLICT = 409
GONE = 410
INVALID = 422
TOO_MANY = 429
_SERVER_FAILED = 500
REQUESTS_AT_ONCE = 64
"""Requests of one client that are under way together; others wait for their turn, and their limit of time begins with it."""

_TRIES = 6
_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_LONGEST_NAMED_S = 30.0
"""The longest pause that the API server can ask for: who waits for a request holds its job's lock meanwhile."""

_BYTES_MOST = 64 << 20
_MESSAGE_BYTES = 4096


class AnswerError(ClusterError):
    """The API server refused a request: nothing happened.

    Attributes:
        status: The HTTP status.
    """

    code = "api-refused"

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Refusal(msgspec.Struct):
    message: str = ""


class KubernetesApi:
    """The API server of one cluster. It connects with the first request.

    Args:
        kubeconfig: The file that says where it is; None: the pod's service account, or the user's default file.
        context: The context in that file; None: the current one.
    """

    def __init__(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._opening = asyncio.Lock()
        self._turns = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._client: ApiClient | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Close all connections; later requests are refused, as nothing would close what they open."""
        self._is_closed = True
        async with self._opening:
            client, self._client = self._client, None
        if client is not None:
            await client.close()
            await asyncio.sleep(0)  # a connection that was cut is closed in the loop's next round

    async def get(self, path: str, kind: type[_T], query: Mapping[str, str] | None = None) -> _T:
        """Read an object or a list.

        Raises:
            AnswerError: The server refused, or there is none (404).
            UncertainError: It does not answer.
        """
        return _decoded(path, await self.request("GET", path, query=query), kind)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content: str = "application/json",
        timeout_s: float = CALL_S,
        server: str | None = None,
    ) -> bytes:
        """Send a request; one that the server postpones (429) is sent again after the time that it names, 30 s at most.

        ``server``: to a kubelet of the cluster, as ``https://ADDRESS:PORT``, which the same authority vouches for.

        Raises:
            AnswerError: The server refused it.
            ClusterError: It was not sent.
            UncertainError: It may have taken effect.
        """
        for tries_left in reversed(range(_TRIES)):
            async with (
                self._turns,
                self._sent(method, path, query, body, content, timeout_s=timeout_s, server=server) as answer,
            ):
                if answer.status < 300:  # noqa: PLR2004 - HTTP
                    return await _whole(answer)
                if answer.status != TOO_MANY or not tries_left:
                    raise _refused(method, path, answer.status, await answer.content.read(_MESSAGE_BYTES))
                pause_s = _pause_s(answer.headers.get("Retry-After"), _TRIES - tries_left)
            await asyncio.sleep(pause_s)
        raise AssertionError("unreachable")

    async def merge(self, path: str, change: object) -> bool:
        """Apply a merge patch (RFC 7386) that names a UID; False: nothing is there, or another object has its name now.

        Raises:
            AnswerError: The server refused it for another reason.
            ClusterError: It was not sent.
            UncertainError: It may have taken effect.
        """
        try:
            await self.request("PATCH", path, body=change, content=JSON_MERGE)
        except AnswerError as error:
            if error.status in {NOT_FOUND, CONFLICT}:
                return False
            raise
        return True

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], *, silent_s: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """A body that goes on: a watch, or a log that is followed.

        Raises:
            AnswerError: The server refused.
            UncertainError: It does not answer, or is silent for longer than ``silent_s`` seconds.
        """
        async with self._sent("GET", path, query, silent_s=silent_s) as answer:
            if answer.status >= 300:  # noqa: PLR2004 - HTTP
                raise _refused("GET", path, answer.status, await answer.content.read(_MESSAGE_BYTES))
            yield answer.content

    @contextlib.asynccontextmanager
    async def _sent(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: object = None,
        content: str = "application/json",
        *,
        timeout_s: float | None = None,
        silent_s: float | None = None,
        server: str | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        client = await self._open()
        if client is None:
            error = UncertainError if method == "GET" else ClusterError
            raise error(f"{method} {path} was not sent: the connection was closed", code="no-api-server")
        limit = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CALL_S, sock_read=silent_s)
        answer: aiohttp.ClientResponse | None = None
        try:
            answer = await client.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": content},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=limit,
                _host=server,
            )
            yield answer
        except aiohttp.ClientConnectorError as error:
            if answer is None and method != "GET":
                raise ClusterError(f"the API server cannot be reached: {error}", code="no-api-server") from error
            raise UncertainError(f"the API server cannot be reached: {error}", code="no-api-server") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UncertainError(f"{method} {path} has no answer: {error!r}", code="no-api-server") from error
        finally:
            if answer is not None:
                _end(answer)

    async def _open(self) -> ApiClient | None:
        """The client; None once it was closed."""
        async with self._opening:
            if self._client is None and not self._is_closed:
                configuration = Configuration()
                try:
                    if self._kubeconfig is None and _in_cluster():
                        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
                    else:
                        await load_kube_config(
                            config_file=str(self._kubeconfig) if self._kubeconfig else None,
                            context=self._context,
                            client_configuration=configuration,
                            persist_config=False,
                        )
                except (ConfigException, OSError, ValueError, TypeError) as error:
                    raise InputError(
                        f"no cluster is configured: {error}", code="no-kubeconfig", hint="set KUBECONFIG"
                    ) from error
                configuration.connection_pool_maxsize = 0  # a watch or a followed log holds its connection
                self._client = ApiClient(configuration)
            return self._client


def _end(answer: aiohttp.ClientResponse) -> None:
    """Cut a body that goes on: a farewell of TLS would need the server, which may not answer."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
    answer.close()


def _in_cluster() -> bool:
    return Path("/var/run/secrets/kubernetes.io/serviceaccount/token").exists()


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    found = bytearray()
    async for chunk in answer.content.iter_any():
        found += chunk
        if len(found) > _BYTES_MOST:
            raise UncertainError(f"the answer of {answer.url.path} is longer than {_BYTES_MOST} bytes", code="too-long")
    return bytes(found)


def _pause_s(named: str | None, tries: int) -> float:
    if named is not None and named.isdecimal():
        return min(float(named), _LONGEST_NAMED_S)
    return min(_PAUSE_S * 2.0**tries, _LONGEST_PAUSE_S)


def _refused(method: str, path: str, status: int, body: bytes) -> ClusterError:
    message = body.decode(errors="replace")
    with contextlib.suppress(msgspec.DecodeError):
        message = msgspec.json.decode(body, type=_Refusal).message or message
    text = f"{method} {path}: {status} {message[:500]}"
    if status >= _SERVER_FAILED:
        return UncertainError(text, code="api-failed")
    if status == _UNKNOWN_CALLER or (status == _FORBIDDEN and _NO_RIGHT.search(message)):
        return RefusedError(text, code="forbidden", hint="give the service account the rights in docs/kubernetes.md")
    return AnswerError(text, status)


def _decoded(path: str, body: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise UncertainError(f"the answer of {path} cannot be read: {error}", code="api-failed") from error
