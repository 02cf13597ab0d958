"""What tests of users' own objects share: a namespace that is open for them, and such objects as users write them.

The witnesses are the API server's objects and audit log, and the files on the volume.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.integration import exclusive_training
from tests.integration.kubernetes.move_parts import ACCOUNT

from steepest.cluster.kubernetes.kinds.known import JOB, OTHERS
from steepest.cluster.kubernetes.kinds.users_object import is_suspended
from steepest.errors import ClusterError
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import CLAIM, NAMESPACE

DEPLOY = Path(__file__).parents[3] / "deploy" / "kubernetes"
OPEN = "steepest.dev/jobs"
OPTED_IN = {"steepest.dev/schedule": "true"}


@contextlib.contextmanager
def opened(lab: KubernetesLab, folder: Path) -> Iterator[Path]:
    """A state folder on the volume; the namespace is open for users' Jobs, whose pods will mount it.

    Args:
        lab: The lab.
        folder: Where files of the test may lie.
    """
    state = lab.folder.volume / f"users-{secrets.token_hex(4)}"
    policy = with_folder_of(state, DEPLOY / "opt-in.yaml", folder)
    lab.kubectl("apply", "-f", str(policy))
    lab.kubectl("label", "namespace", NAMESPACE, f"{OPEN}=true", "--overwrite")
    wait_until_suspended(lab, users_job("probe", opted_in=True))
    yield state
    lab.kubectl("label", "namespace", NAMESPACE, f"{OPEN}-")
    lab.kubectl("delete", "-f", str(policy))
    _await_suspended(lab, users_job("probe", opted_in=True), suspended=False)


def with_folder_of(state: Path, policy: Path, into: Path) -> Path:
    """A policy as an administrator adapts it: with the path of this state folder's files on the volume."""
    made = into / policy.name
    made.write_text(policy.read_text().replace('"steepest/cluster"', f'"{state.name}/cluster"'))
    return made


@contextlib.contextmanager
def opened_for(lab: KubernetesLab, plurals: str, probe: dict[str, Any], *files: Path) -> Iterator[None]:
    """A namespace that is also open for users' objects of another kind, by these files; they are all gone afterwards."""
    named = [argument for path in files for argument in ("-f", str(path))]
    lab.kubectl("apply", *named)
    wait_until_suspended(lab, probe)
    yield
    lab.kubectl("delete", *named)
    _await_suspended(lab, probe, suspended=False)  # before what the probe refers to is deleted
    lab.kubectl("-n", NAMESPACE, "delete", plurals, "--all")


def wait_until_suspended(lab: KubernetesLab, probe: dict[str, Any]) -> None:
    """The server compiles a new policy within seconds; a dry run says when it has."""
    _await_suspended(lab, probe, suspended=True)


def _await_suspended(lab: KubernetesLab, probe: dict[str, Any], *, suspended: bool) -> None:
    """Wait; the server refuses a kind that a policy is about for a while after it has learned of that kind.

    A policy that was deleted goes on for a while too: the next test's probe would meet it, and its objects would not.
    """
    for _ in range(120):
        with contextlib.suppress(ClusterError):
            seen = lab.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", content=probe)
            if is_suspended(OTHERS.get(probe["kind"], JOB), json.loads(seen)) is suspended:
                return
        time.sleep(0.5)
    raise AssertionError(f"the policy {'has no effect' if suspended else 'has an effect still'}")


def template(command: list[str]) -> dict[str, Any]:
    """The template of pods as a user writes it."""
    container = {
        "name": "train",
        "image": DEMO,
        "imagePullPolicy": "Never",
        "command": command,
        "resources": {"requests": {"cpu": "50m"}},
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 10, "containers": [container]}
    return {"spec": pod}


@contextlib.contextmanager
def opened_team(lab: KubernetesLab, state: Path, folder: Path) -> Iterator[str]:
    """A further namespace as an administrator opens it: with a claim of the same volume, and rights; it goes afterwards.

    Args:
        lab: The lab.
        state: The state folder on the volume.
        folder: Where files of the test may lie.
    """
    team = f"team-{secrets.token_hex(3)}"
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "shared",
        "hostPath": {"path": str(lab.folder.volume)},
        "claimRef": {"namespace": team, "name": CLAIM},
    }
    claim = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "shared",
        "volumeName": team,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    items = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team, "labels": {OPEN: "true"}}},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": team}, "spec": volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": team},
            "spec": claim,
        },
    ]
    rights = folder / "rights-namespace.yaml"
    rights.write_text((DEPLOY / rights.name).read_text().replace("team-a", team))
    guard = with_folder_of(state, DEPLOY / "opt-in-namespace.yaml", folder)
    lab.kubectl("apply", "-f", "-", content={"apiVersion": "v1", "kind": "List", "items": items})
    lab.kubectl("apply", "-f", str(rights), "-f", str(guard))
    wait_until_suspended(lab, placed_in(team, users_job("probe", opted_in=True)))
    _await_guard(lab, team)
    try:
        yield team
    finally:
        lab.kubectl("delete", "-f", str(guard))
        lab.kubectl("delete", "namespace", team, "--wait=false")
        lab.kubectl("delete", "persistentvolume", team, "--wait=false")


def _await_guard(lab: KubernetesLab, team: str) -> None:
    """Wait until no pod of a further namespace may mount the whole volume."""
    volume = {"name": "all", "persistentVolumeClaim": {"claimName": CLAIM}}
    container = {"name": "curious", "image": "i", "volumeMounts": [{"name": "all", "mountPath": "/all"}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "curious", "namespace": team},
        "spec": {"volumes": [volume], "containers": [container]},
    }
    for _ in range(120):
        try:
            lab.kubectl("create", "--dry-run=server", "-f", "-", content=pod)
        except ClusterError as error:
            if "the volume of Steepest is for pods" in str(error):
                return
        time.sleep(0.5)
    raise AssertionError("the policy of the volume has no effect")


def placed_in(namespace: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The same object in another namespace."""
    return {**asked, "metadata": {**asked["metadata"], "namespace": namespace}}


def training() -> dict[str, Any]:
    """The template of pods that train, and detect a second copy of themselves."""
    return template(["python3", "-c", Path(exclusive_training.__file__).read_text(), "/steepest/checkpoints"])


def users_job(name: str, *, opted_in: bool, pods: int = 1) -> dict[str, Any]:
    """A Job as a user writes it; it knows nothing of Steepest but the label."""
    size = {"parallelism": pods, "completions": pods, "completionMode": "Indexed"} if pods > 1 else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": OPTED_IN if opted_in else {}},
        "spec": {"backoffLimit": 0, **size, "template": training() if opted_in else template(["sleep", "3600"])},
    }


def users_job_set(name: str, *, opted_in: bool, **spec: Any) -> dict[str, Any]:
    """A JobSet of one leader and two workers, likewise."""
    pods = training() if opted_in else template(["sleep", "3600"])
    roles = [
        {"name": role, "template": {"spec": {"backoffLimit": 0, "parallelism": n, "completions": n, "template": pods}}}
        for role, n in (("leader", 1), ("worker", 2))
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": OPTED_IN if opted_in else {}},
        "spec": {"replicatedJobs": roles, **spec},
    }


def written(lab: KubernetesLab) -> list[str]:
    """Names of what the audit log says that Steepest has written to."""
    names = [line["objectRef"].get("name", "") for line in changes(lab)]
    assert names
    return names


def changes(lab: KubernetesLab) -> list[dict[str, Any]]:
    """What the audit log says that Steepest has asked for, in its order."""
    lines = map(json.loads, lab.folder.audit.read_text().splitlines())
    return [line for line in lines if line["user"]["username"] == ACCOUNT]
