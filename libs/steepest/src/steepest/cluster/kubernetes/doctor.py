"""What a cluster lacks for jobs of Steepest, and how to mend it.

It owns the list of checks. It only reads, but for reviews of access, which store nothing. A check that the API server does
not answer is unknown, and the others go on.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from steepest.cluster.kubernetes.api import NOT_FOUND, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.nodes.selected_nodes import takes_pods
from steepest.cluster.kubernetes.objects import ClusterNode, ClusterObject, Listing, ObjectPart
from steepest.errors import ClusterError

_T = TypeVar("_T")

GATES = "jobs.steepest.dev"
"""How the name ends of the policy or the webhook that gates users' Jobs."""

_NAMESPACE = "kubernetes.io/metadata.name"
_NEEDED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("batch", "jobs"): ("get", "list", "watch", "create", "patch", "delete"),
    ("", "pods"): ("get", "list", "watch", "patch", "delete"),
    ("", "pods/log"): ("get",),
    ("", "pods/resize"): ("patch",),
    ("", "services"): ("create", "delete"),
}
_NEEDED_EVERYWHERE: Mapping[tuple[str, str], tuple[str, ...]] = {("", "nodes"): ("list", "watch")}


class CheckHealth(enum.StrEnum):
    """What became of a check. What is OFF is not needed, and mending it adds a function."""

    OK = "ok"
    OFF = "off"
    MISSING = "missing"
    UNKNOWN = "unknown"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check.

    Attributes:
        check: Its name.
        health: What became of it.
        found: What was found, as a sentence without a full stop.
        mend: What to do where something is missing; empty where nothing is.
    """

    check: str
    health: CheckHealth
    found: str
    mend: str = ""


class Patient(msgspec.Struct, frozen=True, kw_only=True):
    """What is examined.

    Attributes:
        namespace: Of the Jobs.
        claim: Of the volume that pods share, in that namespace.
        account: A service account of the namespace, whose rights are checked; empty: those of the caller.
    """

    namespace: str
    claim: str
    account: str = ""


class _Resource(ObjectPart, frozen=True):
    name: str


class _Resources(ObjectPart, frozen=True):
    resources: list[_Resource]


class _ClaimSpec(ObjectPart, frozen=True):
    access_modes: tuple[str, ...] = ()


class _ClaimStatus(ObjectPart, frozen=True):
    phase: str = ""


class _Claim(ClusterObject, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


class _Selector(ObjectPart, frozen=True):
    match_labels: Mapping[str, str] = msgspec.field(default_factory=dict)


class _Matched(ObjectPart, frozen=True):
    namespace_selector: _Selector = _Selector()


class _BindingSpec(ObjectPart, frozen=True):
    policy_name: str = ""
    match_resources: _Matched = _Matched()


class _Binding(ClusterObject, frozen=True):
    spec: _BindingSpec = _BindingSpec()


class _Webhook(ObjectPart, frozen=True):
    namespace_selector: _Selector = _Selector()


class _WebhookConfiguration(ClusterObject, frozen=True):
    webhooks: tuple[_Webhook, ...] = ()


class _ReviewStatus(ObjectPart, frozen=True):
    allowed: bool = False


class _Review(ObjectPart, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


async def examine(api: KubernetesApi, patient: Patient) -> list[Finding]:
    """All checks, in the order in which one mends what they find."""
    checks: Sequence[tuple[str, Callable[[KubernetesApi, Patient], Awaitable[Finding]]]] = (
        ("server", _server),
        ("nodes", _nodes),
        ("namespace", _namespace),
        ("volume", _volume),
        ("rights", _rights),
        ("usage", _usage),
        ("events", _events),
        ("users-jobs", _users_jobs),
    )
    found = []
    for name, check in checks:
        try:
            found.append(await check(api, patient))
        except ClusterError as error:
            mend = error.hint or "mend what the message names, and ask again"
            found.append(Finding(check=name, health=CheckHealth.UNKNOWN, found=str(error), mend=mend))
    return found


async def _server(api: KubernetesApi, patient: Patient) -> Finding:
    del patient
    has = {each.name for each in (await api.get("/api/v1", _Resources)).resources}
    if "pods/resize" in has:
        return Finding(check="server", health=CheckHealth.OK, found="the API server changes limits in place")
    return Finding(
        check="server",
        health=CheckHealth.MISSING,
        found="the API server has no pods/resize, so limits cannot be changed",
        mend="use Kubernetes 1.35 or later",
    )


async def _nodes(api: KubernetesApi, patient: Patient) -> Finding:
    del patient
    listed = (await api.get("/api/v1/nodes", Listing[ClusterNode])).items
    usable = [each for each in listed if each.is_ready and takes_pods(each)]
    found = f"{len(usable)} of {len(listed)} nodes are ready and take pods"
    if len(usable) > 1:
        return Finding(check="nodes", health=CheckHealth.OK, found=found)
    if usable:
        mend = "add a node, or take a taint or cordon away: jobs have nowhere to move"
        return Finding(check="nodes", health=CheckHealth.OFF, found=found, mend=mend)
    return Finding(check="nodes", health=CheckHealth.MISSING, found=found, mend="kubectl describe nodes")


async def _namespace(api: KubernetesApi, patient: Patient) -> Finding:
    if await _get(api, f"/api/v1/namespaces/{patient.namespace}", ClusterObject) is None:
        found, mend = f"there is no namespace {patient.namespace}", f"kubectl create namespace {patient.namespace}"
        return Finding(check="namespace", health=CheckHealth.MISSING, found=found, mend=mend)
    return Finding(check="namespace", health=CheckHealth.OK, found=f"the namespace {patient.namespace} is there")


async def _volume(api: KubernetesApi, patient: Patient) -> Finding:
    path = f"/api/v1/namespaces/{patient.namespace}/persistentvolumeclaims/{patient.claim}"
    claim = await _get(api, path, _Claim)
    if claim is None:
        found = f"there is no claim {patient.claim} in {patient.namespace}"
        mend = "make a PersistentVolumeClaim with the access mode ReadWriteMany"
    elif "ReadWriteMany" not in claim.spec.access_modes:
        found = f"pods on other nodes cannot mount the claim {patient.claim}: {', '.join(claim.spec.access_modes)}"
        mend = "make one with the access mode ReadWriteMany: a job takes its checkpoint along"
    elif claim.status.phase != "Bound":
        found = f"the claim {patient.claim} has no volume: {claim.status.phase or 'no phase'}"
        mend = f"kubectl -n {patient.namespace} describe pvc {patient.claim}"
    else:
        return Finding(check="volume", health=CheckHealth.OK, found=f"pods on every node can mount {patient.claim}")
    return Finding(check="volume", health=CheckHealth.MISSING, found=found, mend=mend)


async def _rights(api: KubernetesApi, patient: Patient) -> Finding:
    asked = [(patient.namespace, one, verb) for one, verbs in _NEEDED.items() for verb in verbs]
    asked += [("", one, verb) for one, verbs in _NEEDED_EVERYWHERE.items() for verb in verbs]
    denied = []
    for where, kind, verb in asked:
        if not await _may(api, patient, where, kind, verb):
            denied.append(f"{verb} {kind[1]}")
    who = patient.account or "you"
    if not denied:
        return Finding(check="rights", health=CheckHealth.OK, found=f"{who} may do all that Steepest does")
    return Finding(
        check="rights",
        health=CheckHealth.MISSING,
        found=f"{who} may not: {', '.join(denied)}",
        mend="kubectl apply -f deploy/kubernetes/rights.yaml, or install the chart",
    )


async def _usage(api: KubernetesApi, patient: Patient) -> Finding:
    if await _may(api, patient, "", ("", "nodes/proxy"), "get"):
        return Finding(check="usage", health=CheckHealth.OK, found="what jobs use is measured")
    mend = (
        "give the account get on nodes/proxy, which lets it read all that a kubelet tells,"
        " or set the chart's nodeAgent.enabled"
    )
    return Finding(check="usage", health=CheckHealth.OFF, found="what jobs use is unknown", mend=mend)


async def _events(api: KubernetesApi, patient: Patient) -> Finding:
    if await _may(api, patient, patient.namespace, ("events.k8s.io", "events"), "create"):
        return Finding(check="events", health=CheckHealth.OK, found="Jobs have Events that explain decisions")
    mend = "give the account create on events of events.k8s.io in the namespace"
    return Finding(check="events", health=CheckHealth.OFF, found="kubectl describe job explains no decision", mend=mend)


async def _users_jobs(api: KubernetesApi, patient: Patient) -> Finding:
    off = Finding(
        check="users-jobs",
        health=CheckHealth.OFF,
        found=f"Jobs that users make in {patient.namespace} are not gated",
        mend="set the chart's optIn.enabled, or, from Kubernetes 1.36 on, apply deploy/kubernetes/opt-in.yaml",
    )
    place = await _get(api, f"/api/v1/namespaces/{patient.namespace}", ClusterObject)
    if place is None:
        return off
    labels = {**place.metadata.labels, _NAMESPACE: patient.namespace}
    async for name, wanted in _gates(api):
        if name.endswith(GATES) and wanted.items() <= labels.items():
            return Finding(check="users-jobs", health=CheckHealth.OK, found=f"{name} gates users' Jobs")
    return off


async def _gates(api: KubernetesApi) -> AsyncIterator[tuple[str, Mapping[str, str]]]:
    """Policies and webhooks that change objects: their names, and the labels of the namespaces for which they do."""
    kinds = "/apis/admissionregistration.k8s.io/v1"
    bindings = await _get(api, f"{kinds}/mutatingadmissionpolicybindings", Listing[_Binding])
    for binding in bindings.items if bindings else ():
        yield binding.spec.policy_name, binding.spec.match_resources.namespace_selector.match_labels
    webhooks = await _get(api, f"{kinds}/mutatingwebhookconfigurations", Listing[_WebhookConfiguration])
    for configuration in webhooks.items if webhooks else ():
        for webhook in configuration.webhooks:
            yield configuration.metadata.name, webhook.namespace_selector.match_labels


async def _may(api: KubernetesApi, patient: Patient, namespace: str, of: tuple[str, str], verb: str) -> bool:
    group, kind = of
    resource, _, subresource = kind.partition("/")
    attributes = {
        "namespace": namespace,
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
    }
    spec: dict[str, object] = {"resourceAttributes": attributes}
    review = "SelfSubjectAccessReview"
    if patient.account:
        review = "SubjectAccessReview"
        spec["user"] = f"system:serviceaccount:{patient.namespace}:{patient.account}"
        spec["groups"] = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{patient.namespace}",
            "system:authenticated",
        ]
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": review, "spec": spec}
    path = f"/apis/authorization.k8s.io/v1/{review.lower()}s"
    return msgspec.json.decode(await api.request("POST", path, body=body), type=_Review).status.allowed


async def _get(api: KubernetesApi, path: str, kind: type[_T]) -> _T | None:
    try:
        return await api.get(path, kind)
    except AnswerError as error:
        if error.status == NOT_FOUND:
            return None
        raise
