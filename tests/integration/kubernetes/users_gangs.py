"""What tests of users' objects of several pods share: a system in which they give way, and what its witnesses say.

The witnesses are kubectl, the audit log, the log of the pool, and the files that the pods leave.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.harness.system.running_system import RunningSystem
from tests.integration.kubernetes.moving_system import events_once_there, finished_move, lab_system
from tests.integration.kubernetes.opted_in import changes

from steepest.cluster.kubernetes.kinds.known import JOB, OTHERS
from steepest.cluster.kubernetes.kinds.users_object import is_suspended
from steepest.events import cluster as c
from steepest.events.received import Received
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

PODS = 3
GANG = "opted-in-gang"
"""Named so that other tests that read the audit log know it."""

MOVING = ("opted-in-mine", "opted-in-hers", "opted-in-his")
PATIENCE_S = 60.0
TRAIN = ("python3", "-c", "import time; time.sleep(3600)")


def giving_way(lab: KubernetesLab, kubeconfig: Path, state: Path, *options: str) -> Any:
    """A system on two nodes for two replicas each, in which urgent jobs have others suspended."""
    nodes = ("node-a=0.1:2Gi", "node-b=0.1:2Gi")
    ways = ("--policy", "spread", "--queueing", "priority", "--preempt", "--min-run", "1ms")
    return lab_system(lab, kubeconfig, state, nodes, *ways, *options)


def gives_way_and_goes_on(system: RunningSystem, lab: KubernetesLab, asked: dict[str, Any], over: str) -> None:
    """An object of a user runs with all of its pods, is suspended for an urgent job, and finishes after that."""
    kind, earlier, where = asked["kind"].lower(), len(changes(lab)), asked["metadata"]["namespace"]
    described = OTHERS.get(asked["kind"], JOB)
    lab.kubectl("create", "-f", "-", content=asked)
    before = made(lab, kind, GANG, where)
    job = job_of(before)
    folder = system.state / "cluster" / "jobs" / job
    system.await_event(functools.partial(placed, job=job, incarnation=1))
    began = pods_of(lab, job, where)
    eventually((folder / "0" / "1" / "control" / "reports.jsonl").exists, "its first replica makes steps")

    system.submit("urgent", *TRAIN, options=("--cpu", "0.1", "--priority", "urgent"))
    system.await_event(functools.partial(suspended, job=job))
    system.await_event(functools.partial(placed, job="urgent", incarnation=1))
    assert is_suspended(described, made(lab, kind, GANG, where))
    assert pods_of(lab, job, where) == []
    saved = max(json.loads(path.read_text())["step"] for path in folder.glob("checkpoints/*/manifest.json"))
    system.call("cancel", "urgent")
    system.await_event(functools.partial(placed, job=job, incarnation=2))
    greetings = [folder / str(rank) / "2" / "control" / "hello.json" for rank in range(PODS)]
    eventually(lambda: all(path.exists() for path in greetings), "all of its replicas go on")
    hello = json.loads(greetings[0].read_text())
    again = pods_of(lab, job, where)
    (folder / "checkpoints" / "enough").touch()
    ended = system.await_end(job)
    lab.kubectl("-n", where, "wait", f"--for=condition={over}", f"{kind}/{GANG}", "--timeout=60s")

    done = [one for one in changes(lab)[earlier:] if one["responseStatus"]["code"] == HTTPStatus.OK]
    of_it = [one for one in done if one["objectRef"].get("name") == GANG]
    of_pods = [
        one for one in done if one["objectRef"].get("name") in {each["metadata"]["name"] for each in began + again}
    ]

    assert ended.outcome is c.Outcome.FINISHED
    assert len(of_it) == len(("marked", "resumed", "suspended", "resumed"))
    placed_pods, freed = of_pods[: 2 * PODS], of_pods[2 * PODS :]
    assert [one["verb"] for one in placed_pods] == ["patch"] * 2 * PODS
    assert {(one["verb"], one["objectRef"]["name"]) for one in freed} <= {("delete", name) for name in outliving(again)}
    assert hello["restored_step"] == saved
    assert made(lab, kind, GANG, where)["metadata"]["uid"] == before["metadata"]["uid"]
    for pods in (began, again):
        assert {pod["metadata"]["labels"]["steepest.dev/replica"] for pod in pods} == {"0", "1", "2"}
        assert {pod["spec"]["nodeName"] for pod in pods} == {"node-a", "node-b"}
    assert list(folder.glob("checkpoints/*.twice")) == []
    assert {path.name for path in folder.glob("checkpoints/*.lock")} == {f"{job}.{rank}.lock" for rank in range(PODS)}
    assert system.breaches() == []
    events_once_there(lab, before["metadata"]["uid"], {"Placed", "Suspended", "Ended"}, where, asked["kind"])


def outliving(pods: list[dict[str, Any]]) -> set[str]:
    """Those that may still run when their job is over: the workers of a PyTorchJob, whose master's end is its end."""
    return {
        pod["metadata"]["name"]
        for pod in pods
        if pod["metadata"]["labels"].get("training.kubeflow.org/replica-type") == "worker"
    }


def moves_and_goes_on(
    system: RunningSystem, lab: KubernetesLab, asked: Callable[[str], dict[str, Any]], over: str
) -> dict[str, Any]:
    """Of users' objects of one pod each, one is moved to the other node at no step's cost, and all finish.

    Returns:
        The one that was moved, as it is then.
    """
    kind = asked("")["kind"].lower()
    for name in MOVING:
        lab.kubectl("create", "-f", "-", content=asked(name))
    jobs = {name: job_of(made(lab, kind, name)) for name in MOVING}
    # Where one of them has begun on the other node, the policy may move none: then it is a user who does.
    eventually(lambda: any(_is_on_its_way(system, job) for job in jobs.values()), "one of them moves")
    moved = system.await_event(finished_move)
    (whose,) = (name for name, job in jobs.items() if job == moved.job)
    (pod,) = pods_of(lab, moved.job)
    assert (moved.steps_lost, moved.target, pod["spec"]["nodeName"]) == (0, "node-b", "node-b")

    for job in jobs.values():
        (system.state / "cluster" / "jobs" / job / "checkpoints" / "enough").touch()
    for name, job in jobs.items():
        assert system.await_end(job).outcome is c.Outcome.FINISHED
        lab.kubectl("-n", NAMESPACE, "wait", f"--for=condition={over}", f"{kind}/{name}", "--timeout=60s")
    assert system.breaches() == []
    return made(lab, kind, whose)


def _is_on_its_way(system: RunningSystem, job: str) -> bool:
    """Whether a job moves to the other node, or has."""
    planned = [one for one in system.events() if isinstance(one.event, c.MigrationPlanned) and one.event.job == job]
    return bool(planned) or system.call("move", job, "--to", "node-b").returncode == 0


def placed(found: Received[c.ClusterEvent], job: str, incarnation: int) -> bool | None:
    """Whether this incarnation of a job has its places."""
    event = found.event
    return (isinstance(event, c.JobPlaced) and (event.job, event.incarnation) == (job, incarnation)) or None


def admitted(found: Received[c.ClusterEvent], job: str) -> bool | None:
    """Whether a job may wait for its places."""
    return (isinstance(found.event, c.JobAdmitted) and found.event.job == job) or None


def suspended(found: Received[c.ClusterEvent], job: str) -> bool | None:
    """Whether a job was suspended."""
    return (isinstance(found.event, c.JobSuspended) and found.event.job == job) or None


def tainted(found: Received[c.ClusterEvent]) -> bool | None:
    """Whether a node has joined again with a taint."""
    return (isinstance(found.event, c.NodeJoined) and bool(found.event.taints)) or None


def job_of(found: dict[str, Any]) -> str:
    """The name of an object as a job."""
    return f"{found['metadata']['name']}.{found['metadata']['uid'][:8]}"


def made(lab: KubernetesLab, kind: str, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    """An object as the API server has it."""
    found: dict[str, Any] = json.loads(lab.kubectl("-n", namespace, "get", kind, name, "-o", "json"))
    return found


def listed(lab: KubernetesLab, kind: str, selector: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """Objects by their labels."""
    listing = json.loads(lab.kubectl("-n", namespace, "get", kind, "-l", selector, "-o", "json"))
    return list(listing["items"])


def pods_of(lab: KubernetesLab, job: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """The pods of a job that have not ended."""
    mine = [each for each in listed(lab, "pods", "steepest.dev/managed=true", namespace) if of_job(each) == job]
    return [pod for pod in mine if pod["status"]["phase"] in {"Pending", "Running"}]


def of_job(pod: dict[str, Any]) -> str:
    """The job of a pod that has got its place."""
    annotations: dict[str, str] = pod["metadata"].get("annotations", {})
    return annotations.get("variable.steepest.dev/STEEPEST_JOB", "")


def eventually(holds: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for something that no event announces."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, f"not in {patience_s:g} s: {what}"
        time.sleep(0.1)
