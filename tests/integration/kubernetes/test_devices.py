"""Whole devices on real kubelets: a device plugin advertises them, and each kubelet gives them to the containers."""

from __future__ import annotations

import importlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.frame import resting_gang
from tests.harness.system.running_system import RunningSystem
from tests.integration.kubernetes.moving_system import lab_system

from steepest.cluster.kubernetes.nodes.selected_nodes import GPU
from steepest.events import cluster as c
from steepest.events.received import Received
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NODES

if TYPE_CHECKING:
    from tools.kubernetes_lab.device_plugin import DevicePlugin

pytestmark = pytest.mark.timeout(420)
PATIENCE_S = 90.0
PROGRAM = ("python3", "-c", Path(resting_gang.__file__).read_text())
DEVICES = {node.name: (f"{node.name}-0", f"{node.name}-1") for node in NODES}


@contextmanager
def devices(lab: KubernetesLab) -> Iterator[dict[str, DevicePlugin]]:
    """Two devices on each node, as their kubelets have them; by node, the plugin."""
    pytest.importorskip("grpc", reason="there is no gRPC here: run `make dev`")
    plugin = importlib.import_module("tools.kubernetes_lab.device_plugin")
    made = {node.name: plugin.DevicePlugin(lab.folder, node, DEVICES[node.name]) for node in NODES}
    try:
        for one in made.values():
            one.start(PATIENCE_S)
        until(lambda: allocatable(lab) == ["2", "2"], "devices of both kubelets")
        yield made
    finally:
        for one in made.values():
            one.stop()


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.3)


def allocatable(lab: KubernetesLab) -> list[str]:
    """The devices that each kubelet has to give."""
    path = GPU.replace(".", r"\.")
    return lab.kubectl("get", "nodes", "-o", f"jsonpath={{.items[*].status.allocatable.{path}}}").split()


@pytest.fixture
def system(lab: KubernetesLab, kubeconfig: Path) -> Iterator[RunningSystem]:
    """A system on both nodes, with two devices each."""
    state = lab.folder.volume / f"devices-{secrets.token_hex(4)}"
    nodes = [f"{node.name}=0.9:1GiB:gpus=2" for node in NODES]
    with lab_system(lab, kubeconfig, state, nodes, "--policy", "steepest", "--min-run", "1s") as made:
        yield made


@pytest.fixture
def plugins(lab: KubernetesLab) -> Iterator[dict[str, DevicePlugin]]:
    """The plugins of both nodes."""
    with devices(lab) as made:
        yield made


def submit(system: RunningSystem, name: str, steps: int, *options: str) -> None:
    """Submit a training on one device, or as ``options`` have it."""
    asked = ("--gpus", "1", "--model", "resting", "--steps", str(steps), *options)
    system.submit(name, *PROGRAM, "--steps", str(steps), options=asked)


def seen(system: RunningSystem, job: str, replica: int = 0, incarnation: int = 1) -> str:
    """The devices that an incarnation of a replica saw; empty: it has not said so yet."""
    asked = ("--replica", str(replica), "--incarnation", str(incarnation))
    found = re.search(r"^sees (\S+)$", system.call("logs", job, *asked).stdout, re.MULTILINE)
    return found[1] if found else ""


def places(system: RunningSystem, jobs: Sequence[tuple[str, int]]) -> dict[str, str]:
    """By replica, its device, once all have printed theirs."""
    until(lambda: all(seen(system, *one) for one in jobs), "devices of all jobs")
    return {f"{job}/{replica}": seen(system, job, replica) for job, replica in jobs}


def test_a_job_that_waits_gets_the_devices_of_one_that_gives_way(
    plugins: dict[str, DevicePlugin], system: RunningSystem
) -> None:
    """Each container has its own device of its node, the gang too; the one that gave way goes on where it saved."""
    del plugins
    submit(system, "one", 2_000)
    submit(system, "two", 2_000)
    submit(system, "gang", 1_500, "--replicas", "2")
    held = places(system, [("one", 0), ("two", 0), ("gang", 0), ("gang", 1)])
    until(lambda: all(system.job(job)["step"] for job in ("one", "two", "gang")), "steps of all jobs")
    submit(system, "short", 5)
    suspended = system.look_for(
        lambda found: found.event if isinstance(found.event, c.JobSuspended) else None, 0, 180.0
    )
    assert suspended is not None
    assert system.await_end("short").outcome is c.Outcome.FINISHED
    plan = next(one.event for one in system.events() if isinstance(one.event, c.TransitionPlanned))
    placed = system.await_event(lambda found: _started(found, suspended.job, after=plan.incarnation))

    assert sorted(held.values()) == sorted(one for of_node in DEVICES.values() for one in of_node)
    for replica, device in held.items():
        job, _, index = replica.partition("/")
        assert device in DEVICES[_node(system, job, int(index))]
    assert (plan.job, plan.room_for) == (suspended.job, "short")
    assert suspended.steps_lost == 0
    assert seen(system, "short") in {device for one, device in held.items() if one.startswith(suspended.job)}
    assert placed.node in DEVICES
    assert system.breaches() == []


def _node(system: RunningSystem, job: str, replica: int) -> str:
    return next(
        one.event.node
        for one in system.events()
        if isinstance(one.event, c.ReplicaStarted) and (one.event.job, one.event.replica) == (job, replica)
    )


def _started(found: Received[c.ClusterEvent], job: str, after: int) -> c.ReplicaStarted | None:
    """The first replica of a later incarnation of a job."""
    event = found.event
    is_later = isinstance(event, c.ReplicaStarted) and event.job == job and event.incarnation > after
    return event if is_later and isinstance(event, c.ReplicaStarted) else None


def test_a_job_leaves_a_device_that_its_kubelet_calls_unhealthy(
    plugins: dict[str, DevicePlugin], system: RunningSystem
) -> None:
    """The log has which it was, and how many are left; the job goes on with another one from what it saved."""
    submit(system, "one", 2_000)
    device = places(system, [("one", 0)])["one/0"]
    node = _node(system, "one", 0)
    assert system.job("one")["gpus"] == {node: [0]}
    plugins[node].set_health(device, healthy=False)
    joined = system.await_event(lambda found: _without(found, node))
    placed = system.await_event(lambda found: _started(found, "one", after=1))
    until(lambda: seen(system, "one", incarnation=placed.incarnation), "device of the next incarnation")

    assert (joined.capacity.gpus, [one.gpu for one in joined.failed_gpus]) == (1, [0])
    assert seen(system, "one", incarnation=placed.incarnation) in set(DEVICES[placed.node]) - {device}
    assert system.breaches() == []


def _without(found: Received[c.ClusterEvent], node: str) -> c.NodeJoined | None:
    """A node that joined without a GPU that failed."""
    event = found.event
    return event if isinstance(event, c.NodeJoined) and event.node == node and event.failed_gpus else None
