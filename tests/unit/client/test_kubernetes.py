"""The gateway through the API server of a kube context: what is sent where, and what each failure means."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from tests.harness.https_stub import NAME, Asked, HttpsStub, Keys

from steepest.client import GatewayError, calls
from steepest.client.kubernetes import gateway_of
from steepest.cluster.kubernetes.contexts import KubeContext, read_context
from steepest.errors import InputError
from steepest.events.requests import JobSpec
from steepest.gateway import access

POOLS = b'{"version": "1", "recording": false, "pools": []}'
PROXY = "/api/v1/namespaces/training/services/http:trial-gateway:http/proxy"


def listing(*names: str) -> bytes:
    """A list of objects with these names."""
    return json.dumps({"items": [{"metadata": {"name": name}} for name in names], "metadata": {}}).encode()


def answer(asked: Asked) -> tuple[int, bytes]:
    """As a cluster with one gateway answers."""
    return 200, listing("trial-gateway") if "/services?" in asked.path else POOLS


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """Certificates of one authority."""
    return Keys(tmp_path_factory.mktemp("keys") / "ours")


@pytest.fixture
def server(keys: Keys) -> Iterator[HttpsStub]:
    """An API server."""
    made = HttpsStub(keys, answer)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def context(server: HttpsStub, keys: Keys, tmp_path: Path) -> Callable[..., KubeContext]:
    """Makes a context of it; what is given replaces fields of its cluster or, as ``user``, its credentials."""

    def make(user: dict[str, Any] | None = None, **cluster: object) -> KubeContext:
        trust = {"certificate-authority": str(keys.authority), "tls-server-name": NAME}
        content = {
            "clusters": [{"name": "c", "cluster": {"server": server.address, **trust, **cluster}}],
            "users": [{"name": "u", "user": user or {"token": "kube"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "training"}}],
            "current-context": "x",
        }
        (tmp_path / "config").write_text(json.dumps(content))
        return read_context(files=str(tmp_path / "config"))

    return make


def test_the_gateways_token_travels_beside_the_clusters(server: HttpsStub, context: Callable[..., KubeContext]) -> None:
    """The gateway's goes only where the gateway answers, and is no token of the API server."""
    with gateway_of(context(), "gateway") as gateway:
        gateway.pools()
    found, proxied = server.asked

    assert found.path.startswith("/api/v1/namespaces/training/services?labelSelector=")
    assert proxied.path == f"{PROXY}/api/v1/pools"
    assert [each.headers["authorization"] for each in server.asked] == ["Bearer kube"] * 2
    assert [each.headers.get("steepest-token") for each in server.asked] == [None, "gateway"]


def test_a_certificate_may_say_who_asks(server: HttpsStub, context: Callable[..., KubeContext], keys: Keys) -> None:
    """Then there is no token of the cluster."""
    certificate, key = map(str, keys.client)
    with gateway_of(context({"client-certificate": certificate, "client-key": key}), "gateway") as gateway:
        gateway.pools()

    assert [each.certificate for each in server.asked] == ["client"] * 2
    assert not any("authorization" in each.headers for each in server.asked)


def test_no_token_reaches_a_server_that_another_authority_vouches_for(
    server: HttpsStub, context: Callable[..., KubeContext], tmp_path: Path
) -> None:
    """Nor one whose certificate has another name."""
    other = Keys(tmp_path / "other")
    for wrong in ({"certificate-authority": str(other.authority)}, {"tls-server-name": "other.test"}):
        with pytest.raises(GatewayError, match="certificate verify failed") as refused:
            gateway_of(context(**wrong), "gateway")
        assert refused.value.status == 0

    assert server.asked == []


def test_a_redirection_is_not_followed(server: HttpsStub, context: Callable[..., KubeContext]) -> None:
    """It would take both tokens elsewhere."""
    gateway = gateway_of(context(), "gateway")
    server.location = f"{server.address}/elsewhere"
    server.reply = lambda _: (307, b"")
    with gateway, pytest.raises(GatewayError, match="no answer of a gateway"):
        gateway.pools()

    assert [each.path for each in server.asked if "elsewhere" in each.path] == []


@pytest.mark.parametrize(
    ("names", "code", "hint"),
    [((), "no-gateway", "services.gateway.replicas=1"), (("a", "b"), "many-gateways", "kubectl port-forward")],
)
def test_there_must_be_one_gateway(
    server: HttpsStub, context: Callable[..., KubeContext], names: tuple[str, ...], code: str, hint: str
) -> None:
    """None, or two releases in a namespace: the error says what to do."""
    server.reply = lambda _: (200, listing(*names))
    with pytest.raises(InputError, match="in the namespace training of the context x") as refused:
        gateway_of(context())

    assert (refused.value.code, hint in refused.value.hint) == (code, True)


def _status(code: int, message: str) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "message": message, "code": code}).encode()


@pytest.mark.parametrize(
    ("status", "body", "want", "code", "message"),
    [
        (403, _status(403, "no"), 403, "forbidden", "the API server refuses: no"),
        (401, _status(401, "Unauthorized"), 401, "unauthorized", "does not accept the context's credentials"),
        (503, _status(503, "no endpoints"), 0, "gateway-not-ready", "the gateway is not ready: "),
        (502, _status(502, "refused"), 0, "gateway-not-ready", "the gateway is not ready: "),
        (404, _status(404, 'services "x" not found'), 404, "gateway", 'services "x" not found'),
        (500, _status(500, "x" * 9_999), 500, "gateway", "the API server answers with status 500"),
        (403, b'{"code": "forbidden", "message": "read"}', 403, "forbidden", "read"),
        (500, b"oops", 500, "gateway", "the gateway answers with status 500"),
        (502, b'{"kind": "Pod"}', 502, "gateway", "the gateway answers with status 502"),
    ],
)
def test_each_failure_is_the_gateways_or_the_api_servers(
    status: int, body: bytes, want: int, code: str, message: str
) -> None:
    """A gateway that cannot be reached has not answered, so that who follows it asks again."""
    with pytest.raises(GatewayError) as refused:
        calls.decoded(calls.pools(), status, body)

    assert (refused.value.status, refused.value.code) == (want, code)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 1_000


def test_a_refusal_names_the_right_of_its_request() -> None:
    """The API server asks for another right for each method."""
    hints = []
    submission = calls.submit("a", JobSpec(command=("a",)))
    made: tuple[calls.Call[Any], ...] = (calls.pools(), submission, calls.cancel("a"))
    for call in made:
        with pytest.raises(GatewayError) as refused:
            calls.decoded(call, 403, _status(403, "no"))
        hints.append(refused.value.hint.rpartition(": ")[2])

    assert hints == ["get services/proxy", "create services/proxy", "delete services/proxy"]


def test_the_gateway_takes_its_token_from_either_header() -> None:
    """Its own counts before: what stands in the other one is meant for something on the way."""
    known, own, bearer = "t" * 16, "steepest-token", "authorization"
    grants = access.Grants({known: access.Grant(access.AccessRole.SUBMIT)})

    def role(headers: dict[str, str]) -> access.AccessRole:
        return grants.caller(Headers(headers), "127.0.0.1").role

    assert calls.OWN_HEADER == access.OWN_HEADER
    assert role({}) is access.AccessRole.NONE
    assert role({bearer: f"Bearer {known}"}) is access.AccessRole.SUBMIT
    assert role({own: known, bearer: "Bearer another"}) is access.AccessRole.SUBMIT
    with pytest.raises(access.AccessRefusedError):
        role({own: "another", bearer: f"Bearer {known}"})


def test_a_server_that_is_gone_has_not_answered(server: HttpsStub, context: Callable[..., KubeContext]) -> None:
    """Whether its objects are asked for, or the gateway behind it."""
    where = context()
    gateway = gateway_of(where)
    server.end()
    with gateway, pytest.raises(GatewayError) as behind:
        gateway.pools()
    with pytest.raises(GatewayError, match="no answer from the API server") as before:
        gateway_of(where)

    assert behind.value.status == before.value.status == 0
