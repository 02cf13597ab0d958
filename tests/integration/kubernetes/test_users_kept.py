"""Unchanged Jobs of users that say so are moved between two real kubelets, by a keeper that their pods begin with."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.json_patches import patched
from tests.harness.system.running_system import RunningSystem
from tests.integration.kubernetes.bare_control_plane import NAMESPACE as BARE
from tests.integration.kubernetes.bare_control_plane import running_control_plane
from tests.integration.kubernetes.moving_system import events_once_there, finished_move, lab_system
from tests.integration.kubernetes.opted_in import DEPLOY, OPEN, opened, placed_in, template, users_job, with_folder_of
from tests.integration.kubernetes.users_gangs import eventually

from steepest.admission.gating import JobsVolume, JobToGate, patch
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.keepers import find_whole
from steepest.cluster.kubernetes.objects import GATE
from steepest.cluster.kubernetes.users_jobs import CHECKPOINT
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.received import Received
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

COUNT = """
import itertools, os, subprocess, sys, time
with subprocess.Popen(["cat"], stdin=-1, stdout=-1) as child:
    for number in itertools.count():
        child.stdin.write(b"%d\\n" % number)
        child.stdin.flush()
        print(int(child.stdout.readline()), flush=True)
        if os.path.exists("/tmp/go"):
            break
        time.sleep(float(sys.argv[1]))
"""
"""A program that counts by a child until it is told to end; it knows nothing of Steepest."""

SECURITY = "pod-security.kubernetes.io/enforce"
ENFORCED = ("label", "namespace", NAMESPACE, "--overwrite")


@pytest.fixture
def system(lab: KubernetesLab, kubeconfig: Path, tmp_path: Path) -> Iterator[RunningSystem]:
    """A system whose users' Jobs may have keepers."""
    if isinstance(why := find_whole(), str):
        pytest.skip(why)
    with opened(lab, tmp_path) as state:
        policy = with_folder_of(state, DEPLOY / "opt-in-keepers.yaml", tmp_path)
        lab.kubectl("apply", "-f", str(policy))
        probe = asked("probe")
        eventually(lambda: "KEEPER" in json.dumps(dry_run(lab, probe)), "the policy has an effect")
        nodes = ("node-a=0.9:512Mi", "node-b=0.5:256Mi")
        with lab_system(lab, kubeconfig, state, nodes, "--system-checkpoints") as running:
            yield running
        lab.kubectl("delete", "-f", str(policy))
        lab.kubectl("-n", NAMESPACE, "delete", "jobs", "--all", "--wait=false")


def asked(name: str, **container: Any) -> dict[str, Any]:
    """A Job as its user writes it, with the annotation."""
    made = users_job(name, opted_in=True)
    made["metadata"]["annotations"] = {CHECKPOINT: "system"}
    made["spec"]["template"] = template(["python3", "-c"])
    made["spec"]["template"]["spec"]["containers"][0] |= {
        "args": [COUNT, "$(PAUSE)"],
        "env": [{"name": "PAUSE", "value": "0.05"}],
        **container,
    }
    return made


def dry_run(lab: KubernetesLab, job: dict[str, Any]) -> dict[str, Any]:
    """What the API server would make of it."""
    made: dict[str, Any] = json.loads(lab.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", content=job))
    return made


def seen(job: dict[str, Any]) -> list[object]:
    """What of its container is the keeper's, without what the API server fills in."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    mounts = {each["mountPath"]: each for each in container["volumeMounts"]}
    names = {each["name"] for each in container["env"]}
    return [mounts, names, *(container[part] for part in ("command", "args", "securityContext"))]


def created(lab: KubernetesLab, job: dict[str, Any]) -> tuple[str, str]:
    """Make it; its UID, and its name in the pool."""
    made = json.loads(lab.kubectl("create", "-o", "json", "-f", "-", content=job))
    uid = made["metadata"]["uid"]
    return uid, f"{made['metadata']['name']}.{uid[:8]}"


@pytest.mark.timeout(300)
def test_an_api_server_s_policy_makes_the_same_of_a_job_as_the_webhook(tmp_path: Path) -> None:
    """A real API server, whose policies are applied as an administrator does; no field of the keeper's differs."""
    probe = placed_in(BARE, asked("probe"))
    volume = JobsVolume(claim="steepest", folder="steepest", has_keepers=True)
    by_webhook = patched(probe, patch(msgspec.convert(probe, JobToGate), volume))
    with running_control_plane(tmp_path) as control:
        control.kubectl("apply", *(f"--filename={DEPLOY / name}" for name in ("opt-in.yaml", "opt-in-keepers.yaml")))
        control.kubectl("label", "namespace", BARE, f"{OPEN}=true")

        def by_policy() -> dict[str, Any]:
            text = control.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", content=probe)
            made: dict[str, Any] = json.loads(text)
            return made

        eventually(lambda: "STEEPEST_KEEPER" in (text := json.dumps(by_policy())) and GATE in text, "both have effects")
        assert seen(by_policy()) == seen(by_webhook)


@pytest.mark.end_to_end
@pytest.mark.timeout(300)
def test_a_users_unchanged_job_is_moved_to_another_kubelet(system: RunningSystem, lab: KubernetesLab) -> None:
    """It counts on: no number is missing or twice, its child and its pipes are there. Its Job has not failed."""
    name = f"opted-in-{secrets.token_hex(3)}"
    uid, job = created(lab, asked(name))
    system.await_event(lambda found: _declared(found, job, CheckpointMode.SYSTEM))
    first = system.await_event(lambda found: _first_node(found, job))
    system.call("move", job, "--to", "node-b" if first == "node-a" else "node-a")
    moved = system.await_event(finished_move)
    assert (moved.job, moved.steps_lost) == (job, 0)
    folder = AdapterFolder(system.state / "cluster")
    (folder.temporary(job) / "go").touch()
    assert system.await_end(job).outcome is c.Outcome.FINISHED
    output = "".join(one.output.read_text() for one in folder.printed(ReplicaId(job)))
    assert output == "".join(f"{number}\n" for number in range(output.count("\n")))
    lab.kubectl("-n", NAMESPACE, "wait", "--for=condition=Complete", f"job/{name}", "--timeout=60s")
    made = json.loads(lab.kubectl("-n", NAMESPACE, "get", "job", name, "-o", "json"))
    assert (made["metadata"]["uid"], made["status"].get("failed", 0)) == (uid, 0)
    assert system.breaches() == []


@pytest.mark.timeout(300)
def test_a_users_job_that_can_have_no_keeper_says_so_in_an_event(system: RunningSystem, lab: KubernetesLab) -> None:
    """One without a command, one with a user of its own, and one whose rights the namespace admits to nobody."""
    uid, _ = created(lab, asked(f"opted-in-{secrets.token_hex(3)}", command=None))
    (found,) = [each for each in events_once_there(lab, uid, {"LeftAlone"}) if each["reason"] == "LeftAlone"]
    assert "set command of the container" in found["message"]
    uid, _ = created(lab, asked(f"opted-in-{secrets.token_hex(3)}", securityContext={"runAsUser": 1000}))
    (found,) = [each for each in events_once_there(lab, uid, {"LeftAlone"}) if each["reason"] == "LeftAlone"]
    assert "its container has a user of its own" in found["message"]
    lab.kubectl(*ENFORCED, f"{SECURITY}=baseline")
    try:
        uid, job = created(lab, asked(f"opted-in-{secrets.token_hex(3)}"))
        assert system.await_end(job).outcome is c.Outcome.FAILED
        events = events_once_there(lab, uid, {"Ended"})
        assert any('violates PodSecurity "baseline:latest"' in each["message"] for each in events)
    finally:
        lab.kubectl("label", "namespace", NAMESPACE, f"{SECURITY}-")


def _declared(found: Received[c.ClusterEvent], job: str, mode: CheckpointMode) -> str | None:
    event = found.event
    is_it = isinstance(event, c.CheckpointModeDeclared) and (event.job, event.mode) == (job, mode)
    return job if is_it else None


def _first_node(found: Received[c.ClusterEvent], job: str) -> str | None:
    event = found.event
    return event.node if isinstance(event, c.JobPlaced) and event.job == job else None
