"""Steepest and Kueue in one namespace: each has the Jobs that are labelled for it, and one with both labels is Kueue's."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from tests.integration.kubernetes.kueue.queued_jobs import (
    by_kueue,
    by_steepest,
    is_admitted,
    owners_of_workloads,
    phases,
    queued,
)
from tests.integration.kubernetes.moving_system import events_once_there
from tests.integration.kubernetes.opted_in import users_job
from tests.integration.kubernetes.users_gangs import eventually, giving_way, job_of, made, placed, pods_of

from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE


@pytest.mark.timeout(300)
def test_each_has_its_own_jobs(lab: KubernetesLab, kubeconfig: Path, queues: Path) -> None:
    """Kueue makes no Workload of an opted-in Job, and Steepest writes to none of Kueue's, while both run."""
    earlier = len(by_kueue(lab))
    with giving_way(lab, kubeconfig, queues) as system:
        lab.kubectl("create", "-f", "-", content=users_job("ours", opted_in=True))
        lab.kubectl("create", "-f", "-", content=queued("theirs", opted_in=False))
        ours = job_of(made(lab, "job", "ours"))
        system.await_event(functools.partial(placed, job=ours, incarnation=1))
        eventually(lambda: is_admitted(lab, "theirs"), "Kueue admits its Job")
        eventually(lambda: phases(lab, "theirs") == ["Running"], "which then runs")
        eventually(lambda: [pod["status"]["phase"] for pod in pods_of(lab, ours)] == ["Running"], "ours runs too")

        assert owners_of_workloads(lab) == ["theirs"]
        assert not [name for name in by_kueue(lab)[earlier:] if name == "ours"]
        assert not [name for name in by_steepest(lab) if name.startswith("theirs")]
        assert [each["job"] for each in system.ask("jobs")] == [ours]
        assert system.breaches() == []


@pytest.mark.timeout(300)
def test_a_job_with_both_labels_is_kueues_and_its_user_is_told(
    lab: KubernetesLab, kubeconfig: Path, queues: Path
) -> None:
    """Its pods have no gate, so it runs once Kueue has admitted it; Steepest writes an Event about it, and nothing else."""
    with giving_way(lab, kubeconfig, queues) as system:
        lab.kubectl("create", "-f", "-", content=queued("both", opted_in=True))
        found = made(lab, "job", "both")
        (said,) = events_once_there(lab, found["metadata"]["uid"], {"LeftAlone"})
        eventually(lambda: phases(lab, "both") == ["Running"], "it runs as Kueue has it")

        assert "without the label kueue.x-k8s.io/queue-name, or without steepest.dev/schedule" in said["message"]
        assert is_admitted(lab, "both")
        assert not [name for name in by_steepest(lab) if name.startswith("both")]
        assert system.ask("jobs") == []


def test_kueue_alone_says_whether_its_jobs_are_suspended(lab: KubernetesLab, queues: Path) -> None:
    """It resumes what it has admitted and suspends what it has not, also against a change of another party."""
    del queues
    lab.kubectl("create", "-f", "-", content=queued("admitted", opted_in=False))
    lab.kubectl("create", "-f", "-", content=queued("waits", opted_in=False, cpu="190m"))
    eventually(lambda: phases(lab, "admitted") == ["Running"], "the first one runs")
    eventually(lambda: owners_of_workloads(lab) == ["admitted", "waits"], "the second one waits for quota")
    earlier = len(by_kueue(lab))
    for name, suspended in (("admitted", True), ("waits", False)):
        lab.kubectl("-n", NAMESPACE, "patch", "job", name, "-p", json.dumps({"spec": {"suspend": suspended}}))

    eventually(lambda: {"admitted", "waits"} <= set(by_kueue(lab)[earlier:]), "Kueue writes to both")
    eventually(lambda: made(lab, "job", "admitted")["spec"]["suspend"] is False, "the first one is resumed")
    eventually(lambda: made(lab, "job", "waits")["spec"]["suspend"] is True, "the second one is suspended")
    assert is_admitted(lab, "admitted")
    assert not is_admitted(lab, "waits")
