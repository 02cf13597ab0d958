"""A node of a real cluster fails: its kubelet stops for a while, or the machine is off and is removed from the cluster."""

from __future__ import annotations

import json
import os
import secrets
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration import exclusive_training
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.moving_system import lab_system
from tests.integration.kubernetes.pod_processes import process_in

from steepest.events import cluster as c
from steepest.events.received import Received
from tools.kubernetes_lab import node
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE, NODES

pytestmark = pytest.mark.timeout(500)

NODE = NODES[1]
KUBELET = f"kubelet-{NODE.name}"
NOTICED_S = 150.0
"""Kubernetes takes 40 s to see that a kubelet is silent, or to remove the pods of a node that it no longer has."""


@pytest.fixture
def system(lab: KubernetesLab, kubeconfig: Path) -> Iterator[RunningSystem]:
    """A system that only places: ``filler`` fills the first node, so that ``there`` runs on the second one."""
    state = lab.folder.volume / f"nodes-{secrets.token_hex(4)}"
    nodes = ("node-a=0.4:1Gi", f"{NODE.name}=0.3:1Gi")
    with lab_system(lab, kubeconfig, state, nodes, "--policy", "spread") as running:
        source = Path(exclusive_training.__file__).read_text()
        for job, cpu in (("filler", "0.35"), ("there", "0.2")):
            running.submit(job, "python3", "-c", source, "/steepest/checkpoints", options=("--cpu", cpu))
            running.await_event(_placed(job, "node-a" if job == "filler" else NODE.name))
        yield running
    lab.kubectl("-n", NAMESPACE, "delete", "jobs", "-l", "steepest.dev/managed=true", "--wait=false")


@pytest.fixture
def kubelet(lab: KubernetesLab) -> Iterator[Callable[[], None]]:
    """Starts the second node's kubelet again and waits until the node is ready; it is so after the test in any case."""

    def start() -> None:
        node.start_kubelet(lab.folder, lab.daemons, NODE)
        lab.kubectl("wait", "--for=create", f"node/{NODE.name}", "--timeout=60s")
        lab.kubectl("wait", "--for=condition=Ready", f"node/{NODE.name}", "--timeout=60s")

    yield start
    start()


def test_jobs_of_a_node_that_is_removed_go_on_elsewhere(
    system: RunningSystem, lab: KubernetesLab, kubelet: Callable[[], None], figures: Figures
) -> None:
    """The machine is off, and the node is deleted: its job starts on the other one, and the node may return."""
    pod = _pod(lab, "there")
    training = process_in(pod["metadata"]["uid"], "python3 -c")
    _enough(system, "filler")
    assert system.await_end("filler").outcome is c.Outcome.FINISHED

    lab.daemons.kill(KUBELET)
    os.kill(training, signal.SIGKILL)
    lab.kubectl("delete", "node", NODE.name)
    assert _look_for(system, lambda found: isinstance(found.event, c.NodeGone) or None)
    assert _look_for(system, _placed("there", "node-a"))
    position = len(system.events())
    kubelet()
    system.await_event(_joined, position)
    _enough(system, "there")
    ended = system.await_end("there")
    twice = _doubled(system)
    figures.count(lost=ended.outcome is not c.Outcome.FINISHED, doubled=len(twice))

    gone = [one.event for one in system.events() if isinstance(one.event, c.NodeGone)]
    assert gone == [c.NodeGone(node=NODE.name)]
    assert (ended.outcome, twice) == (c.Outcome.FINISHED, [])
    assert system.breaches() == []


def test_jobs_of_a_node_whose_kubelet_stops_wait_for_it(
    system: RunningSystem, lab: KubernetesLab, kubelet: Callable[[], None], figures: Figures
) -> None:
    """Its containers run on, so nothing is started elsewhere; once it is back, the same process is the job's."""
    _enough(system, "filler")
    assert system.await_end("filler").outcome is c.Outcome.FINISHED
    before = _pod(lab, "there")

    lab.daemons.kill(KUBELET)
    assert _look_for(system, lambda found: isinstance(found.event, c.NodeLost) or None)
    position = len(system.events())
    kubelet()
    system.await_event(_used, position)
    after = _pod(lab, "there")
    _enough(system, "there")
    ended = system.await_end("there")
    twice = _doubled(system)
    figures.count(lost=ended.outcome is not c.Outcome.FINISHED, doubled=len(twice))

    placed = [one.event for one in system.events() if isinstance(one.event, c.JobPlaced) and one.event.job == "there"]
    assert [event.incarnation for event in placed] == [1]
    assert not [one for one in system.events() if isinstance(one.event, c.NodeGone)]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert (ended.outcome, twice) == (c.Outcome.FINISHED, [])
    assert system.breaches() == []


def _look_for(system: RunningSystem, wanted: Callable[[Received[c.ClusterEvent]], bool | None]) -> bool | None:
    return system.look_for(wanted, 0, NOTICED_S)


def _placed(job: str, place: str) -> Callable[[Received[c.ClusterEvent]], bool | None]:
    def found(one: Received[c.ClusterEvent]) -> bool | None:
        event = one.event
        return (isinstance(event, c.JobPlaced) and (event.job, event.node) == (job, place)) or None

    return found


def _joined(found: Received[c.ClusterEvent]) -> bool | None:
    return (isinstance(found.event, c.NodeJoined) and found.event.node == NODE.name) or None


def _used(found: Received[c.ClusterEvent]) -> bool | None:
    """Whether the second node says again what its job uses."""
    event = found.event
    return (isinstance(event, c.NodeUsage) and event.node == NODE.name and "there" in event.jobs) or None


def _pod(lab: KubernetesLab, job: str) -> dict[str, Any]:
    """The pod of a job that runs."""
    found = json.loads(lab.kubectl("-n", NAMESPACE, "get", "pods", "-l", "steepest.dev/managed=true", "-o", "json"))
    running = [each for each in found["items"] if each["status"]["phase"] == "Running"]
    (pod,) = [each for each in running if each["metadata"]["name"].startswith(f"{job}-")]
    return dict(pod)


def _volume(system: RunningSystem, job: str) -> Path:
    """The job's folder on the volume, also of one that is over."""
    running = system.state / "cluster" / "jobs" / job / "checkpoints"
    return running if running.exists() else system.state / "cluster" / "ended" / f"{job}.1" / "checkpoints"


def _enough(system: RunningSystem, job: str) -> None:
    (_volume(system, job) / "enough").touch()


def _doubled(system: RunningSystem) -> list[str]:
    return [mark.name for job in ("filler", "there") for mark in _volume(system, job).glob("*.twice")]
