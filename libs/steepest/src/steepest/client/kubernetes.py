"""The gateway of an installation in a cluster, and what its jobs print, through the API server of a kube context.

::

    from steepest.client.kubernetes import gateway_of
    from steepest.cluster.kubernetes.contexts import read_context

    with gateway_of(read_context("CONTEXT/NAMESPACE"), token="…") as pool:
        print(pool.jobs())

It owns how the gateway is found, and what is asked of the API server itself. The gateway's token travels in a header of its
own, because the API server takes ``Authorization``. It needs the extras ``client`` and ``kubernetes``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self, TypeVar

import httpx2
import msgspec

from steepest.client import calls
from steepest.client.calls import GatewayError
from steepest.client.synchronous import Client
from steepest.cluster.folders.printed import LINE_BYTES, in_words
from steepest.cluster.kubernetes.contexts import KubeContext
from steepest.cluster.kubernetes.manifest import CLUSTER, INCARNATION, REPLICA, VARIABLE
from steepest.cluster.kubernetes.objects import ClusterObject, Listing, MetadataListing, Pod
from steepest.errors import InputError

LABELS = "app.kubernetes.io/name=steepest,app.kubernetes.io/component=gateway"
"""Of the gateway's Service, as the chart makes it."""

PORT = "http"
"""The name of that Service's port, by which the API server knows it."""

LOOK_EVERY_S = 1.0
ENDED_S = 15.0
"""A kubelet says within some seconds that a container has ended, after its output has."""

_SILENT_S = 3600.0
_PAGE = 500
_LABELS_ALONE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_ANSWER_MOST = 4096
_JOB = f"{VARIABLE}STEEPEST_JOB"
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)

_T = TypeVar("_T")


def gateway_of(context: KubeContext, token: str = "") -> Client:
    """The client of the gateway in a context's namespace.

    Args:
        context: Whose server's certificate is verified.
        token: What the gateway knows its caller by; empty: nothing.

    Raises:
        InputError: There is no gateway there, or more than one.
        GatewayError: The API server refuses, or does not answer.
    """
    with _ContextServer(context) as server:
        query = {"labelSelector": LABELS}
        found = server.get(f"{server.namespace}/services", Listing[ClusterObject], "list services", query).items
        path = f"{context.server}{server.namespace}"
    where = f"in the namespace {context.namespace} of the context {context.name}"
    if not found:
        raise InputError(
            f"there is no gateway of Steepest {where}",
            code="no-gateway",
            hint="name another one: kube:CONTEXT/NAMESPACE, or install the chart there with services.gateway.replicas=1",
        )
    if len(found) > 1:
        names = ", ".join(sorted(each.metadata.name for each in found))
        raise InputError(
            f"there are {len(found)} gateways {where}: {names}",
            code="many-gateways",
            hint="kubectl port-forward service/NAME 8080:80, and --server http://127.0.0.1:8080",
        )
    http = _connection(context, calls.headers_beside(context.authorization, token))
    return Client(f"{path}/services/http:{found[0].metadata.name}:{PORT}/proxy", http=http)


class PodLogs:
    """What jobs print, as far as the nodes keep it of their pods: a pod is removed when its job moves or is suspended."""

    def __init__(self, context: KubeContext) -> None:
        """Nothing is sent yet. ``context``: where the jobs run."""
        self._server = _ContextServer(context)
        self._path = f"{self._server.namespace}/pods"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def pods(self, job: str, replica: int) -> Mapping[int, str]:
        """The pods of a replica that have a place, by their incarnations.

        Raises:
            GatewayError: The API server refuses, or does not answer.
        """
        query = {"labelSelector": f"{CLUSTER},{REPLICA}={replica}", "limit": str(_PAGE)}
        found: dict[int, str] = {}
        while True:
            page = self._server.get(self._path, MetadataListing, "list pods", query, accept=_LABELS_ALONE)
            for metadata in (each.metadata for each in page.items or ()):
                number = metadata.annotations.get(INCARNATION, "")
                if metadata.annotations.get(_JOB) == job and _NUMBER.fullmatch(number):
                    found[int(number)] = metadata.name
            if not page.metadata.continue_:
                return found
            query["continue"] = page.metadata.continue_

    def printed(self, pod: str, lines: int | None, *, follow: bool) -> Iterator[str]:
        """A pod's last lines, and with ``follow`` those that come until its container ends; None: all of them.

        A pod that has not started, or is gone, has none.

        Raises:
            GatewayError: The API server refuses, or does not answer; or the lines break off.
        """
        found = self._pod(pod)
        if found is not None and _has_begun(found):
            yield from self._output(found, lines, follow=follow)

    def followed(
        self, job: str, replica: int, *, incarnation: int | None, lines: int | None, is_over: Callable[[], bool]
    ) -> Iterator[tuple[int, str]]:
        """What a job printed last and what it prints until it is over, wherever it moves, each with its incarnation.

        Args:
            job: The job.
            replica: Its process, by its rank.
            incarnation: Only this one; None: the newest, and those after it.
            lines: With how many of its last lines the first incarnation begins; None: with all.
            is_over: Whether the job is over.

        Raises:
            GatewayError: The API server refuses, or does not answer; or the lines break off.
        """
        shown, last = 0, lines if lines is None else max(lines, 0)
        while True:
            over = is_over()  # asked first: the pods of a job that is over are all there are
            pods = self.pods(job, replica)
            later = [number for number in pods if number > shown and incarnation in {None, number}]
            number = (min if shown else max)(later, default=0)
            found = self._pod(pods[number]) if number else None
            if found is None or not _has_begun(found):
                if over:
                    return
                time.sleep(LOOK_EVERY_S)
                continue
            for line in self._output(found, last, follow=True):
                yield number, line
            self._refuse_unless_ended(found.metadata.name)
            if incarnation is not None:
                return
            shown, last = number, None

    def close(self) -> None:
        """Close its connections."""
        self._server.close()

    def _output(self, pod: Pod, lines: int | None, *, follow: bool) -> Iterator[str]:
        query = {"container": pod.container, "follow": str(follow).lower()}
        if lines is not None:
            query["tailLines"] = str(lines)
        try:
            with self._server.stream(f"{self._path}/{pod.metadata.name}/log", query, "get pods/log") as chunks:
                yield from _lines(chunks)
        except GatewayError as error:
            if error.status != httpx2.codes.NOT_FOUND:  # it was removed just now
                raise

    def _refuse_unless_ended(self, name: str) -> None:
        """Return once a pod's container has ended. A kubelet that goes away ends the lines as if the container had.

        Raises:
            GatewayError: It has not.
        """
        deadline = time.monotonic() + ENDED_S
        while (pod := self._pod(name)) is not None and pod.state.running is not None:
            if time.monotonic() > deadline:
                raise calls.broken_off(str(self._server))
            time.sleep(LOOK_EVERY_S)

    def _pod(self, name: str) -> Pod | None:
        try:
            return self._server.get(f"{self._path}/{name}", Pod, "get pods")
        except GatewayError as error:
            if error.status == httpx2.codes.NOT_FOUND:
                return None
            raise


def _has_begun(pod: Pod) -> bool:
    return pod.state.running is not None or pod.state.terminated is not None


class _ContextServer:
    """The API server, asked for its own objects."""

    def __init__(self, context: KubeContext) -> None:
        self._address = context.server
        self._http = _connection(context, calls.headers_beside(context.authorization, ""))
        self.namespace = f"/api/v1/namespaces/{context.namespace}"

    def __str__(self) -> str:
        return self._address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def get(
        self, path: str, kind: type[_T], right: str, query: Mapping[str, str] | None = None, *, accept: str = ""
    ) -> _T:
        """Read an object or a list, for which one needs a right."""
        headers = {"accept": accept} if accept else {}
        try:
            answer = self._http.get(f"{self._address}{path}", params=dict(query or {}), headers=headers)
        except httpx2.HTTPError as error:
            raise self._unreached(error) from error
        if answer.status_code != httpx2.codes.OK:
            raise self._refused(right, answer.status_code, answer.content)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.DecodeError as error:
            raise GatewayError(f"this is no answer of an API server: {error}", status=answer.status_code) from error

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str], right: str) -> Iterator[Iterator[bytes]]:
        """A body that goes on."""
        limit = httpx2.Timeout(calls.TIMEOUT_S, read=_SILENT_S)
        try:
            with self._http.stream(
                "GET", f"{self._address}{path}", params=dict(query), headers={"accept": "*/*"}, timeout=limit
            ) as answer:
                if answer.status_code != httpx2.codes.OK:
                    raise self._refused(right, answer.status_code, answer.read()[:_ANSWER_MOST])
                yield answer.iter_bytes()
        except httpx2.HTTPError as error:
            raise self._unreached(error) from error

    def _refused(self, right: str, status: int, data: bytes) -> GatewayError:
        found = calls.refusal_of(right, status, data)
        return found or GatewayError(f"the API server answers with status {status}", status=status)

    def _unreached(self, error: Exception) -> GatewayError:
        why = str(error) or type(error).__name__
        return GatewayError(f"no answer from the API server {self._address}: {why}", hint="kubectl cluster-info")


def _connection(context: KubeContext, headers: Mapping[str, str]) -> httpx2.Client:
    """What sends to the API server; it follows no redirection, so that no credential goes elsewhere.

    Raises:
        InputError: The context's proxy is none.
    """

    def name_the_server(request: httpx2.Request) -> None:
        request.extensions = {**request.extensions, "sni_hostname": context.server_name}

    try:
        return httpx2.Client(
            headers=dict(headers),
            timeout=calls.TIMEOUT_S,
            verify=context.tls,
            proxy=context.proxy or None,
            follow_redirects=False,
            event_hooks={"request": [name_the_server]} if context.server_name else {},
        )
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        raise InputError(f"the proxy of the context {context.name} cannot be used: {error}") from error


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Lines as a terminal would leave them, within bounds, also one that has no end."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from map(in_words, whole)
        if len(rest) > LINE_BYTES:
            yield in_words(rest)
            rest = b""
    if rest:
        yield in_words(rest)
