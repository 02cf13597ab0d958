"""The whole system on two real nodes: jobs are placed, moved by Algorithm 5 with their checkpoints, and finish.

The witnesses are the API server's objects and audit log, and the files on the volume.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration import exclusive_training
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.move_parts import ACCOUNT, own_parts_ms
from tests.integration.kubernetes.moving_system import finished_move, moving_system

from steepest.events import cluster as c
from steepest.events.received import Received
from tools.kubernetes_lab import control_plane
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

JOBS = ("one", "two", "three")
GROUPS = 3
SIDE_BY_SIDE = 5
"""Jobs in a group: each but the last moves away from others."""

OWN = re.compile(
    r"(steepest-([0-9a-f]{10}){1,2}|[a-z0-9-]+-[0-9a-f]{10}-\d+(-[a-z0-9]{5})?|opted-in-[a-z0-9]+(-[a-z]+-\d+)?(-\d+)?(-[a-z0-9]{5})?)"
)
"""Names of Steepest's own Services, Events, Jobs and pods, and of those that users have opted in."""

BYSTANDER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "bystander", "namespace": NAMESPACE},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {"name": "job", "image": DEMO, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
                ],
            }
        }
    },
}


@pytest.fixture
def bystander(lab: KubernetesLab) -> Iterator[None]:
    """Another party's Job in the same namespace."""
    lab.kubectl("apply", "-f", "-", content=BYSTANDER)
    yield
    lab.kubectl("-n", NAMESPACE, "delete", "job", "bystander", "--wait=false")


@pytest.fixture
def system(lab: KubernetesLab, kubeconfig: Path, bystander: None) -> Iterator[RunningSystem]:
    """A system in which all jobs start on the large node, converge soon, and so move to the idle one."""
    del bystander
    with moving_system(lab, kubeconfig, lab.folder.volume / f"system-{secrets.token_hex(4)}") as running:
        yield running
    lab.kubectl("-n", NAMESPACE, "delete", "jobs", "-l", "steepest.dev/managed=true", "--wait=false")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("api_server_dies", [False, True])
def test_jobs_move_with_their_checkpoints(
    system: RunningSystem, lab: KubernetesLab, figures: Figures, *, api_server_dies: bool
) -> None:
    """A job is on another node, at the step that it saved, in the same Job, which counts no failure; others stay."""
    source = Path(exclusive_training.__file__).read_text()
    for name in JOBS:
        system.submit(name, "python3", "-c", source, "/steepest/checkpoints")
    if api_server_dies:
        system.await_event(_stop_begins)
        lab.daemons.kill("kube-apiserver")
        control_plane.start_api_server(lab.folder, lab.daemons)
        control_plane.wait_until_ready(lab.folder, lab.daemons)
    moved = system.await_event(finished_move)
    placed = _pods(lab)
    if not api_server_dies:  # what it then waits for is the API server
        figures.own_ms.append(own_parts_ms(system, lab, moved))
    resumed, saved = _resumed_and_saved(system, moved.job)
    for name in JOBS:
        (_volume(system, name) / "enough").touch()
    ends = {name: system.await_end(name).outcome for name in JOBS}

    assert ends == dict.fromkeys(JOBS, c.Outcome.FINISHED)
    assert moved.steps_lost == 0
    assert moved.target == "node-b"
    assert placed[moved.job]["spec"]["nodeName"] == "node-b"
    assert placed[moved.job]["metadata"]["annotations"]["steepest.dev/incarnation"] != "1"
    assert resumed in saved
    jobs = [each for each in _items(lab, "jobs") if each["metadata"]["name"] != "bystander"]
    moves = [each.event for each in system.events() if isinstance(each.event, c.MigrationFinished)]
    figures.move_ms += [each.took_ms for each in moves]
    failed = sum(each["status"].get("failed", 0) for each in jobs)
    doubled = [mark.name for name in JOBS for mark in _volume(system, name).glob("*.twice")]
    others = _writes_to_others(lab)
    lost = sum(end is not c.Outcome.FINISHED for end in ends.values())
    figures.count(status_failed=failed, lost=lost, doubled=len(doubled), untouched_writes=len(others))
    assert (failed, doubled, others) == (0, [], [])
    assert system.breaches() == []


@pytest.mark.timeout(400)
def test_moves_one_after_the_other(system: RunningSystem, lab: KubernetesLab, figures: Figures) -> None:
    """The other node has room for one job at a time: all but the last move there, each once the one before has ended.

    Nothing is started meanwhile, so that a move is measured and not what a start costs.
    """
    source = Path(exclusive_training.__file__).read_text()
    moves: list[c.MigrationFinished] = []
    names = [[f"m{group}-{number}" for number in range(SIDE_BY_SIDE)] for group in range(GROUPS)]
    position = 0
    for group in names:
        for name in group:
            system.submit(name, "python3", "-c", source, "/steepest/checkpoints", options=("--cpu", "0.15"))
        for _ in group[1:]:
            moved, position = system.await_event(_move_and_end, position)
            figures.own_ms.append(own_parts_ms(system, lab, moved))
            moves.append(moved)
            (_volume(system, moved.job) / "enough").touch()
            assert system.await_end(moved.job).outcome is c.Outcome.FINISHED
        (last,) = set(group) - {each.job for each in moves}
        (_volume(system, last) / "enough").touch()
        assert system.await_end(last).outcome is c.Outcome.FINISHED
    doubled = [mark.name for group in names for name in group for mark in _volume(system, name).glob("*.twice")]
    figures.move_ms += [each.took_ms for each in moves]
    figures.count(doubled=len(doubled))

    assert [each.steps_lost for each in moves] == [0] * len(moves)
    assert doubled == []
    assert system.breaches() == []


def _move_and_end(found: Received[c.ClusterEvent]) -> tuple[c.MigrationFinished, int] | None:
    """A finished move, and the offset after it."""
    return (found.event, found.offset + 1) if isinstance(found.event, c.MigrationFinished) else None


def _stop_begins(found: Received[c.ClusterEvent]) -> bool | None:
    return (isinstance(found.event, c.StepBegun) and found.event.step is c.Step.STOP) or None


def _volume(system: RunningSystem, job: str) -> Path:
    """The job's folder on the volume, also of one that is over."""
    running = system.state / "cluster" / "jobs" / job / "checkpoints"
    return running if running.exists() else system.state / "cluster" / "ended" / f"{job}.1" / "checkpoints"


def _resumed_and_saved(system: RunningSystem, job: str) -> tuple[int | None, set[int]]:
    """The step from which the job's newest incarnation says that it resumed, and those of the manifests on the volume."""
    folder = system.state / "cluster" / "jobs" / job
    newest = max((folder / "0").iterdir(), key=lambda path: int(path.name))
    saved = {json.loads(path.read_text())["step"] for path in folder.glob("checkpoints/*/manifest.json")}
    return json.loads((newest / "control" / "hello.json").read_text())["restored_step"], saved


def _items(lab: KubernetesLab, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lab.kubectl("-n", NAMESPACE, "get", kind, "-o", "json"))["items"]
    return found


def _pods(lab: KubernetesLab) -> dict[str, dict[str, Any]]:
    """The pods of Steepest's jobs that run, by job."""
    return {
        each["metadata"]["name"].partition("-")[0]: each
        for each in _items(lab, "pods")
        if each["status"]["phase"] == "Running" and "steepest.dev/managed" in each["metadata"].get("labels", {})
    }


def _writes_to_others(lab: KubernetesLab) -> list[str]:
    """What the audit log says that Steepest has written to objects that are not its own."""
    lines = map(json.loads, lab.folder.audit.read_text().splitlines())
    names = [line["objectRef"].get("name", "") for line in lines if line["user"]["username"] == ACCOUNT]
    assert names
    return [name for name in names if name and not OWN.fullmatch(name)]
