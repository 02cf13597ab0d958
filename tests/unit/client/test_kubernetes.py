"""The gateway through the API server of a kube context: what is sent where, and what each failure means."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from tests.harness.https_stub import NAME, Asked, HttpsStub, Keys

from steepest.client import GatewayError, calls, kubernetes
from steepest.client.kubernetes import PodLogs, gateway_of
from steepest.cluster.kubernetes.contexts import KubeContext, read_context
from steepest.errors import InputError
from steepest.events.requests import JobSpec
from steepest.gateway import access

POOLS = b'{"version": "1", "recording": false, "pools": []}'
PROXY = "/api/v1/namespaces/training/services/http:trial-gateway:http/proxy"
PODS = "/api/v1/namespaces/training/pods"


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
    grants = access.Grants({known: access.AccessRole.SUBMIT})

    def role(headers: dict[str, str]) -> access.AccessRole:
        return grants.caller(Headers(headers), "127.0.0.1").role

    assert calls.OWN_HEADER == access.OWN_HEADER
    assert role({}) is access.AccessRole.NONE
    assert role({bearer: f"Bearer {known}"}) is access.AccessRole.SUBMIT
    assert role({own: known, bearer: "Bearer another"}) is access.AccessRole.SUBMIT
    with pytest.raises(access.AccessRefusedError):
        role({own: "another", bearer: f"Bearer {known}"})


# --- what jobs print -----------------------------------------------------------------------------------------------------


def pod(name: str, job: str, incarnation: str) -> dict[str, Any]:
    """A pod's labels and annotations."""
    named = {"variable.steepest.dev/STEEPEST_JOB": job, "steepest.dev/incarnation": incarnation}
    return {"metadata": {"name": name, "annotations": named}}


class Cluster:
    """Pods of an API server: their states in turn, and their output."""

    def __init__(self, server: HttpsStub, *pages: list[dict[str, Any]] | None) -> None:
        self.pages = pages
        self.states: dict[str, Iterator[str]] = {}
        self.printed: dict[str, bytes] = {}
        server.reply = self.reply

    def reply(self, asked: Asked) -> tuple[int, bytes]:
        """Answer."""
        path, _, query = asked.path.partition("?")
        if path == PODS:
            page = int(query.rpartition("continue=")[2]) if "continue=" in query else 0
            more = {"continue": str(page + 1)} if page + 1 < len(self.pages) else {}
            return 200, json.dumps({"items": self.pages[page], "metadata": more}).encode()
        name = path.removeprefix(f"{PODS}/").removesuffix("/log")
        if path.endswith("/log"):
            return (200, self.printed[name]) if name in self.printed else (404, _status(404, "gone"))
        state = next(self.states[name])
        if state == "gone":
            return 404, _status(404, "gone")
        status = {
            "containerStatuses": [{"name": "train", "state": {state: {"exitCode": 0} if state == "terminated" else {}}}]
        }
        spec = {"containers": [{"name": "train"}]}
        return 200, json.dumps({"metadata": {"name": name}, "spec": spec, "status": status}).encode()


@pytest.fixture
def logs(context: Callable[..., KubeContext], monkeypatch: pytest.MonkeyPatch) -> Iterator[PodLogs]:
    """Looks again without a pause."""
    monkeypatch.setattr(kubernetes, "LOOK_EVERY_S", 0.0)
    with PodLogs(context()) as made:
        yield made


def test_pods_are_those_of_the_job(server: HttpsStub, logs: PodLogs) -> None:
    """All pages are read; a pod whose annotation is no incarnation is left out."""
    hostile = [pod(f"p{n}", "a", text) for n, text in enumerate(("", "0", "-1", "٣", "9" * 5_000, "1e3", "2\n"))]
    Cluster(server, [pod("a-1", "a", "1"), pod("b-1", "b", "7")], [*hostile, pod("a-2", "a", "2")])

    assert logs.pods("a", 0) == {1: "a-1", 2: "a-2"}
    assert "steepest.dev%2Freplica%3D0" in server.asked[0].path


def test_no_pods_may_be_null(server: HttpsStub, logs: PodLogs) -> None:
    """An API server that is asked for metadata alone answers null where it has none."""
    Cluster(server, None)

    assert logs.pods("a", 0) == {}


def test_what_a_pod_prints_is_bounded_text(server: HttpsStub, logs: PodLogs) -> None:
    """One line of a megabyte is cut, bytes that are no text are replaced, and the last line needs no end."""
    cluster = Cluster(server)
    cluster.states["a-1"] = itertools.repeat("running")
    cluster.printed["a-1"] = b"one\r\n\xff\n" + b"x" * 2**20 + b"\nlast"
    lines = list(logs.printed("a-1", 7, follow=False))

    assert lines[:2] == ["one", "�"]
    assert lines[-1] == "last"
    assert max(map(len, lines)) <= 2_001
    assert server.asked[-1].path == f"{PODS}/a-1/log?container=train&follow=false&tailLines=7"


def test_a_pod_that_has_not_begun_has_printed_nothing(server: HttpsStub, logs: PodLogs) -> None:
    """Nor has one that is gone."""
    cluster = Cluster(server)
    cluster.states |= {"a-1": iter(["waiting"]), "a-2": iter(["gone"]), "removed-since": iter(["running"])}

    assert [list(logs.printed(each, None, follow=False)) for each in cluster.states] == [[], [], []]


def test_lines_are_followed_from_pod_to_pod_until_the_job_is_over(server: HttpsStub, logs: PodLogs) -> None:
    """The next pod is waited for, and all of its lines are shown."""
    cluster = Cluster(server, [pod("a-1", "a", "1"), pod("a-2", "a", "2")])
    cluster.states |= {
        "a-1": iter(["running", "running", "terminated"]),
        "a-2": iter(["waiting", "running", "terminated"]),
    }
    cluster.printed |= {"a-1": b"one\n", "a-2": b"two\nthree\n"}
    over = iter([False, False, False, True])
    del cluster
    first = logs.pods("a", 0)
    rows = list(logs.followed("a", 0, incarnation=None, lines=5, is_over=lambda: next(over)))

    assert len(first) == 2
    assert rows == [(2, "two"), (2, "three")]


def test_the_next_pod_is_shown_from_its_first_line(server: HttpsStub, logs: PodLogs) -> None:
    """Only of the first one are its last lines asked for."""
    cluster = Cluster(server, [pod("a-1", "a", "1")])
    cluster.states |= {"a-1": iter(["running", "terminated"]), "a-2": iter(["running", "gone"])}
    cluster.printed |= {"a-1": b"one\n", "a-2": b"two\nthree\n"}
    looks = 0

    def is_over() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:
            cluster.pages = ([pod("a-1", "a", "1"), pod("a-2", "a", "2")],)
        return looks > 2

    rows = list(logs.followed("a", 0, incarnation=None, lines=5, is_over=is_over))
    asked = [each.path.partition("?")[2] for each in server.asked if "/log?" in each.path]

    assert rows == [(1, "one"), (2, "two"), (2, "three")]
    assert asked == ["container=train&follow=true&tailLines=5", "container=train&follow=true"]


def test_one_incarnation_is_followed_to_its_end(server: HttpsStub, logs: PodLogs) -> None:
    """Its successor is left out."""
    cluster = Cluster(server, [pod("a-1", "a", "1"), pod("a-2", "a", "2")])
    cluster.states["a-1"] = iter(["running", "terminated"])
    cluster.printed["a-1"] = b"one\n"

    assert list(logs.followed("a", 0, incarnation=1, lines=5, is_over=lambda: False)) == [(1, "one")]


def test_lines_that_end_before_their_container_are_an_error(
    server: HttpsStub, logs: PodLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet that restarts ends them like a container that ends, and then more would come."""
    monkeypatch.setattr(kubernetes, "ENDED_S", 0.0)
    cluster = Cluster(server, [pod("a-1", "a", "1")])
    cluster.states["a-1"] = itertools.repeat("running")
    cluster.printed["a-1"] = b"one\n"
    rows = logs.followed("a", 0, incarnation=None, lines=5, is_over=lambda: False)

    assert next(rows) == (1, "one")
    with pytest.raises(GatewayError, match="ended the stream"):
        next(rows)


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
