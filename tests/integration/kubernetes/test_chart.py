"""The chart on two real nodes: installed by Helm, over a Kafka of the release, changed, rolled back and removed.

The witnesses are the API server's objects and audit log, the kernel's control groups, and the files on the volume.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.integration import exclusive_training
from tests.integration.kubernetes.chart_release import CHART, NAME, TIMEOUT_S, VALUES, LimitSampler, Release
from tests.integration.kubernetes.figures import Figures

from steepest.kubernetes_lab.images import DEMO
from steepest.kubernetes_lab.lab import KubernetesLab

pytestmark = pytest.mark.timeout(1200)
T = TypeVar("T")
JOBS = ("one", "two", "three")
LARGEST_M = 1600
"""The cap of a job without one: what the largest node has."""

PATIENCE_S = 300.0
OURS = "app.kubernetes.io/instance=trial"
ADMISSION = ("mutatingadmissionpolicies", "validatingadmissionpolicies")
EVERYWHERE = (
    *("clusterroles", "clusterrolebindings"),
    *(f"{kind}.admissionregistration.k8s.io" for kind in ADMISSION),
    *(f"{kind.removesuffix('ies')}ybindings.admissionregistration.k8s.io" for kind in ADMISSION),
)
CLOSED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

SEES = {("get", "pods"), ("list", "pods"), ("watch", "pods"), ("get", "pods/log")}
NODES = {("list", "nodes"), ("watch", "nodes")}
RIGHTS: dict[str, set[tuple[str, str]]] = {
    "log-collector": {*SEES, *NODES, ("get", "nodes/proxy")},
    "migrator": {
        *SEES,
        *NODES,
        *((verb, "pods") for verb in ("patch", "delete")),
        *((verb, "batch/jobs") for verb in ("get", "list", "watch", "create", "patch", "delete")),
        *((verb, "services") for verb in ("create", "delete")),
        ("create", "events.k8s.io/events"),
        ("patch", "pods/resize"),
    },
    "resizer": {*SEES, *NODES, ("patch", "pods/resize")},
}
"""What each account may do, written down a second time; those that are not here may do nothing."""

ANYBODY = {("create", "authorization.k8s.io/selfsubjectaccessreviews")}
ANYBODY |= {("create", "authorization.k8s.io/selfsubjectrulesreviews")}
ANYBODY |= {("create", "authentication.k8s.io/selfsubjectreviews")}


@pytest.fixture(scope="module")
def place(lab: KubernetesLab) -> Iterator[Release]:
    """A namespace for the release, and the images that it needs."""
    if not Path(lab.folder.program("helm")).exists():
        pytest.skip("there is no Helm; get it with: make helm")
    lab.provide_services()
    made = Release(lab, f"chart-{secrets.token_hex(3)}")
    made.make_namespace()
    try:
        yield made
    finally:
        made.helm("uninstall", "trial", "--ignore-not-found")
        made.remove_namespace()


@pytest.fixture
def release(place: Release) -> Release:
    """The chart, installed with nothing but values, and ready; a test may have removed it, because tests have no order."""
    if "trial" not in place.helm("list", "--short").split():
        place.helm("install", "trial", str(CHART), "--wait", f"--timeout={TIMEOUT_S}s", values=VALUES)
    return place


def test_every_account_may_do_what_it_needs_and_nothing_else(release: Release, figures: Figures) -> None:
    """The API server's own answer is the table, in the namespace; in another one, only what concerns the whole cluster."""
    accounts = [each["metadata"]["name"] for each in release.items("serviceaccounts", OURS)]
    excess, missing = [], []
    for account in accounts:
        needed = RIGHTS.get(account.removeprefix(f"{NAME}-"), set())
        here, away = (_rights(release, account, place) for place in (release.namespace, "default"))
        missing += [(account, *one) for one in sorted(needed - here)]
        excess += [(account, *one) for one in sorted(here - needed)]
        excess += [(account, *one) for one in sorted(away) if not one[1].startswith("nodes")]
    figures.count(rbac_excess=len(excess))

    assert len(accounts) == 12
    assert (missing, excess) == ([], [])


def test_helm_test_passes(release: Release) -> None:
    """Topics are as they should be, the log can be read, and the gateway answers."""
    assert "Phase:          Succeeded" in release.helm("test", "trial", f"--timeout={TIMEOUT_S}s")


def test_jobs_move_are_resized_and_outlive_the_release(release: Release, figures: Figures) -> None:
    """A job continues on another node at its saved step, a limit is in the control group, and nothing ends with Steepest."""
    source = Path(exclusive_training.__file__).read_text()
    with LimitSampler() as limits:
        for name in JOBS:
            job = ("--cpu", "0.1", "--memory", "64Mi", "--", "python3", "-c", source, "/steepest/checkpoints")
            release.steepest("submit", "--name", name, *job)
        _await(lambda: _all_run(release), "all jobs run")
        moved = _await(lambda: _moved(release), "a job is on another node")
        _await(lambda: any(min(seen) < LARGEST_M for seen in limits.seen.values()), "a job has a lower limit")

    assert {LARGEST_M} < set().union(*limits.seen.values())
    restored, saved = _restored_and_saved(release, moved)
    assert restored in saved

    release.helm(
        "upgrade", "trial", str(CHART), "--wait", f"--timeout={TIMEOUT_S}s", values={**VALUES, "heartbeatMs": 700}
    )
    release.helm("rollback", "trial", "1", "--wait", f"--timeout={TIMEOUT_S}s")
    asked = list(release.asked_of_the_api_server())  # before its rights go, which is before its pods end
    refused = [(one["user"]["username"], one["requestURI"]) for one in asked if one["responseStatus"]["code"] == 403]
    release.helm("uninstall", "trial", "--wait", f"--timeout={TIMEOUT_S}s")
    _await(lambda: not _left(release), "nothing of the release is left", lambda: _left(release))
    alone = _all_run(release)
    assert alone, release.kubectl("get", "pods,jobs", "-o", "wide")
    uids = {name: pod["metadata"]["uid"] for name, pod in alone.items()}
    before = {name: _steps(release, name) for name in JOBS}
    _await(lambda: all(_steps(release, name) > before[name] for name in JOBS), "all jobs make steps")
    for name in JOBS:
        (release.folder(name) / "checkpoints" / "enough").touch()
    ended = _await(lambda: _succeeded(release), "all jobs have finished")

    failed = sum(each["status"].get("failed", 0) for each in ended)
    twice = [mark.name for name in JOBS for mark in release.folder(name).glob("checkpoints/*.twice")]
    figures.count(status_failed=failed, doubled=len(twice), orphans=len(_left(release)))
    assert (failed, twice, refused) == (0, [], [])
    assert {pod["metadata"]["uid"] for pod in release.items("pods", "steepest.dev/managed=true")} >= {*uids.values()}
    resized = [one for one in asked if one["objectRef"].get("subresource") == "resize"]
    assert {_who(one) for one in resized if _of(one["objectRef"]["name"]) in JOBS} == {"resizer"}
    assert {_who(one) for one in asked if one["objectRef"]["resource"] == "jobs"} == {"migrator"}


def test_a_job_that_a_user_makes_is_scheduled(release: Release, figures: Figures) -> None:
    """The API server gates it, the release gives it a place, and it finishes as it would alone."""
    _await(lambda: _users_job(release, "--dry-run=server")["spec"].get("suspend"), "users' Jobs are gated")
    made = _users_job(release)
    try:
        running = _await(lambda: [one for one in release.items("pods", "job-name=users") if _runs(one)], "it runs")
        folder = release.folder(f"users.{made['metadata']['uid'][:8]}")
        hello = folder / "0" / "1" / "control" / "hello.json"
        _await(hello.exists, "it finds its folders")
        (folder / "checkpoints" / "enough").touch()
        release.kubectl("wait", "--for=condition=Complete", "job/users", f"--timeout={PATIENCE_S:g}s")
        (ended,) = release.items("jobs", "steepest.dev/schedule=true")
    finally:
        release.kubectl("delete", "job", "users", "--ignore-not-found")
    figures.count(status_failed=ended["status"].get("failed", 0))
    changed = [one for one in release.asked_of_the_api_server() if one["objectRef"].get("name") == _pod(running[0])]

    assert made["spec"]["suspend"] is True
    assert _incarnation(running[0]) == "1"
    assert (ended["metadata"]["uid"], ended["status"].get("failed", 0)) == (made["metadata"]["uid"], 0)
    assert {_who(one) for one in changed if one["objectRef"].get("subresource") is None} == {"migrator"}


def _users_job(release: Release, *options: str) -> dict[str, Any]:
    """What the API server makes of a Job as a user writes it, for a namespace that admits only pods that are closed."""
    source = Path(exclusive_training.__file__).read_text()
    container = {
        "name": "train",
        "image": DEMO,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", source, "/steepest/checkpoints"],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": CLOSED,
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 12345, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "users", "namespace": release.namespace, "labels": {"steepest.dev/schedule": "true"}},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }
    made: dict[str, Any] = json.loads(release.lab.kubectl("create", "-f", "-", "-o", "json", *options, content=job))
    return made


def _runs(pod: dict[str, Any]) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _pod(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def _rights(release: Release, account: str, namespace: str) -> set[tuple[str, str]]:
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


def _await(ask: Callable[[], T | None], what: str, why: Callable[[], object] = str) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if (found := ask()) and found is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not in {PATIENCE_S:g} s: {what} {why()}")


def _all_run(release: Release) -> dict[str, dict[str, Any]]:
    found = release.jobs_pods()
    return found if set(found) == set(JOBS) else {}


def _moved(release: Release) -> str:
    """A job that runs on the node where none is placed first, in another incarnation than the first one."""
    found = _all_run(release).items()
    return next((name for name, pod in found if pod["spec"]["nodeName"] == "node-b" and _incarnation(pod) != "1"), "")


def _incarnation(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["annotations"]["steepest.dev/incarnation"])


def _restored_and_saved(release: Release, job: str) -> tuple[int | None, set[int]]:
    """The step from which the newest incarnation resumed, and those of the manifests on the volume."""
    folder = release.folder(job)
    hello = max((folder / "0").iterdir(), key=lambda path: int(path.name)) / "control" / "hello.json"
    _await(hello.exists, "the job greets")
    saved = {json.loads(path.read_text())["step"] for path in folder.glob("checkpoints/*/manifest.json")}
    return json.loads(hello.read_text())["restored_step"], saved


def _left(release: Release) -> list[str]:
    """The objects of the release that are there."""
    kinds = ["deployments", "statefulsets", "pods", "services", "configmaps", "secrets", "serviceaccounts", "jobs"]
    kinds += ["roles", "rolebindings", "networkpolicies", "poddisruptionbudgets", "persistentvolumeclaims"]
    names = release.kubectl("get", ",".join(kinds), "-l", OURS, "-o", "name").split()
    everywhere = release.lab.kubectl("get", ",".join(EVERYWHERE), "-l", OURS, "-o", "name").split()
    return names + [name for name in everywhere if f"/{release.namespace}-" in name]


def _steps(release: Release, job: str) -> int:
    """How much the job's newest incarnation has reported, in bytes."""
    newest = max((release.folder(job) / "0").iterdir(), key=lambda path: int(path.name))
    return (newest / "control" / "reports.jsonl").stat().st_size


def _succeeded(release: Release) -> list[dict[str, Any]]:
    found = [job for job in release.items("jobs", "steepest.dev/managed=true") if _of(job["metadata"]["name"]) in JOBS]
    return found if len(found) == len(JOBS) and all(each["status"].get("succeeded") for each in found) else []


def _of(name: str) -> str:
    """The job of a Job or pod that Steepest has made."""
    return name.partition("-")[0]


def _who(asked: dict[str, Any]) -> str:
    return str(asked["user"]["username"]).rpartition(f"{NAME}-")[2]
