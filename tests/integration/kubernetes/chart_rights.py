"""What each of the release's service accounts may do: written down a second time, and as the API server answers."""

from __future__ import annotations

import json

from tests.integration.kubernetes.chart_release import Release

SEES = {("get", "pods"), ("list", "pods"), ("watch", "pods"), ("get", "pods/log")}
NODES = {("list", "nodes"), ("watch", "nodes")}
RIGHTS: dict[str, set[tuple[str, str]]] = {
    "log-collector": {*SEES, *NODES, ("get", "nodes/stats")},
    "migrator": {
        *SEES,
        *NODES,
        *((verb, "pods") for verb in ("patch", "delete")),
        *((verb, "batch/jobs") for verb in ("get", "list", "watch", "create", "patch", "delete")),
        *((verb, "services") for verb in ("create", "delete")),
        ("create", "events.k8s.io/events"),
        ("patch", "batch/jobs/status"),
        ("patch", "pods/resize"),
        *((verb, "jobset.x-k8s.io/jobsets") for verb in ("get", "list", "watch", "patch")),
        *((verb, "kubeflow.org/pytorchjobs") for verb in ("list", "watch", "patch")),
        *((verb, "trainer.kubeflow.org/trainjobs") for verb in ("list", "watch", "patch")),
    },
    "resizer": {*SEES, *NODES, ("patch", "pods/resize")},
}
"""What each account may do, written down a second time; those that are not here may do nothing."""

MAKES = {
    *((verb, "batch/jobs") for verb in ("get", "create", "delete")),
    *((verb, "services") for verb in ("create", "delete")),
}
"""What no account may do in a further namespace: objects are made and removed by their users there."""

ANYBODY = {("create", "authorization.k8s.io/selfsubjectaccessreviews")}
ANYBODY |= {("create", "authorization.k8s.io/selfsubjectrulesreviews")}
ANYBODY |= {("create", "authentication.k8s.io/selfsubjectreviews")}


def rights_of(release: Release, account: str, namespace: str) -> set[tuple[str, str]]:
    """Verbs and resources that the API server allows, without what everybody may."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    who = [f"--as=system:serviceaccount:{release.namespace}:{account}"]
    groups = ("system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{release.namespace}")
    who += [f"--as-group={group}" for group in groups]
    answer = json.loads(
        release.lab.kubectl("create", "--validate=false", "-o", "json", *who, "-f", "-", content=review)
    )
    found = {
        (verb, f"{group}/{resource}".removeprefix("/"))
        for rule in answer["status"]["resourceRules"]
        for verb in rule["verbs"]
        for group in rule.get("apiGroups", [""])
        for resource in rule["resources"]
    }
    return found - ANYBODY
