"""Jobs with both labels where Steepest may schedule what Kueue has admitted: quotas stay Kueue's, places are Steepest's."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.kueue.queued_jobs import (
    PREEMPTING,
    URGENT,
    condition,
    in_queue,
    is_admitted,
    phases,
    queued,
    workload,
)
from tests.integration.kubernetes.moving_system import moving_system
from tests.integration.kubernetes.opted_in import (
    DEPLOY,
    changes,
    users_job,
    with_folder_of,
)
from tests.integration.kubernetes.users_gangs import (
    GANG,
    PODS,
    TRAIN,
    eventually,
    giving_way,
    job_of,
    made,
    moves_and_goes_on,
    placed,
    pods_of,
    suspended,
)

from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.events.received import Received
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

UNLESS_QUEUED = """  - name: not-in-a-queue-of-kueue
    expression: "!('kueue.x-k8s.io/queue-name' in object.metadata.?labels.orValue({}))"
"""


@pytest.fixture
def open_for_queued(lab: KubernetesLab, queues: Path, tmp_path: Path) -> Iterator[Path]:
    """A namespace where opted-in Jobs in queues of Kueue are gated too."""
    policy = with_folder_of(queues, DEPLOY / "opt-in.yaml", tmp_path)
    whole = policy.read_text()
    assert UNLESS_QUEUED in whole
    policy.write_text(whole.replace(UNLESS_QUEUED, ""))
    rights = DEPLOY / "rights-kueue.yaml"
    lab.kubectl("apply", "-f", str(policy), "-f", str(rights))
    _await_gate(lab)
    yield queues
    lab.kubectl("delete", "-f", str(rights))


def _await_gate(lab: KubernetesLab) -> None:
    probe = queued("probe", opted_in=True)

    def is_gated() -> bool:
        try:
            seen = json.loads(lab.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", content=probe))
        except ClusterError:
            return False
        return "schedulingGates" in seen["spec"]["template"]["spec"]

    eventually(is_gated, "the changed policy has an effect")


@pytest.mark.timeout(300)
def test_a_job_is_scheduled_once_it_is_admitted(lab: KubernetesLab, kubeconfig: Path, open_for_queued: Path) -> None:
    """While Kueue has no quota for it, it is no job of the pool."""
    with giving_way(lab, kubeconfig, open_for_queued) as system:
        lab.kubectl("create", "-f", "-", content=queued("first", opted_in=False, cpu="190m"))
        eventually(lambda: phases(lab, "first") == ["Running"], "another Job has the quota")
        lab.kubectl("create", "-f", "-", content=queued("later", opted_in=True))
        eventually(lambda: "steepest.dev/cluster" in made(lab, "job", "later")["metadata"]["labels"], "it is marked")
        eventually(lambda: condition(lab, "later", "QuotaReserved") == "False", "Kueue has looked at it")
        asked = system.ask("jobs")
        lab.kubectl("-n", NAMESPACE, "delete", "job", "first")
        later = job_of(made(lab, "job", "later"))
        system.await_event(functools.partial(placed, job=later, incarnation=1))

        assert asked == []
        assert is_admitted(lab, "later")
        eventually(lambda: phases(lab, "later") == ["Running"], "it runs")
        assert [each["job"] for each in system.ask("jobs")] == [later]
        assert system.breaches() == []


@pytest.mark.timeout(300)
def test_a_gang_gives_way_and_its_quota_goes_to_others(
    lab: KubernetesLab, kubeconfig: Path, open_for_queued: Path, figures: Figures
) -> None:
    """Its Workload is inactive meanwhile; it goes on from the step saved once Kueue admits it again."""
    earlier = len(changes(lab))
    with giving_way(lab, kubeconfig, open_for_queued) as system:
        lab.kubectl("create", "-f", "-", content=in_queue(users_job(GANG, opted_in=True, pods=PODS)))
        job = job_of(made(lab, "job", GANG))
        folder = system.state / "cluster" / "jobs" / job
        system.await_event(functools.partial(placed, job=job, incarnation=1))
        eventually((folder / "0" / "1" / "control" / "reports.jsonl").exists, "its first replica makes steps")
        lab.kubectl("create", "-f", "-", content=queued("other", opted_in=False, cpu="190m"))

        system.submit("urgent", *TRAIN, options=("--cpu", "0.1", "--priority", "urgent"))
        system.await_event(functools.partial(suspended, job=job))
        eventually(lambda: phases(lab, "other") == ["Running"], "another Job has got its quota")
        held = workload(lab, GANG)
        saved = max(json.loads(path.read_text())["step"] for path in folder.glob("checkpoints/*/manifest.json"))
        lab.kubectl("-n", NAMESPACE, "delete", "job", "other")
        system.call("cancel", "urgent")
        system.await_event(functools.partial(placed, job=job, incarnation=2))
        greeting = folder / "0" / "2" / "control" / "hello.json"
        eventually(greeting.exists, "it goes on")
        hello, again = json.loads(greeting.read_text()), pods_of(lab, job)
        (folder / "checkpoints" / "enough").touch()
        ended = system.await_end(job)
        lab.kubectl("-n", NAMESPACE, "wait", "--for=condition=Complete", f"job/{GANG}", "--timeout=60s")
        failed = made(lab, "job", GANG)["status"].get("failed", 0)
        figures.count(status_failed=failed)

        assert (ended.outcome, failed) == (c.Outcome.FINISHED, 0)
        assert (held["spec"]["active"], "steepest.dev/held" in held["metadata"]["annotations"]) == (False, True)
        assert hello["restored_step"] == saved
        assert {pod["metadata"]["labels"]["steepest.dev/replica"] for pod in again} == {"0", "1", "2"}
        assert list(folder.glob("checkpoints/*.twice")) == []
        assert system.breaches() == []
    eventually(lambda: condition(lab, GANG, "Finished") == "True", "Kueue knows that it is over")
    marked, deactivated, activated = ("jobs", "workloads", "workloads")
    assert _writes(lab, earlier) == [marked, deactivated, activated]


@pytest.mark.timeout(300)
def test_jobs_move_and_go_on(lab: KubernetesLab, kubeconfig: Path, open_for_queued: Path) -> None:
    """At no step's cost, as others do."""

    def asked(name: str) -> dict[str, Any]:
        return in_queue(users_job(name, opted_in=True))

    with moving_system(lab, kubeconfig, open_for_queued) as system:
        moved = moves_and_goes_on(system, lab, asked, "Complete")

    assert moved["status"].get("failed", 0) == 0


@pytest.mark.timeout(300)
def test_a_job_that_kueue_preempts_goes_on_when_it_is_admitted_again(
    lab: KubernetesLab, kubeconfig: Path, open_for_queued: Path
) -> None:
    """From the step that it saved when Kueue stopped it."""
    with giving_way(lab, kubeconfig, open_for_queued) as system:
        lab.kubectl("create", "-f", "-", content=in_queue(users_job(GANG, opted_in=True), PREEMPTING))
        job = job_of(made(lab, "job", GANG))
        folder = system.state / "cluster" / "jobs" / job
        system.await_event(functools.partial(placed, job=job, incarnation=1))
        eventually((folder / "0" / "1" / "control" / "reports.jsonl").exists, "it makes steps")
        first = queued("first", opted_in=False, cpu="190m", queue=PREEMPTING)
        lab.kubectl(
            "create", "-f", "-", content=in_queue(first, PREEMPTING, **{"kueue.x-k8s.io/priority-class": URGENT})
        )
        system.await_event(functools.partial(_waits_again, job=job))
        eventually(lambda: phases(lab, "first") == ["Running"], "another Job has its quota")
        saved = max(json.loads(path.read_text())["step"] for path in folder.glob("checkpoints/*/manifest.json"))
        lab.kubectl("-n", NAMESPACE, "delete", "job", "first")
        eventually(lambda: _greeted_again(folder) is not None, "it goes on", patience_s=150)
        hello = _greeted_again(folder)
        (folder / "checkpoints" / "enough").touch()

        assert system.await_end(job).outcome is c.Outcome.FINISHED
        assert hello is not None
        assert hello["restored_step"] == saved
        assert list(folder.glob("checkpoints/*.twice")) == []
        assert system.breaches() == []


@pytest.mark.timeout(300)
def test_what_a_user_has_deactivated_is_not_activated(
    lab: KubernetesLab, kubeconfig: Path, open_for_queued: Path
) -> None:
    """It waits until its user says otherwise."""
    earlier = len(changes(lab))
    with giving_way(lab, kubeconfig, open_for_queued) as system:
        lab.kubectl("create", "-f", "-", content=in_queue(users_job(GANG, opted_in=True)))
        job = job_of(made(lab, "job", GANG))
        folder = system.state / "cluster" / "jobs" / job
        system.await_event(functools.partial(placed, job=job, incarnation=1))
        eventually((folder / "0" / "1" / "control" / "reports.jsonl").exists, "it makes steps")
        name = workload(lab, GANG)["metadata"]["name"]
        of_kueue = ("-n", NAMESPACE, "patch", "workloads.kueue.x-k8s.io", name, "--type=merge", "-p")
        lab.kubectl(*of_kueue, json.dumps({"spec": {"active": False}}))
        refused = system.await_event(functools.partial(_start_refused, job=job))

        assert "inactive, and not by Steepest" in refused
        assert workload(lab, GANG)["spec"]["active"] is False
        assert not [one for one in changes(lab)[earlier:] if one["objectRef"].get("resource") == "workloads"]
        lab.kubectl(*of_kueue, json.dumps({"spec": {"active": True}}))
        eventually(lambda: _greeted_again(folder) is not None, "it goes on", patience_s=150)
        (folder / "checkpoints" / "enough").touch()
        assert system.await_end(job).outcome is c.Outcome.FINISHED


def _greeted_again(folder: Path) -> dict[str, Any] | None:
    """What the first replica said as it went on: a start that was not admitted was an incarnation too."""
    said = [folder / "0" / str(incarnation) / "control" / "hello.json" for incarnation in range(2, 9)]
    return next((json.loads(each.read_text()) for each in said if each.exists()), None)


def _writes(lab: KubernetesLab, earlier: int) -> list[str]:
    """What Steepest has written to the Job and to what Kueue has made of it."""
    done = [one for one in changes(lab)[earlier:] if one["responseStatus"]["code"] == HTTPStatus.OK]
    names = {GANG, workload(lab, GANG)["metadata"]["name"]}
    return [one["objectRef"]["resource"] for one in done if one["objectRef"].get("name") in names]


def _waits_again(found: Received[c.ClusterEvent], job: str) -> bool | None:
    return (isinstance(found.event, c.RetryPlanned) and found.event.job == job) or None


def _start_refused(found: Received[c.ClusterEvent], job: str) -> str | None:
    event = found.event
    if isinstance(event, c.StepFailed) and (event.job, event.code) == (job, "not-admitted"):
        return event.message
    return None
