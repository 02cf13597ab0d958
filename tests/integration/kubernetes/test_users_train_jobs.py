"""TrainJobs that users make with kubectl, through the controllers of Kubeflow's Trainer and of JobSet."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.kubeflow_objects import runtime, users_train_job
from tests.integration.kubernetes.moving_system import events_once_there, moving_system
from tests.integration.kubernetes.opted_in import DEPLOY, opened_for, written
from tests.integration.kubernetes.test_rights import may
from tests.integration.kubernetes.users_gangs import (
    GANG,
    PODS,
    eventually,
    gives_way_and_goes_on,
    giving_way,
    job_of,
    listed,
    made,
    moves_and_goes_on,
    placed,
)

from steepest.events import cluster as c
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE


@pytest.fixture
def open_for_train_jobs(lab: KubernetesLab, trainer: str, open_state: Path) -> Iterator[Path]:
    """A state folder on the volume, in a namespace that is open for users' TrainJobs, with a runtime."""
    if trainer:
        pytest.skip(trainer)
    files = (DEPLOY / "opt-in-trainjob.yaml", DEPLOY / "rights-trainjob.yaml")
    lab.kubectl("apply", "-f", "-", content=runtime())
    with opened_for(lab, "trainjobs,trainingruntimes", users_train_job("probe", opted_in=True, nodes=1), *files):
        yield open_state


@pytest.mark.timeout(300)
def test_a_train_job_gives_way_and_goes_on(
    lab: KubernetesLab, kubeconfig: Path, open_for_train_jobs: Path, figures: Figures
) -> None:
    """Whole, without a failure; only it is written, not the JobSet that its Trainer makes, and no other TrainJob."""
    lab.kubectl("create", "-f", "-", content=users_train_job("bystander", opted_in=False, nodes=2))
    with giving_way(lab, kubeconfig, open_for_train_jobs, "--kind", "TrainJob") as system:
        gives_way_and_goes_on(system, lab, users_train_job(GANG, opted_in=True, nodes=PODS), "Complete")
    (job,) = listed(lab, "jobs", f"jobset.sigs.k8s.io/jobset-name={GANG}")
    failed = job["status"].get("failed", 0)
    untouched = [name for name in written(lab) if name.startswith("bystander")]
    figures.count(status_failed=failed, untouched_writes=len(untouched))

    assert (failed, untouched) == (0, [])
    assert job["status"]["succeeded"] == PODS
    eventually(
        lambda: len(listed(lab, "pods", "jobset.sigs.k8s.io/jobset-name=bystander")) == 2,
        "another one runs as it would",
    )
    assert not made(lab, "jobset", "bystander")["spec"].get("suspend", False)


@pytest.mark.timeout(300)
def test_a_train_job_moves_to_another_node(
    lab: KubernetesLab, kubeconfig: Path, open_for_train_jobs: Path, figures: Figures
) -> None:
    """By a suspension and a resumption, one right after the other."""
    with moving_system(lab, kubeconfig, open_for_train_jobs, "--kind", "TrainJob") as system:
        asked = functools.partial(users_train_job, opted_in=True, nodes=1)
        moved = moves_and_goes_on(system, lab, asked, "Complete")
    failed = sum(each["failed"] for each in moved["status"]["jobsStatus"])
    figures.count(status_failed=failed)

    assert failed == 0


@pytest.mark.timeout(300)
def test_a_train_job_that_cannot_be_scheduled_says_what_to_change_in_its_runtime(
    lab: KubernetesLab, kubeconfig: Path, open_for_train_jobs: Path
) -> None:
    """It stays suspended; one that is deleted is cancelled."""
    lab.kubectl("apply", "-f", "-", content=runtime("restarting", failurePolicy={"maxRestarts": 3}))
    with giving_way(lab, kubeconfig, open_for_train_jobs, "--kind", "TrainJob") as system:
        wrong = users_train_job("wrong", opted_in=True, nodes=2, named="restarting")
        lab.kubectl("create", "-f", "-", content=wrong)
        left = made(lab, "trainjob", "wrong")
        (said,) = events_once_there(lab, left["metadata"]["uid"], {"LeftAlone"}, kind="TrainJob")
        assert "in the runtime that it names, set failurePolicy.maxRestarts to 0" in said["message"]
        assert made(lab, "trainjob", "wrong")["spec"]["suspend"] is True

        lab.kubectl("create", "-f", "-", content=users_train_job(GANG, opted_in=True, nodes=2))
        job = job_of(made(lab, "trainjob", GANG))
        system.await_event(functools.partial(placed, job=job, incarnation=1))
        assert [each["job"] for each in system.ask("jobs")] == [job]
        lab.kubectl("-n", NAMESPACE, "delete", "trainjob", GANG)
        assert system.await_end(job).outcome is c.Outcome.CANCELLED
        assert system.breaches() == []


def test_rights_on_train_jobs_are_those_that_are_needed(
    lab: KubernetesLab, kubeconfig: Path, open_for_train_jobs: Path, figures: Figures
) -> None:
    """To see and to change them in the namespace, and to read the JobSet of one."""
    del open_for_train_jobs
    resources = ("trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io", "trainingruntimes.trainer.kubeflow.org")
    verbs = ("get", "list", "watch", "create", "patch", "update", "delete", "deletecollection")
    allowed = {
        (verb, resource.partition(".")[0])
        for resource in resources
        for verb in verbs
        if may(lab, kubeconfig, verb, resource, NAMESPACE)
    }
    away = [each for each in resources for verb in verbs if may(lab, kubeconfig, verb, each, "default")]
    needed = {*((verb, "trainjobs") for verb in ("list", "watch", "patch")), ("get", "jobsets")}
    figures.count(rbac_excess=len(allowed - needed) + len(away))

    assert (allowed, away) == (needed, [])
