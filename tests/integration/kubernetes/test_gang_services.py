"""Of the Services in its namespace the migrator makes and deletes gangs' alone: the policy on a real API server."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.kubernetes.bare_control_plane import NAMESPACE, BareControlPlane, running_control_plane
from tests.integration.kubernetes.opted_in import DEPLOY

from steepest.cluster.kubernetes.manifest import JobSettings, service
from steepest.events.common import Resources

pytestmark = pytest.mark.timeout(300)
STEEPEST = "--as=system:serviceaccount:steepest:steepest"
EFFECT_S = 60.0
SETTINGS = JobSettings(
    namespace=NAMESPACE, label="0a1b", claim="c", below=Path("s"), image="i", user=1, most=Resources(1000, 1000)
)
GANG: dict[str, Any] = service(SETTINGS, "gang")
OWN: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "theirs", "labels": {"app": "theirs"}},
    "spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}},
}


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareControlPlane]:
    """An API server with the policy, in which the account may do all with Services, and a Service of somebody else's."""
    with running_control_plane(tmp_path_factory.mktemp("bare")) as made:
        made.kubectl("create", "role", "services", "--verb=*", "--resource=services")
        made.kubectl("create", "rolebinding", "services", "--role=services", "--serviceaccount=steepest:steepest")
        made.kubectl("apply", "-f", str(DEPLOY / "gang-services.yaml"))
        made.apply(OWN)
        deadline = time.monotonic() + EFFECT_S
        while not refusal(made, OWN):
            assert time.monotonic() < deadline, "the policy has no effect"
            time.sleep(0.5)
        yield made


def refusal(control: BareControlPlane, asked: dict[str, Any], *who: str) -> str:
    """Why somebody, or Steepest, may not make a Service like this under another name; empty: it may."""
    other = {**asked, "metadata": {**asked["metadata"], "name": "another"}}
    try:
        control.kubectl(*(who or (STEEPEST,)), "create", "--dry-run=server", "-f", "-", content=other)
    except AssertionError as error:
        return str(error)
    return ""


def test_only_services_of_gangs_are_made(control: BareControlPlane) -> None:
    """One that takes traffic, from within or outside, or selects pods of others, is refused; of other users none is."""
    addressed, foreign, outside = copy.deepcopy(GANG), copy.deepcopy(GANG), copy.deepcopy(GANG)
    del addressed["spec"]["clusterIP"]
    addressed["spec"]["ports"] = [{"port": 80}]
    foreign["spec"]["selector"] = {"app.kubernetes.io/component": "gateway"}
    outside["spec"]["externalIPs"] = ["192.0.2.1"]

    assert not refusal(control, GANG)
    assert "Services of gangs alone" in refusal(control, OWN)
    for wrong in (addressed, foreign, outside):
        assert "the Service of a gang has no address" in refusal(control, wrong)
    assert not refusal(control, OWN, "--as=anybody", "--as-group=system:masters")


def test_only_services_of_gangs_are_deleted(control: BareControlPlane) -> None:
    """Also where its rights would let it delete any."""
    control.kubectl(STEEPEST, "create", "-f", "-", content=GANG)
    control.kubectl(STEEPEST, "delete", "service", GANG["metadata"]["name"])
    with pytest.raises(AssertionError, match="Services of gangs alone"):
        control.kubectl(STEEPEST, "delete", "service", "theirs")

    assert "theirs" in control.kubectl("get", "services", "-o", "name")
