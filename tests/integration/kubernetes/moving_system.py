"""Systems over the lab's nodes, one of which moves all jobs from the large node to the other, and what tests look for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from tests.harness.system.running_system import RunningSystem

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.folders.folder_label import label_of
from steepest.cluster.kubernetes.job_events import CONTROLLER
from steepest.cluster.kubernetes.manifest import JobSettings, name_of
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import Received
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import CLAIM, NAMESPACE

PATIENCE_S = 60.0


@contextmanager
def lab_system(
    lab: KubernetesLab, kubeconfig: Path, state: Path, nodes: Sequence[str], *options: str
) -> Iterator[RunningSystem]:
    """A system over the lab; ``nodes``: as ``up --node`` has them; ``options``: of ``up``, beside these."""
    running = RunningSystem(
        state,
        *("--cluster", f"kubernetes={NAMESPACE}/{CLAIM}:{lab.folder.volume}", "--image", DEMO),
        *chain.from_iterable(("--node", node) for node in nodes),
        *("--heartbeat", "500ms", *options),
        env={"KUBECONFIG": str(kubeconfig)},
    )
    running.start()
    try:
        yield running
        running.call("down")
    finally:
        running.end()  # or what the next test makes is this one's


@contextmanager
def moving_system(lab: KubernetesLab, kubeconfig: Path, state: Path, *options: str) -> Iterator[RunningSystem]:
    """All jobs start on the large node, converge soon, and so move to the idle one; ``options``: of ``up``, beside these."""
    nodes = ("node-a=1.6:4Gi", "node-b=0.2:4Gi")
    with lab_system(
        lab, kubeconfig, state, nodes, "--interval", "1s", "--policy", "specon", "--alpha", "0.9", *options
    ) as running:
        yield running


def finished_move(found: Received[c.ClusterEvent]) -> c.MigrationFinished | None:
    """The event, if a move has finished."""
    return found.event if isinstance(found.event, c.MigrationFinished) else None


def events_about(lab: KubernetesLab, uid: str, namespace: str = NAMESPACE, kind: str = "Job") -> list[dict[str, Any]]:
    """The Events about an object that Steepest has written."""
    about = f"involvedObject.kind={kind},involvedObject.uid={uid}"
    found = json.loads(lab.kubectl("-n", namespace, "get", "events", "--field-selector", about, "-o", "json"))
    return [each for each in found["items"] if each.get("reportingComponent") == CONTROLLER]


def events_once_there(
    lab: KubernetesLab, uid: str, reasons: set[str], namespace: str = NAMESPACE, kind: str = "Job"
) -> list[dict[str, Any]]:
    """The Events about an object, as soon as there is one of each of these reasons."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = events_about(lab, uid, namespace, kind)
        seen = {each["reason"] for each in found}
        if reasons <= seen:
            return found
        assert time.monotonic() < deadline, f"of {sorted(reasons)} there are no more than {sorted(seen)}"
        time.sleep(0.2)


def job_of(system: RunningSystem, lab: KubernetesLab, job: str) -> tuple[str, str]:
    """Name and UID of the Job of one of Steepest's own jobs."""
    settings = JobSettings(
        namespace=NAMESPACE,
        label=label_of(AdapterFolder(system.state / "cluster")),
        claim=CLAIM,
        below=Path("noted"),
        image=DEMO,
        user=1,
        most=Resources(),
    )
    name = name_of(settings, ReplicaId(job))
    found = json.loads(lab.kubectl("-n", NAMESPACE, "get", "job", name, "-o", "json"))
    return name, found["metadata"]["uid"]
