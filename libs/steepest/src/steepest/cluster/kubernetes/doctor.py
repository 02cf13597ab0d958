"""The gaps of a cluster that is to run jobs of Steepest, and how to close them.

It owns the list of checks. It only reads; its reviews of access store nothing. A check that the API server does
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

GUARDS = "volume.steepest.dev"
"""How the name ends of the policy that keeps the files of jobs apart in further namespaces."""

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"

_NAMESPACE = "kubernetes.io/metadata.name"
_ENFORCED = "pod-security.kubernetes.io/enforce"
_ADMITS = "privileged"
_Rights = Mapping[tuple[str, str], tuple[str, ...]]
"""By group and resource, the verbs."""

_NEEDED: _Rights = {
    ("batch", "jobs"): ("get", "list", "watch", "create", "patch", "delete"),
    ("", "pods"): ("get", "list", "watch", "patch", "delete"),
    ("", "pods/log"): ("get",),
    ("", "pods/resize"): ("patch",),
    ("", "services"): ("create", "delete"),
}
_NEEDED_OF_USERS: _Rights = {
    ("batch", "jobs"): ("list", "watch", "patch"),
    ("", "pods"): ("get", "list", "watch", "patch", "delete"),
    ("", "pods/log"): ("get",),
    ("", "pods/resize"): ("patch",),
    ("events.k8s.io", "events"): ("create",),
}
"""In a further namespace, in which Steepest makes nothing but Events."""

_NEEDED_EVERYWHERE: _Rights = {("", "nodes"): ("list", "watch")}


class CheckHealth(enum.StrEnum):
    """The result of a check. OFF is not needed; mending it adds a function."""

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
    """The cluster, namespaces and claim to examine.

    Attributes:
        namespace: Of the Jobs.
        claim: Of the volume that pods share, in that namespace.
        account: A service account of the namespace, whose rights are checked; empty: those of the caller.
        users_namespaces: Further namespaces, of which users' objects are to be scheduled.
    """

    namespace: str
    claim: str
    account: str = ""
    users_namespaces: tuple[str, ...] = ()


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


class _NamespaceExpression(ObjectPart, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()

    def takes(self, labels: Mapping[str, str]) -> bool:
        has = labels.get(self.key)
        if self.operator in {"Exists", "DoesNotExist"}:
            return (has is not None) == (self.operator == "Exists")
        return (has in self.values) == (self.operator == "In")


class _Selector(ObjectPart, frozen=True):
    match_labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[_NamespaceExpression, ...] = ()

    def takes(self, labels: Mapping[str, str]) -> bool:
        return self.match_labels.items() <= labels.items() and all(
            each.takes(labels) for each in self.match_expressions
        )


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


_Check = Callable[[KubernetesApi, Patient, str], Awaitable[Finding]]
"""Examines a namespace of a patient."""


async def examine(api: KubernetesApi, patient: Patient) -> list[Finding]:
    """All checks, in the order in which one mends what they find; those of a further namespace begin with its name."""
    checks: Sequence[tuple[str, _Check]] = (
        ("server", _server),
        ("nodes", _nodes),
        ("namespace", _namespace),
        ("volume", _volume),
        ("rights", _rights),
        ("usage", _usage),
        ("events", _events),
        ("users-jobs", _users_jobs),
        ("keepers", _keepers),
    )
    of_users: Sequence[tuple[str, _Check]] = (
        ("namespace", _namespace),
        ("volume", _volume),
        ("rights", _users_rights),
        ("users-jobs", _users_jobs_needed),
        ("guard", _guard),
        ("pod-security", _pod_security),
    )
    asked = [(name, check, patient.namespace) for name, check in checks]
    asked += [(f"{each}/{name}", check, each) for each in patient.users_namespaces for name, check in of_users]
    found = []
    for name, check, namespace in asked:
        try:
            found.append(msgspec.structs.replace(await check(api, patient, namespace), check=name))
        except ClusterError as error:
            mend = error.hint or "mend what the message names, and ask again"
            found.append(Finding(check=name, health=CheckHealth.UNKNOWN, found=str(error), mend=mend))
    return found


async def _server(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    del patient, namespace
    has = {each.name for each in (await api.get("/api/v1", _Resources)).resources}
    if "pods/resize" in has:
        return Finding(check="server", health=CheckHealth.OK, found="the API server changes limits in place")
    return Finding(
        check="server",
        health=CheckHealth.MISSING,
        found="the API server has no pods/resize, so limits cannot be changed",
        mend="use Kubernetes 1.35 or later",
    )


async def _nodes(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    del patient, namespace
    listed = (await api.get("/api/v1/nodes", Listing[ClusterNode])).items
    usable = [each for each in listed if each.is_ready and takes_pods(each)]
    found = f"{len(usable)} of {len(listed)} nodes are ready and take pods"
    if len(usable) > 1:
        return Finding(check="nodes", health=CheckHealth.OK, found=found)
    if usable:
        mend = "add a node, or take a taint or cordon away: jobs have nowhere to move"
        return Finding(check="nodes", health=CheckHealth.OFF, found=found, mend=mend)
    return Finding(check="nodes", health=CheckHealth.MISSING, found=found, mend="kubectl describe nodes")


async def _namespace(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    del patient
    if await _get(api, f"/api/v1/namespaces/{namespace}", ClusterObject) is None:
        found, mend = f"there is no namespace {namespace}", f"kubectl create namespace {namespace}"
        return Finding(check="namespace", health=CheckHealth.MISSING, found=found, mend=mend)
    return Finding(check="namespace", health=CheckHealth.OK, found=f"the namespace {namespace} is there")


async def _volume(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{patient.claim}"
    claim = await _get(api, path, _Claim)
    if claim is None:
        found = f"there is no claim {patient.claim} in {namespace}"
        mend = "make a PersistentVolumeClaim with the access mode ReadWriteMany"
        mend += ", of the same volume as the installation's" if namespace != patient.namespace else ""
    elif "ReadWriteMany" not in claim.spec.access_modes:
        found = f"pods on other nodes cannot mount the claim {patient.claim}: {', '.join(claim.spec.access_modes)}"
        mend = "make one with the access mode ReadWriteMany: a job takes its checkpoint along"
    elif claim.status.phase != "Bound":
        found = f"the claim {patient.claim} has no volume: {claim.status.phase or 'no phase'}"
        mend = f"kubectl -n {namespace} describe pvc {patient.claim}"
    else:
        return Finding(check="volume", health=CheckHealth.OK, found=f"pods on every node can mount {patient.claim}")
    return Finding(check="volume", health=CheckHealth.MISSING, found=found, mend=mend)


async def _rights(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    mend = "kubectl apply -f deploy/kubernetes/rights.yaml, or install the chart"
    return await _allowed(api, patient, {namespace: _NEEDED, "": _NEEDED_EVERYWHERE}, mend)


async def _users_rights(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    mend = "apply deploy/kubernetes/rights-namespace.yaml with its name, or name it in the chart's optIn.namespaces"
    return await _allowed(api, patient, {namespace: _NEEDED_OF_USERS}, mend)


async def _allowed(api: KubernetesApi, patient: Patient, needed: Mapping[str, _Rights], mend: str) -> Finding:
    """Whether all is allowed that is needed, by namespace; an empty name: in the whole cluster."""
    denied = [
        f"{verb} {kind[1]}"
        for where, rights in needed.items()
        for kind, verbs in rights.items()
        for verb in verbs
        if not await _may(api, patient, where, kind, verb)
    ]
    who = patient.account or "you"
    if not denied:
        return Finding(check="rights", health=CheckHealth.OK, found=f"{who} may do all that Steepest does")
    return Finding(check="rights", health=CheckHealth.MISSING, found=f"{who} may not: {', '.join(denied)}", mend=mend)


async def _usage(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    del namespace
    if await _may(api, patient, "", ("", "nodes/proxy"), "get"):
        mend = (
            "take away get on nodes/proxy, by which one runs commands in every pod, unless kubelets cannot be reached"
        )
        return Finding(check="usage", health=CheckHealth.OFF, found="nodes/proxy is more than is needed", mend=mend)
    if await _may(api, patient, "", ("", "nodes/stats"), "get"):
        return Finding(check="usage", health=CheckHealth.OK, found="what jobs use may be measured")
    mend = "give the account get on nodes/stats, or set the chart's nodeAgent.enabled"
    return Finding(check="usage", health=CheckHealth.OFF, found="what jobs use is unknown", mend=mend)


async def _events(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    if await _may(api, patient, namespace, ("events.k8s.io", "events"), "create"):
        return Finding(check="events", health=CheckHealth.OK, found="Jobs have Events that explain decisions")
    mend = "give the account create on events of events.k8s.io in the namespace"
    return Finding(check="events", health=CheckHealth.OFF, found="kubectl describe job explains no decision", mend=mend)


async def _users_jobs(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    del patient
    off = Finding(
        check="users-jobs",
        health=CheckHealth.OFF,
        found=f"Jobs that users make in {namespace} are not gated",
        mend="set the chart's optIn.enabled, or, from Kubernetes 1.36 on, apply deploy/kubernetes/opt-in.yaml",
    )
    if (labels := await _labels_of(api, namespace)) is None:
        return off
    async for name, of_namespaces in _gates(api):
        if name.endswith(GATES) and of_namespaces.takes(labels):
            return Finding(check="users-jobs", health=CheckHealth.OK, found=f"{name} gates users' Jobs")
    return off


async def _keepers(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    """Whether a namespace admits pods with keepers; only a trial shows whether its nodes can save and restore a process."""
    enforced = (await _labels_of(api, namespace) or {}).get(_ENFORCED, _ADMITS)
    found = f"of the security of pods in {namespace}, {enforced} is enforced, which "
    if enforced != _ADMITS:
        mend = f"kubectl label namespace {namespace} {_ENFORCED}={_ADMITS}, if only Steepest makes pods in it"
        return Finding(check="keepers", health=CheckHealth.OFF, found=f"{found}refuses keepers", mend=mend)
    if not await _may(api, patient, namespace, ("", "events"), "list"):
        mend = "give the account list on events in the namespace, to read why a pod with a keeper is refused"
        return Finding(check="keepers", health=CheckHealth.OFF, found=f"{found}admits keepers", mend=mend)
    trial = f"steepest doctor --cluster kubernetes={namespace}/{patient.claim}:FOLDER tries them on each node"
    return Finding(check="keepers", health=CheckHealth.OK, found=f"{found}admits keepers; {trial}")


async def _users_jobs_needed(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    """The same where that is all that the namespace is for."""
    found = await _users_jobs(api, patient, namespace)
    if found.health is CheckHealth.OK:
        return found
    mend = "name it in the chart's optIn.namespaces, or label it steepest.dev/jobs=true (docs/kubernetes.md)"
    return msgspec.structs.replace(found, health=CheckHealth.MISSING, mend=mend)


async def _guard(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    labels = await _labels_of(api, namespace)
    bindings = await _get(api, f"{_ADMISSION}/validatingadmissionpolicybindings", Listing[_Binding])
    for each in bindings.items if bindings and labels is not None else ():
        name = each.spec.policy_name
        if name.endswith(GUARDS) and each.spec.match_resources.namespace_selector.takes(labels or {}):
            return Finding(check="guard", health=CheckHealth.OK, found=f"{name} keeps the files of jobs apart")
    return Finding(
        check="guard",
        health=CheckHealth.MISSING,
        found=f"pods in {namespace} may mount the whole of {patient.claim}",
        mend="name it in the chart's optIn.namespaces, or apply deploy/kubernetes/opt-in-namespace.yaml",
    )


async def _pod_security(api: KubernetesApi, patient: Patient, namespace: str) -> Finding:
    del patient
    enforced = (await _labels_of(api, namespace) or {}).get(_ENFORCED, "nothing")
    health = CheckHealth.OK if enforced == "restricted" else CheckHealth.MISSING
    mend = f"kubectl label namespace {namespace} {_ENFORCED}=restricted: a privileged pod could mount any storage"
    found = f"of the security of pods in {namespace}, {enforced} is enforced"
    return Finding(check="pod-security", health=health, found=found, mend=mend if health is CheckHealth.MISSING else "")


async def _labels_of(api: KubernetesApi, namespace: str) -> Mapping[str, str] | None:
    """The labels of a namespace; None: there is no such namespace."""
    found = await _get(api, f"/api/v1/namespaces/{namespace}", ClusterObject)
    return {**found.metadata.labels, _NAMESPACE: namespace} if found is not None else None


async def _gates(api: KubernetesApi) -> AsyncIterator[tuple[str, _Selector]]:
    """Policies and webhooks that change objects: their names, and the namespaces in which they do."""
    bindings = await _get(api, f"{_ADMISSION}/mutatingadmissionpolicybindings", Listing[_Binding])
    for binding in bindings.items if bindings else ():
        yield binding.spec.policy_name, binding.spec.match_resources.namespace_selector
    webhooks = await _get(api, f"{_ADMISSION}/mutatingwebhookconfigurations", Listing[_WebhookConfiguration])
    for configuration in webhooks.items if webhooks else ():
        for webhook in configuration.webhooks:
            yield configuration.metadata.name, webhook.namespace_selector


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
