"""Places end on a real cluster: a drain, a preemption, a machine that crashes. What ran there has not failed, and goes on.

The trainings know nothing of Steepest: they die of the SIGTERM that they get, and are started again.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.harness.contracts import contract_job
from tests.harness.processes import with_command_lines
from tests.harness.system.running_system import RunningSystem
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.moving_system import lab_system

from steepest.events import cluster as c
from steepest.events.received import Received
from tools.kubernetes_lab import node
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE, NODES

pytestmark = pytest.mark.timeout(500)

HERE, THERE = (each.name for each in NODES)
WAITS = """
import pathlib, time
while not pathlib.Path("/steepest/checkpoints/enough").exists():
    time.sleep(0.05)
"""
PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "first"},
    "value": 1000,
}


@pytest.fixture
def system(lab: KubernetesLab, kubeconfig: Path) -> Iterator[RunningSystem]:
    """A system that only places; both nodes take pods afterwards."""
    state = lab.folder.volume / f"places-{secrets.token_hex(4)}"
    nodes = (f"{HERE}=0.5:128Mi", f"{THERE}=0.3:128Mi")
    with lab_system(lab, kubeconfig, state, nodes, "--policy", "spread") as running:
        yield running
        for name in (HERE, THERE):
            lab.kubectl("uncordon", name)
    lab.kubectl("-n", NAMESPACE, "delete", "jobs", "-l", "steepest.dev/managed=true", "--wait=false")


@pytest.fixture
def training(system: RunningSystem) -> str:
    """A job on the second node, with no retries; ``filler`` fills the first one until it may end."""
    for job, place in (("filler", HERE), ("training", THERE)):
        system.submit(job, "python3", "-c", WAITS, options=("--cpu", "0.45" if place == HERE else "0.2"))
        system.await_event(placed(job, place))
    enough(system, "filler")
    assert system.await_end("filler").outcome is c.Outcome.FINISHED
    return "training"


def test_what_ran_on_a_drained_node_goes_on_elsewhere(
    system: RunningSystem, training: str, lab: KubernetesLab, figures: Figures
) -> None:
    """It is evicted and killed by its SIGTERM, starts on the other node, and finishes with its retries unused."""
    drain(lab, THERE)

    goes_on(system, training, figures, "EvictionByEvictionAPI")


def test_what_the_scheduler_preempts_goes_on_elsewhere(
    system: RunningSystem, training: str, lab: KubernetesLab, figures: Figures
) -> None:
    """A pod of others that comes first takes its place."""
    lab.kubectl("apply", "-f", "-", content=PRIORITY)
    found = json.loads(lab.kubectl("get", "node", THERE, "-o", "json"))
    whole = found["status"]["allocatable"]["cpu"]
    most_m = int(whole.removesuffix("m")) if whole.endswith("m") else 1000 * int(whole)
    container = {
        "name": "first",
        "image": "steepest-demo:latest",
        "imagePullPolicy": "Never",
        "command": ["sleep", "600"],
        "resources": {"requests": {"cpu": f"{most_m - 50}m"}},
    }
    spec = {"priorityClassName": "first", "nodeName": "", "nodeSelector": {"kubernetes.io/hostname": THERE}}
    first = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "first", "namespace": "default"},
        "spec": {**spec, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    lab.kubectl("apply", "-f", "-", content=first)
    try:
        goes_on(system, training, figures, "PreemptionByScheduler")
    finally:
        lab.kubectl("-n", "default", "delete", "pod", "first", "--wait=false")


def test_what_somebody_deletes_goes_on(
    system: RunningSystem, training: str, lab: KubernetesLab, figures: Figures
) -> None:
    """A pod that is deleted by hand, in order or by force, has not failed by itself."""
    lab.kubectl("-n", NAMESPACE, "delete", "pod", pod(lab, training)["metadata"]["name"], "--wait=false")
    system.await_event(placed(training, incarnation=2))
    name = pod(lab, training)["metadata"]["name"]
    lab.kubectl("-n", NAMESPACE, "delete", "pod", name, "--grace-period=0", "--force", "--wait=false")

    goes_on(system, training, figures, "its pod was ", incarnation=3)


def test_what_ran_on_a_machine_that_crashed_goes_on(
    system: RunningSystem, training: str, lab: KubernetesLab, figures: Figures
) -> None:
    """Nobody saw how it ended: its node says so once it is back."""
    try:
        crash(lab)
    finally:
        node.start(lab.folder, lab.daemons, NODES[1])
        lab.kubectl("wait", "--for=condition=Ready", f"node/{THERE}", "--timeout=120s")

    goes_on(system, training, figures, "the kubelet did not see how it ended")


def test_a_gang_with_a_replica_on_a_drained_node_goes_on_elsewhere(
    system: RunningSystem, lab: KubernetesLab, figures: Figures
) -> None:
    """Its other replica fails with an error of its own as soon as its peer is gone, which counts for nothing."""
    system.submit("filler", "python3", "-c", WAITS, options=("--cpu", "0.25"))
    system.await_event(placed("filler", HERE))
    source = Path(contract_job.__file__).read_text()
    command = ("python3", "-c", source, "--meet", "--mode", "none", "--step-s", "0.05")
    system.submit("gang", *command, options=("--replicas", "2", "--cpu", "0.2"))
    first = system.await_event(placed("gang"))
    enough(system, "filler")
    assert system.await_end("filler").outcome is c.Outcome.FINISHED
    drain(lab, THERE)
    again = system.await_event(placed("gang", incarnation=2))
    retries = [one.event for one in system.events() if isinstance(one.event, c.RetryPlanned)]
    figures.count(lost=not retries)
    system.call("cancel", "gang")

    assert (set(first.nodes), set(again.nodes)) == ({HERE, THERE}, {HERE})
    assert [retry.charged for retry in retries] == [False] * len(retries)
    assert system.breaches() == []


def test_a_container_that_exceeds_its_own_memory_has_failed(system: RunningSystem) -> None:
    """The kernel kills it at its limit, and its place is still there."""
    system.submit(
        "greedy", "python3", "-c", "kept = [bytearray(1 << 20) for _ in range(4096)]", options=("--cpu", "0.1")
    )
    ended = system.await_end("greedy")

    assert (ended.outcome, ended.exit_status) == (c.Outcome.FAILED, -9)
    assert "it ran out of memory" in ended.reason
    assert system.breaches() == []


def goes_on(system: RunningSystem, job: str, figures: Figures, why: str, incarnation: int = 2) -> None:
    """The job is started again, for this reason, and finishes with its retries unused."""
    system.await_event(placed(job, incarnation=incarnation))
    enough(system, job)
    ended = system.await_end(job)
    retries = [one.event for one in system.events() if isinstance(one.event, c.RetryPlanned) and one.event.job == job]
    figures.count(lost=ended.outcome is not c.Outcome.FINISHED)

    assert ended.outcome is c.Outcome.FINISHED
    assert [retry.charged for retry in retries] == [False] * (incarnation - 1)
    assert all("its process is gone" in retry.reason and why in retry.reason for retry in retries), retries
    assert system.breaches() == []


def drain(lab: KubernetesLab, name: str) -> None:
    """As an operator does."""
    lab.kubectl("drain", name, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")


def crash(lab: KubernetesLab) -> None:
    """All processes of the second node are gone at once, and nobody has seen how the containers ended."""
    for daemon in (f"kubelet-{THERE}", f"containerd-{THERE}"):
        lab.daemons.kill(daemon)
    folder = str(lab.folder.node(NODES[1]))
    shims = [process for process, line in with_command_lines() if folder in " ".join(line)]
    for process in [each for shim in shims for each in (*shim.children(recursive=True), shim)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(shims, timeout=10)


def placed(job: str, place: str = "", incarnation: int = 1) -> Callable[[Received[c.ClusterEvent]], c.JobPlaced | None]:
    """Looks for the start of an incarnation, on this node if one is named."""

    def found(one: Received[c.ClusterEvent]) -> c.JobPlaced | None:
        event = one.event
        if not isinstance(event, c.JobPlaced) or event.job != job or event.incarnation < incarnation:
            return None
        return event if place in {"", event.node} else None

    return found


def pod(lab: KubernetesLab, job: str) -> dict[str, Any]:
    """The pod of a job that runs."""
    deadline = time.monotonic() + 60
    while True:
        found = json.loads(lab.kubectl("-n", NAMESPACE, "get", "pods", "-l", "steepest.dev/managed=true", "-o", "json"))
        for each in found["items"]:
            lives = each["status"]["phase"] == "Running" and "deletionTimestamp" not in each["metadata"]
            if lives and each["metadata"]["name"].startswith(f"{job}-"):
                return dict(each)
        assert time.monotonic() < deadline, f"no pod of {job} runs"
        time.sleep(0.1)


def enough(system: RunningSystem, job: str) -> None:
    """Let a training end."""
    (system.state / "cluster" / "jobs" / job / "checkpoints" / "enough").touch()
