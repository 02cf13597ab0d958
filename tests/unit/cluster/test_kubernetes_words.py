"""Kubernetes' objects and quantities translated into the port's terms; unexpected ones do not raise anything else."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.folders.replica_roster import ResourceUse
from steepest.cluster.kubernetes.address import KubernetesAddress, address
from steepest.cluster.kubernetes.manifest import (
    JobManifest,
    JobSettings,
    cpu_caps,
    manifest,
    memory_caps,
    name_of,
    requested_by,
)
from steepest.cluster.kubernetes.nodes.usage import KubeletSummary, MeasuredPod, sample_of, use_between
from steepest.cluster.kubernetes.objects import ObjectMetadata, Pod, failed_start, observed, unschedulable
from steepest.cluster.kubernetes.quantities import mebibytes, millis
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.errors import InputError
from steepest.events.common import CheckpointRef, Resources

SETTINGS = JobSettings(
    namespace="training",
    label="0123456789ab",
    claim="steepest",
    below=Path("pool"),
    image="trainer:1",
    user=65_534,
    most=Resources(cpu_m=4000, memory_mib=8192),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


def pod(phase: str, state: dict[str, Any], *, gated: bool = False, **status: Any) -> Pod:
    """A pod whose container is in a state."""
    content = {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"schedulingGates": [{"name": "steepest.dev/placement"}] if gated else []},
        "status": {"phase": phase, "containerStatuses": [{"name": "job", "state": state}], **status},
    }
    return msgspec.json.decode(json.dumps(content), type=Pod)


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    """The state of a container that has ended."""
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


@pytest.mark.parametrize(
    ("seen", "phase", "status", "began"),
    [
        (pod("Pending", {}, gated=True), ReplicaPhase.STARTING, None, False),
        (pod("Pending", {"waiting": {"reason": "ContainerCreating"}}), ReplicaPhase.STARTING, None, True),
        (pod("Running", {"running": {}}), ReplicaPhase.RUNNING, None, True),
        (pod("Running", ended(0)), ReplicaPhase.RUNNING, None, True),
        (pod("Succeeded", ended(0)), ReplicaPhase.EXITED, 0, True),
        (pod("Failed", ended(85)), ReplicaPhase.EXITED, 85, True),
        (pod("Failed", ended(137)), ReplicaPhase.EXITED, -9, True),
        (pod("Failed", ended(137, "ContainerStatusUnknown")), ReplicaPhase.GONE, None, True),
        (pod("Failed", {}, reason="Evicted"), ReplicaPhase.GONE, None, True),
    ],
)
def test_a_pod_proves_a_phase(seen: Pod, phase: ReplicaPhase, status: int | None, *, began: bool) -> None:
    """A pod has ended when it says so, and not when only its container has: its node is not free before."""
    found = observed(seen)

    assert (found.phase, found.exit_status, found.began) == (phase, status, began)


def test_an_out_of_memory_kill_is_named() -> None:
    """The reason of an end says what the kernel did."""
    assert observed(pod("Failed", ended(137, "OOMKilled"))).reason == "it ran out of memory"


def test_memory_takes_no_place_along() -> None:
    """A child may have run out of it long before its pod saved and left, finished, or was evicted."""
    evicted = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]

    assert observed(pod("Succeeded", ended(0, "OOMKilled"))).reason == ""
    assert observed(pod("Failed", ended(85, "OOMKilled"))).reason == ""
    assert observed(pod("Failed", ended(143, "OOMKilled"), conditions=evicted)).exit_status is None
    assert observed(pod("Failed", ended(137, "OOMKilled"), conditions=evicted)).exit_status is None


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({"waiting": {"reason": "ErrImageNeverPull"}}, "no-such-image"),
        ({"waiting": {"reason": "ImagePullBackOff", "message": "m"}}, "no-such-image"),
        (ended(128, "StartError", 'exec: "trai": executable file not found in $PATH: unknown'), "no-such-program"),
        (ended(128, "StartError", "failed to start shim: context deadline exceeded: unknown"), "not-run"),
        (ended(128, "StartError"), "not-run"),
        ({"waiting": {"reason": "CreateContainerError", "message": "failed to reserve container name"}}, None),
        ({"waiting": {"reason": "ContainerCreating"}}, None),
        ({"running": {}}, None),
    ],
)
def test_a_start_that_cannot_succeed_is_known(state: dict[str, Any], code: str | None) -> None:
    """An image or program that is missing ends a job; what a busy node could not do is tried again."""
    found = failed_start(pod("Pending", state), is_new=True)

    assert (found[0] if found else None) == code


def test_a_container_that_is_not_made_for_long_is_given_up() -> None:
    """Its node may be sick: another one may make it."""
    full = pod("Pending", {"waiting": {"reason": "CreateContainerError", "message": "no space left on device"}})

    assert failed_start(full, is_new=False) == ("not-run", "no space left on device")


def test_the_scheduler_says_why_there_is_no_room() -> None:
    """Only its own word counts: a pod without one has not been looked at yet."""
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}

    assert unschedulable(pod("Pending", {}, conditions=[refused])) == "0/2 nodes"
    assert not unschedulable(pod("Pending", {}))


def test_a_move_keeps_the_job(tmp_path: Path) -> None:
    """Another incarnation, on another node and from a checkpoint, has the same Job; only its pod's annotations differ."""
    first = made(tmp_path, 1, trace="00-one-trace-01")
    second = made(tmp_path, 2, restore=CheckpointRef(name="c", step=3, digest="d"), trace="00-another-trace-01")

    assert first.job == second.job
    assert first.annotations["variable.steepest.dev/STEEPEST_INCARNATION"] == "1"
    assert second.annotations["variable.steepest.dev/STEEPEST_INCARNATION"] == "2"
    assert second.annotations["variable.steepest.dev/STEEPEST_RESTORE"] == "c"
    assert second.annotations["variable.steepest.dev/TRACEPARENT"] == "00-another-trace-01"


def test_another_size_of_a_gang_keeps_the_job(tmp_path: Path) -> None:
    """What the processes of a gang know of each other is the incarnation's, and so stands in annotations too."""
    two, three = (made(tmp_path, size, gang=gang(size)) for size in (2, 3))

    assert two.job == three.job
    assert two.annotations["variable.steepest.dev/WORLD_SIZE"] == "2"
    assert three.annotations["variable.steepest.dev/STEEPEST_PEERS"].count(",") == 2


def test_another_command_is_another_job(tmp_path: Path) -> None:
    """A Job's container cannot change, so its digest says when a new Job is needed."""
    assert made(tmp_path, 1).digest != made(tmp_path, 1, command=("python3", "other.py")).digest


def test_a_job_is_gated_and_confined(tmp_path: Path) -> None:
    """A Job runs nothing before it is placed, and its process has no rights that training does not need."""
    made_job = made(tmp_path, 1).job
    spec = made_job["spec"]["template"]["spec"]
    (container,) = spec["containers"]

    assert not made_job["spec"]["suspend"]
    assert made_job["spec"]["podReplacementPolicy"] == "Failed"
    assert spec["schedulingGates"] == [{"name": "steepest.dev/placement"}]
    assert spec["securityContext"]["runAsNonRoot"]
    assert not spec["automountServiceAccountToken"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_nothing_of_a_job_is_expanded(tmp_path: Path) -> None:
    """Kubernetes replaces ``$(NAME)`` in commands and variables; a job's text stays as it is."""
    job = made(tmp_path, 1, command=("echo", "$(HOME)")).job

    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["echo", "$$(HOME)"]


@given(st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?", fullmatch=True), st.integers(0, 9999))
def test_every_job_has_a_valid_name(job: str, index: int) -> None:
    """The name of a replica's Job is a DNS label for any name of the job."""
    name = name_of(SETTINGS, ReplicaId(job, index))

    assert len(name) <= 63
    assert not name.startswith("-")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_names_that_look_alike_are_apart() -> None:
    """Two jobs whose names differ in a letter that DNS does not have get two Jobs."""
    assert name_of(SETTINGS, ReplicaId("a.b")) != name_of(SETTINGS, ReplicaId("a-b"))


@given(st.integers(0, 10**6), st.none() | st.integers(0, 10**6), st.integers(0, 10**6))
def test_caps_are_never_below_requests(requested: int, limit: int | None, most: int) -> None:
    """Kubernetes refuses a request above its limit; memory's differ, so that the pod's class of service never changes."""
    cpu, memory = cpu_caps(requested, limit, most), memory_caps(requested, limit, most)

    assert 0 < cpu[0] <= cpu[1]
    assert 0 < memory[0] < memory[1]


@pytest.mark.parametrize(
    ("quantity", "as_millis", "as_mib"),
    [
        ("2", 2000, 0),
        ("1500m", 1500, 0),
        ("1e3", 1_000_000, 0),
        ("100u", 1, 0),
        ("1Gi", 1024**3 * 1000, 1024),
        ("64M", 64 * 10**9, 61),
        ("", None, None),
        ("-1", None, None),
        ("NaN", None, None),
        ("1_0", None, None),
        ("1e999999999", None, None),
    ],
)
def test_quantities(quantity: str, as_millis: int | None, as_mib: int | None) -> None:
    """Quantities are read as Kubernetes writes them; anything else is unknown."""
    assert (millis(quantity), mebibytes(quantity)) == (as_millis, as_mib)


@given(st.text(max_size=70))
def test_any_text_is_a_quantity_or_none(text: str) -> None:
    """No text raises."""
    found = millis(text)

    assert found is None or found >= 0


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON))
def test_a_strange_pod_is_refused_or_understood(content: dict[str, Any]) -> None:
    """Any bytes from the server raise a decoding error or none."""
    with contextlib.suppress(msgspec.DecodeError):
        found = msgspec.json.decode(json.dumps({"metadata": {}, **content}), type=Pod)
        observed(found)
        failed_start(found, is_new=False)
        unschedulable(found)


@given(JSON)
def test_a_spoilt_annotation_asks_for_nothing(content: Any) -> None:
    """A user may write any annotation: what it says of requests is then unknown, and nothing fails."""
    spoilt = ObjectMetadata(annotations={"steepest.dev/requests": json.dumps(content)})

    assert isinstance(requested_by(spoilt), Resources)


def test_an_annotation_that_is_nested_too_deep_asks_for_nothing() -> None:
    """An annotation has room for depths that no decoder follows."""
    spoilt = ObjectMetadata(annotations={"steepest.dev/requests": '{"x":' + "[" * 100_000})

    assert requested_by(spoilt) == Resources()


def test_use_is_the_difference_of_two_samples() -> None:
    """CPU in millicores between the kubelet's own times; what is missing is unknown, and not 0."""
    first, second = (
        sample_of(measured(at, nanos, rx)) for at, nanos, rx in (("00", 10**9, 100), ("02", 2 * 10**9, None))
    )
    assert first is not None
    assert second is not None

    assert use_between(None, first) == ResourceUse(cpu_ms=1000, memory_mib=20, read_bytes=100)
    assert use_between(first, second) == ResourceUse(cpu_m=500, cpu_ms=2000, memory_mib=20)
    assert sample_of(measured("00", None, 1)) is None


def test_a_pod_that_is_not_measured_yet_hides_no_other_one() -> None:
    """A kubelet writes null for a pod whose containers all begin just now, and where it has no pod."""
    assert sample_of(summary({"pods": [{"podRef": {}, "containers": None}]})[0]) is None
    assert summary({"pods": None}) == []


def test_a_place_is_kept_as_it_was_named() -> None:
    """What a user names becomes the address of the installation's nodes, which is read again."""
    named = address("training/shared:/mnt/shared")

    assert named == KubernetesAddress("training", "shared", Path("/mnt/shared"))
    assert address(str(named)) == named


@pytest.mark.parametrize("asked", ["", "training", "training/shared", "training/shared:relative", "A/b:/c", "a b/c:/d"])
def test_another_text_is_no_place(asked: str) -> None:
    """It is refused with the form that is right."""
    with pytest.raises(InputError, match="no place for jobs"):
        address(asked)


def measured(second: str, nanos: int | None, rx: int | None) -> Any:
    """A pod as a kubelet's summary has it."""
    cpu = {"time": f"2026-11-22T12:00:{second}Z", "usageCoreNanoSeconds": nanos}
    content = {
        "podRef": {"uid": "u"},
        "containers": [{"name": "job", "cpu": cpu, "memory": {"workingSetBytes": 20 << 20}}],
        "network": {"rxBytes": rx, "txBytes": 1},
    }
    return summary({"pods": [content]})[0]


def summary(content: object) -> list[MeasuredPod]:
    """The pods of a kubelet's summary."""
    return msgspec.json.decode(json.dumps(content), type=KubeletSummary).pods or []


def gang(size: int) -> GangPlace:
    """The chief's place."""
    return GangPlace(role="worker", role_index=0, rank=0, world_size=size, nodes=("a",) * size)


def made(folder: Path, incarnation: int, restore: CheckpointRef | None = None, **spec: Any) -> JobManifest:
    """The Job of an incarnation."""
    state = AdapterFolder(folder)
    asked = ReplicaSpec(**{"command": ("python3", "train.py"), **spec})
    return manifest(SETTINGS, state.incarnation(ReplicaId("mnist"), incarnation), asked, restore)
