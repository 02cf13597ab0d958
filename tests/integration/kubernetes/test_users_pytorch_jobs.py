"""PyTorchJobs that users make with kubectl, through the controller of Kubeflow's training operator."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.kubeflow_objects import users_pytorch_job
from tests.integration.kubernetes.moving_system import events_once_there, moving_system
from tests.integration.kubernetes.opted_in import (
    DEPLOY,
    opened_for,
    with_folder_of,
    written,
)
from tests.integration.kubernetes.test_rights import may
from tests.integration.kubernetes.users_gangs import (
    GANG,
    PODS,
    eventually,
    gives_way_and_goes_on,
    giving_way,
    listed,
    made,
    moves_and_goes_on,
)

from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

OF_THE_OTHER = "training.kubeflow.org/job-name=bystander"


@pytest.fixture
def open_for_pytorch_jobs(
    lab: KubernetesLab, training_operator: str, open_state: Path, tmp_path: Path
) -> Iterator[Path]:
    """A state folder on the volume, in a namespace that is open for users' PyTorchJobs."""
    if training_operator:
        pytest.skip(training_operator)
    policy = with_folder_of(open_state, DEPLOY / "opt-in-pytorchjob.yaml", tmp_path)
    probe = users_pytorch_job("probe", opted_in=True, workers=1)
    with opened_for(lab, "pytorchjobs", probe, policy, DEPLOY / "rights-pytorchjob.yaml"):
        yield open_state


@pytest.mark.timeout(300)
def test_a_pytorch_job_gives_way_and_goes_on(
    lab: KubernetesLab, kubeconfig: Path, open_for_pytorch_jobs: Path, figures: Figures
) -> None:
    """Whole, without a failure: its operator counts none, and starts none of its pods again by itself."""
    lab.kubectl("create", "-f", "-", content=users_pytorch_job("bystander", opted_in=False, workers=1))
    with giving_way(lab, kubeconfig, open_for_pytorch_jobs, "--kind", "PyTorchJob") as system:
        gives_way_and_goes_on(system, lab, users_pytorch_job(GANG, opted_in=True, workers=PODS - 1), "Succeeded")
    status = made(lab, "pytorchjob", GANG)["status"]
    failed = sum(each.get("failed", 0) for each in status["replicaStatuses"].values())
    untouched = [name for name in written(lab) if name.startswith("bystander")]
    figures.count(status_failed=failed, untouched_writes=len(untouched))

    assert (failed, untouched) == (0, [])
    assert "Failed" not in {each["type"] for each in status["conditions"]}
    eventually(
        lambda: [pod["status"]["phase"] for pod in listed(lab, "pods", OF_THE_OTHER)] == ["Running"] * 2,
        "another one runs as it would",
    )


@pytest.mark.timeout(300)
def test_a_pytorch_job_moves_to_another_node(
    lab: KubernetesLab, kubeconfig: Path, open_for_pytorch_jobs: Path, figures: Figures
) -> None:
    """By a suspension and a resumption, one right after the other: what was stopped is gone before it could count."""
    with moving_system(lab, kubeconfig, open_for_pytorch_jobs, "--kind", "PyTorchJob") as system:
        asked = functools.partial(users_pytorch_job, opted_in=True, workers=0)
        moved = moves_and_goes_on(system, lab, asked, "Succeeded")
    failed = sum(each.get("failed", 0) for each in moved["status"]["replicaStatuses"].values())
    figures.count(status_failed=failed)

    assert failed == 0


@pytest.mark.timeout(300)
def test_a_pytorch_job_that_cannot_be_scheduled_says_why(
    lab: KubernetesLab, kubeconfig: Path, open_for_pytorch_jobs: Path
) -> None:
    """It stays suspended."""
    wrong = users_pytorch_job("wrong", opted_in=True, workers=1, restartPolicy="ExitCode")
    with giving_way(lab, kubeconfig, open_for_pytorch_jobs, "--kind", "PyTorchJob") as system:
        lab.kubectl("create", "-f", "-", content=wrong)
        left = made(lab, "pytorchjob", "wrong")
        (said,) = events_once_there(lab, left["metadata"]["uid"], {"LeftAlone"}, kind="PyTorchJob")

        assert "set restartPolicy to Never" in said["message"]
        assert made(lab, "pytorchjob", "wrong")["spec"]["runPolicy"]["suspend"] is True
        assert system.ask("jobs") == []


def test_rights_on_pytorch_jobs_are_those_that_are_needed(
    lab: KubernetesLab, kubeconfig: Path, open_for_pytorch_jobs: Path, figures: Figures
) -> None:
    """To see and to change them in the namespace."""
    del open_for_pytorch_jobs
    verbs = ("get", "list", "watch", "create", "patch", "update", "delete", "deletecollection")
    allowed = {verb for verb in verbs if may(lab, kubeconfig, verb, "pytorchjobs.kubeflow.org", NAMESPACE)}
    away = [verb for verb in verbs if may(lab, kubeconfig, verb, "pytorchjobs.kubeflow.org", "default")]
    needed = {"list", "watch", "patch"}
    figures.count(rbac_excess=len(allowed - needed) + len(away))

    assert (allowed, away) == (needed, [])
