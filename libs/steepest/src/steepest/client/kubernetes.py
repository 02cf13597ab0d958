"""The gateway of an installation in a cluster, through the API server of a kube context.

::

    from steepest.client.kubernetes import gateway_of
    from steepest.cluster.kubernetes.contexts import read_context

    with gateway_of(read_context("CONTEXT/NAMESPACE"), token="…") as pool:
        print(pool.jobs())

It owns how the gateway is found. The gateway's token travels in a header of its
own, because the API server takes ``Authorization``. It needs the extras ``client`` and ``kubernetes``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import httpx2
import msgspec

from steepest.client import calls
from steepest.client.calls import GatewayError
from steepest.client.synchronous import Client
from steepest.cluster.kubernetes.contexts import KubeContext
from steepest.cluster.kubernetes.objects import ClusterObject, Listing
from steepest.errors import InputError

LABELS = "app.kubernetes.io/name=steepest,app.kubernetes.io/component=gateway"
"""Of the gateway's Service, as the chart makes it."""

PORT = "http"
"""The name of that Service's port, by which the API server knows it."""


def gateway_of(context: KubeContext, token: str = "") -> Client:
    """The client of the gateway in a context's namespace.

    Args:
        context: Whose server's certificate is verified.
        token: What the gateway knows its caller by; empty: nothing.

    Raises:
        InputError: There is no gateway there, or more than one.
        GatewayError: The API server refuses, or does not answer.
    """
    services = f"{context.server}/api/v1/namespaces/{context.namespace}/services"
    found = _listed(context, services)
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
    return Client(f"{services}/http:{found[0].metadata.name}:{PORT}/proxy", http=http)


def _listed(context: KubeContext, services: str) -> Sequence[ClusterObject]:
    """The gateways' Services, as the API server has them."""
    with _connection(context, calls.headers_beside(context.authorization, "")) as http:
        try:
            answer = http.get(services, params={"labelSelector": LABELS})
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            raise GatewayError(
                f"no answer from the API server {context.server}: {why}", hint="kubectl cluster-info"
            ) from error
    status = answer.status_code
    if status != httpx2.codes.OK:
        refusal = calls.refusal_of("list services", status, answer.content)
        raise refusal or GatewayError(f"the API server answers with status {status}", status=status)
    try:
        return msgspec.json.decode(answer.content, type=Listing[ClusterObject]).items
    except msgspec.DecodeError as error:
        raise GatewayError(f"this is no answer of an API server: {error}", status=status) from error


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
