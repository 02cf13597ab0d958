"""``--server kube:`` through a real API server: its authentication, its rights, its proxy, and the chart's own objects.

A gateway on this machine stands behind the chart's Service; there are no nodes, so what they would write is written here.
"""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.integration.gateway.served import ServedFolder, running, submitted
from tests.integration.kubernetes.bare_control_plane import (
    NAMESPACE,
    BareControlPlane,
    Object,
    own_address,
    running_control_plane,
)

from steepest.cli.main import main
from steepest.client import GatewayError
from steepest.client.kubernetes import gateway_of
from steepest.cluster.folders.adapter_folder import AdapterFolder, SpecRecord
from steepest.cluster.kubernetes.contexts import read_context
from steepest.cluster.port import ReplicaId
from steepest.errors import InputError
from steepest.events import cluster as c
from tools.kubernetes_lab.layout import default_folder

pytestmark = pytest.mark.timeout(600)
CHART = Path(__file__).parents[3] / "charts" / "steepest"
SERVICE = "trial-steepest-gateway"
ROLE = "trial-steepest-users"


def _chart_objects() -> list[Object]:
    """The gateway's objects of a release ``trial`` as Helm makes them."""
    program = Path(default_folder().program("helm"))
    if not program.exists():
        pytest.skip("there is no Helm; get it with: make helm")
    given = {"jobs": {"volumeClaim": "shared"}, "kafka": {"broker": {"enabled": True}}}
    of_gateway = ("--namespace", NAMESPACE, "-s", "templates/gateway.yaml", "--values", "-")
    order = [str(program), "template", "trial", str(CHART), *of_gateway]
    done = subprocess.run(order, input=json.dumps(given).encode(), capture_output=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareControlPlane]:
    """A control plane with the chart's Service and Role; ``alice`` has it, ``carol`` may see Services, ``bob`` nothing."""
    folder = tmp_path_factory.mktemp("plane")
    with running_control_plane(folder, "alice", "bob", "carol") as made:
        made.apply(*(each for each in _chart_objects() if each["kind"] in ("Service", "Role")))
        made.kubectl("create", "rolebinding", "alice", f"--role={ROLE}", "--user=alice")
        made.kubectl("create", "role", "sees", "--verb=list", "--resource=services")
        made.kubectl("create", "rolebinding", "carol", "--role=sees", "--user=carol")
        made.kubectl("create", "namespace", "empty")
        made.kubectl("create", "role", "sees", "--verb=list", "--resource=services", "--namespace=empty")
        made.kubectl("create", "rolebinding", "alice", "--role=sees", "--user=alice", "--namespace=empty")
        yield made


@pytest.fixture(scope="module")
def token() -> str:
    """The token of the role that may do most, of those that the chart makes."""
    (secret,) = [each for each in _chart_objects() if each["kind"] == "Secret"]
    return dict(line.split() for line in base64.b64decode(secret["data"]["tokens"]).decode().splitlines())["operate"]


@pytest.fixture(scope="module")
def served(plane: BareControlPlane, token: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFolder]:
    """A gateway of which the cluster knows that it is the pod behind the Service."""
    folder, address = tmp_path_factory.mktemp("served"), own_address()
    tokens = folder / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"operate {token}\n")
    made = ServedFolder(folder)
    made.append(*running("a", "n1"), *submitted("b"))
    made.start(STEEPEST_GATEWAY_HOST=address, STEEPEST_GATEWAY_TOKENS=str(tokens))
    plane.apply(pod("gateway", status={"phase": "Running", "podIPs": [{"ip": address}], "podIP": address}))
    plane.apply(endpoints(address, int(made.address.rpartition(":")[2])))
    try:
        yield made
    finally:
        made.stop()


def endpoints(address: str, port: int) -> Object:
    """What the endpoints' controller writes of a Service with one pod that is ready."""
    ready = [{"ip": address, "targetRef": {"kind": "Pod", "name": "gateway", "namespace": NAMESPACE}}]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": SERVICE},
        "subsets": [{"addresses": ready, "ports": [{"name": "http", "port": port}]}],
    }


def pod(name: str, *, status: Object, node: str | None = None, **metadata: object) -> Object:
    """A pod."""
    spec: Object = {"containers": [{"name": "job", "image": "none"}]}
    if node is not None:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec, "status": status}


@pytest.fixture
def call(
    plane: BareControlPlane, served: ServedFolder, token: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[Any]]:
    """Calls the command line as a user of the cluster, and gives the JSON that it prints."""
    del served

    def do(*arguments: str, user: str = "alice", known: bool = True) -> list[Any]:
        monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig_of(user)))
        monkeypatch.setenv("STEEPEST_CLIENT_TOKEN", token if known else "")
        order = [arguments[0], "--server", "kube:", "--json", *arguments[1:]]
        done = CliRunner().invoke(main, order, catch_exceptions=False, standalone_mode=False)
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    return do


def test_commands_reach_the_gateway_through_the_api_server(call: Callable[..., list[Any]]) -> None:
    """With no more than the chart's Role and the gateway's token: what is read, a submission, and a cancellation."""
    (jobs,), (nodes,), (story,) = call("jobs"), call("nodes"), call("explain", "a")
    (submission,) = call("submit", "--name", "c", "--cpu", "0.1", "--", "train")
    (cancelled,) = call("cancel", "c")
    asked = [each["event"] for each in call("events", "--job", "c")]

    assert [row["job"] for row in jobs][:2] == ["a", "b"]
    assert [row["node"] for row in nodes] == ["n1", "n2"]
    assert story["job"] == "a"
    assert (submission["state"], cancelled["state"]) == ("queued", "queued")
    assert [each["type"] for each in asked] == ["JobSubmitted", "JobCancelRequested"]
    assert "working_dir" not in asked[0]["spec"]


def test_a_job_runs_in_a_folder_of_its_image(call: Callable[..., list[Any]], tmp_path: Path) -> None:
    """The one that a file or an option names, which need not be on this machine."""
    described = tmp_path / "job.yaml"
    described.write_text("name: d\ncommand: [train]\nworking_dir: /srv/of/the/image\n")
    call("submit", "-f", str(described))
    call("submit", "-f", str(described), "--name", "e", "--workdir", "/opt/of/the/image")
    found = {name: call("events", "--type", "JobSubmitted", "--job", name)[0]["event"]["spec"] for name in ("d", "e")}

    assert {name: spec["working_dir"] for name, spec in found.items()} == {
        "d": "/srv/of/the/image",
        "e": "/opt/of/the/image",
    }


def test_events_are_streamed_as_they_come(plane: BareControlPlane, served: ServedFolder, token: str) -> None:
    """An event is read from a stream that was open before it happened: the API server holds nothing back."""
    context = read_context(files=str(plane.kubeconfig_of("alice")))
    with gateway_of(context, token) as gateway:
        rows = gateway.follow(since=0)
        assert next(rows).offset == 0
        offset = served.append(c.Tick(counted_ms=2_000))
        assert next(row for row in rows if row.offset == offset).type == "Tick"


REFUSALS = (
    ("bob", "", 'cannot list resource "services"', "ask for a role with the right: list services"),
    ("carol", "", 'cannot get resource "services/proxy"', "ask for a role with the right: get services/proxy"),
    ("alice", "/empty", "there is no gateway of Steepest in the namespace empty", "services.gateway.replicas=1"),
    ("alice", "/other", 'cannot list resource "services"', "ask for a role with the right: list services"),
)
"""Who asks where, and what the error and its hint say."""


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: f"{case[0]}{case[1]}")
def test_a_refusal_says_what_is_missing(plane: BareControlPlane, token: str, case: tuple[str, ...]) -> None:
    """The right that a role lacks, in words that a role is written in; or that nothing is installed there."""
    user, where, message, hint = case
    context = read_context(where, str(plane.kubeconfig_of(user)))
    with pytest.raises((GatewayError, InputError)) as refused, gateway_of(context, token) as gateway:
        gateway.jobs()

    assert message in str(refused.value)
    assert hint in refused.value.hint


def test_a_right_to_read_is_none_to_change(plane: BareControlPlane, served: ServedFolder, token: str) -> None:
    """A cluster's administrator can let a user see jobs, and submit none, also with a token that may."""
    del served
    plane.kubectl("create", "role", "reads", "--verb=get", "--resource=services/proxy")
    plane.kubectl("create", "rolebinding", "reads", "--role=reads", "--user=carol")
    with gateway_of(read_context(files=str(plane.kubeconfig_of("carol"))), token) as gateway:
        assert gateway.jobs()
        with pytest.raises(GatewayError, match="services/proxy") as refused:
            gateway.cancel("a")
    plane.kubectl("delete", "rolebinding", "reads")

    assert (refused.value.code, refused.value.hint) == (
        "forbidden",
        "ask for a role with the right: delete services/proxy",
    )


def test_the_gateway_still_asks_for_its_token(plane: BareControlPlane, served: ServedFolder) -> None:
    """The API server's own credentials are none of the gateway's."""
    del served
    context = read_context(files=str(plane.kubeconfig_of("alice")))
    refusals = []
    for wrong in ("", "x" * 40):
        with gateway_of(context, wrong) as gateway, pytest.raises(GatewayError) as refused:
            gateway.jobs()
        refusals.append((refused.value.status, refused.value.code))
        assert "STEEPEST_CLIENT_TOKEN" in refused.value.hint

    assert refusals == [(401, "unauthorized")] * 2


def test_a_gateway_that_is_not_ready_has_not_answered(
    plane: BareControlPlane, served: ServedFolder, token: str
) -> None:
    """No pod is ready, or it does not listen yet: who follows it may ask again."""
    address, port = served.address.rpartition("/")[2].rsplit(":", 1)
    codes = []
    with gateway_of(read_context(files=str(plane.kubeconfig_of("alice"))), token) as gateway:
        for content in ({**endpoints(address, 1), "subsets": []}, endpoints(address, 1)):
            plane.kubectl("replace", "-f", "-", content=content)
            with pytest.raises(GatewayError, match="the gateway is not ready") as refused:
                gateway.jobs()
            codes.append((refused.value.status, refused.value.code))
        plane.kubectl("replace", "-f", "-", content=endpoints(address, int(port)))
        assert gateway.jobs()

    assert codes == [(0, "gateway-not-ready")] * 2


def test_what_a_job_prints_is_read_through_the_gateway(call: Callable[..., list[Any]], served: ServedFolder) -> None:
    """With a right to the gateway's Service alone: the last lines; and followed, until the job is over."""
    served.append(*running("p", "n1"))
    folder = AdapterFolder(served.folder.cluster).incarnation(ReplicaId("p"), 1)
    folder.make(SpecRecord(node="n1", command=("train",)))
    folder.output.write_text("one\ntwo\nhalf")
    assert call("logs", "-n", "2", "p") == [{"incarnation": 1, "line": each} for each in ("two", "half")]
    seen: list[Any] = []
    following = threading.Thread(target=lambda: seen.extend(call("logs", "--follow", "-n", "1", "p")))
    following.start()
    with folder.output.open("a") as file:
        file.write(" and whole\n")
    served.append(
        c.ReplicaStopped(job="p", incarnation=1, node="n1", exit_status=0),
        c.JobEnded(job="p", outcome=c.Outcome.FINISHED, exit_status=0),
    )
    following.join(60)

    assert not following.is_alive()
    assert {"incarnation": 1, "line": "half and whole"} in seen
