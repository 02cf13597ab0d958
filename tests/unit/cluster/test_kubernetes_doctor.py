"""What ``steepest doctor`` finds in further namespaces, over an API server in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import pytest

from steepest.cluster.kubernetes.api import CALL_S, NOT_FOUND, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.doctor import CheckHealth, Patient, examine

_T = TypeVar("_T")

BINDINGS = "/apis/admissionregistration.k8s.io/v1/{kind}admissionpolicybindings"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NODE = {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
PATIENT = Patient(namespace="training", claim="shared", account="steepest", users_namespaces=("team-a", "team-b"))


def claim(phase: str = "Bound") -> dict[str, Any]:
    """A claim that pods on every node may mount."""
    return {"metadata": {"name": "shared"}, "spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": phase}}


def binding(policy: str, selector: Mapping[str, Any]) -> dict[str, Any]:
    """A policy for some namespaces."""
    return {
        "metadata": {"name": policy},
        "spec": {"policyName": policy, "matchResources": {"namespaceSelector": selector}},
    }


def listed(*items: Any) -> dict[str, Any]:
    """A list of objects."""
    return {"items": list(items), "metadata": {}}


class ApiServer(KubernetesApi):
    """Has some objects.

    Attributes:
        objects: By path.
        denied: Namespace and resource of what is not allowed.
        users: Whose rights were asked for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.denied: set[tuple[str, str]] = set()
        self.users: set[str] = set()
        names = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a"]}]}
        self.objects: dict[str, Any] = {
            "/api/v1": {"resources": [{"name": "pods/resize"}]},
            "/api/v1/nodes": listed(NODE, NODE),
            BINDINGS.format(kind="mutating"): listed(binding("x.jobs.steepest.dev", names)),
            BINDINGS.format(kind="validating"): listed(binding("x.volume.steepest.dev", names)),
            WEBHOOKS: listed(),
        }
        for name in ("training", "team-a"):
            labels = {"pod-security.kubernetes.io/enforce": "restricted"}
            self.objects[f"/api/v1/namespaces/{name}"] = {"metadata": {"name": name, "labels": labels}}
            self.objects[f"/api/v1/namespaces/{name}/persistentvolumeclaims/shared"] = claim()

    async def get(self, path: str, kind: type[_T], query: Mapping[str, str] | None = None) -> _T:
        """Read an object."""
        del query
        if path not in self.objects:
            raise AnswerError(path, NOT_FOUND)
        return msgspec.convert(self.objects[path], kind)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content: str = "application/json",
        timeout_s: float = CALL_S,
        server: str | None = None,
    ) -> bytes:
        """Review access."""
        del method, path, query, content, timeout_s, server
        asked = body["spec"]["resourceAttributes"]
        self.users.add(body["spec"]["user"])
        resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        allowed = (asked["namespace"], resource) not in self.denied
        return msgspec.json.encode({"status": {"allowed": allowed}})


async def found_by(api: ApiServer) -> dict[str, tuple[CheckHealth, str]]:
    """Health and words of each check."""
    return {one.check: (one.health, f"{one.found} {one.mend}") for one in await examine(api, PATIENT)}


async def test_each_further_namespace_is_examined_by_itself() -> None:
    """One has all that it needs; the other one is not there, and what mends it is said."""
    api = ApiServer()
    found = await found_by(api)

    assert {name for name, (health, _) in found.items() if "/" in name and health is CheckHealth.OK} == {
        f"team-a/{check}" for check in ("namespace", "volume", "rights", "users-jobs", "guard", "pod-security")
    } | {"team-b/rights"}
    for check, words in (
        ("namespace", "kubectl create namespace team-b"),
        ("volume", "of the same volume as the installation's"),
        ("users-jobs", "optIn.namespaces"),
        ("guard", "opt-in-namespace.yaml"),
        ("pod-security", "kubectl label namespace team-b pod-security.kubernetes.io/enforce=restricted"),
    ):
        health, said = found[f"team-b/{check}"]
        assert health is CheckHealth.MISSING
        assert words in said
    assert found["namespace"][0] is found["volume"][0] is CheckHealth.OK
    assert api.users == {"system:serviceaccount:training:steepest"}


@pytest.mark.parametrize(
    ("enforced", "denied", "health", "words"),
    [
        ("privileged", (), CheckHealth.OK, "--cluster kubernetes=training/shared:FOLDER"),
        ("privileged", ("events",), CheckHealth.OFF, "list on events"),
        ("baseline", (), CheckHealth.OFF, "enforce=privileged, if only Steepest"),
    ],
)
async def test_a_namespace_that_admits_no_keeper_is_named(
    enforced: str, denied: tuple[str, ...], health: CheckHealth, words: str
) -> None:
    """Keepers are no need, so it is off; where they are admitted, the way to a trial is named."""
    api = ApiServer()
    api.objects["/api/v1/namespaces/training"]["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": enforced}
    api.denied |= {("training", each) for each in denied}

    found = (await found_by(api))["keepers"]
    assert found[0] is health
    assert words in found[1]


@pytest.mark.parametrize("lacking", ["jobs", "pods/resize", "events", "pods"])
async def test_a_right_that_lacks_in_one_namespace_is_named_there(lacking: str) -> None:
    """The installation's own ones are not concerned; what it needs there alone is not asked for."""
    api = ApiServer()
    api.denied = {("team-a", lacking), ("team-a", "services")}
    found = await found_by(api)

    health, said = found["team-a/rights"]
    assert health is CheckHealth.MISSING
    assert f" {lacking}" in said
    assert "services" not in said
    assert "rights-namespace.yaml" in said
    assert found["rights"][0] is CheckHealth.OK


async def test_a_claim_without_a_volume_is_missing() -> None:
    """Pods that mount it would wait for ever."""
    api = ApiServer()
    api.objects["/api/v1/namespaces/team-a/persistentvolumeclaims/shared"] = claim("Pending")

    health, said = (await found_by(api))["team-a/volume"]
    assert health is CheckHealth.MISSING
    assert "kubectl -n team-a describe pvc shared" in said


@pytest.mark.parametrize(
    ("selector", "is_open"),
    [
        ({}, True),
        ({"matchLabels": {"steepest.dev/jobs": "true"}}, True),
        ({"matchLabels": {"steepest.dev/jobs": "no"}}, False),
        ({"matchExpressions": [{"key": "steepest.dev/jobs", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "steepest.dev/jobs", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["b"]}]}, False),
    ],
)
@pytest.mark.parametrize("by", ["policy", "webhook"])
async def test_a_namespace_is_open_as_the_selector_says(selector: dict[str, Any], by: str, *, is_open: bool) -> None:
    """Of a policy, or of a webhook; labels or the name may select it."""
    api = ApiServer()
    api.objects["/api/v1/namespaces/team-a"]["metadata"]["labels"] = {"steepest.dev/jobs": "true"}
    webhook = {"metadata": {"name": "x.jobs.steepest.dev"}, "webhooks": [{"namespaceSelector": selector}]}
    of_policy = (binding("x.jobs.steepest.dev", selector),)
    api.objects[BINDINGS.format(kind="mutating")] = listed(*(of_policy if by == "policy" else ()))
    api.objects[WEBHOOKS] = listed(*((webhook,) if by == "webhook" else ()))

    assert ((await found_by(api))["team-a/users-jobs"][0] is CheckHealth.OK) == is_open
