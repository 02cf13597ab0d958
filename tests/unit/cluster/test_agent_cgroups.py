"""What a container uses is read from its node's control groups of both versions, as kubelets and systemd name them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from tests.harness.set_clock import SetClock
from tests.harness.waiting import until

from steepest.cluster.folders.replica_roster import ResourceUse
from steepest.cluster.kubernetes.agent.cgroups import ContainerGroups
from steepest.cluster.kubernetes.agent.node_meter import NodeMeter
from steepest.cluster.kubernetes.objects import Pod

UID = "498e088b-9a3a-4ebd-92c3-8e4e4b84374b"
SYSTEMD_UID = UID.replace("-", "_")
DIGITS = "19814d21abaa5ffb5455067b4a1d7434dd34fd9dccb7ccb481398d7c681e5586"
CONTAINER = f"containerd://{DIGITS}"
PAUSE = "252bbc8b2876a84c528e9cd86c932c3866867fea56cf225035b4e06f30acc7ca"

V2_FILES = {
    "cpu.stat": "usage_usec 12500000\nuser_usec 12000000\nsystem_usec 500000\nnr_periods 0\n",
    "memory.current": f"{300 << 20}\n",
    "memory.stat": f"anon {200 << 20}\nfile {90 << 20}\ninactive_file {60 << 20}\nactive_file {30 << 20}\n",
}
V1_CPU = {"cpuacct.usage": "12500000000\n", "cpuacct.stat": "user 1200\nsystem 50\n"}
V1_MEMORY = {
    "memory.usage_in_bytes": f"{300 << 20}\n",
    "memory.stat": f"cache {90 << 20}\ninactive_file 7\ntotal_inactive_file {60 << 20}\n",
}
PLACES = {
    "cgroupfs": f"kubepods/burstable/pod{UID}/{DIGITS}",
    "cgroupfs, guaranteed, below a group of the node": f"node-a/kubepods/pod{UID}/{DIGITS}",
    "systemd": (
        f"kubepods.slice/kubepods-besteffort.slice/"
        f"kubepods-besteffort-pod{SYSTEMD_UID}.slice/cri-containerd-{DIGITS}.scope"
    ),
    "systemd, below a slice": (
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
        f"kubelet-kubepods-burstable-pod{SYSTEMD_UID}.slice/crio-{DIGITS}.scope"
    ),
}


def make(place: Path, files: Mapping[str, str]) -> None:
    """A group with these files, beside that of the pod's first process."""
    (place.parent / PAUSE).mkdir(parents=True, exist_ok=True)
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (place / name).write_text(content)


def version_2(top: Path, place: str) -> None:
    """A tree of version 2."""
    top.mkdir(exist_ok=True)
    (top / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (top / "system.slice" / "sshd.service").mkdir(parents=True, exist_ok=True)
    make(top / place, V2_FILES)


def version_1(top: Path, place: str) -> None:
    """A tree of version 1, in which two controllers share a hierarchy, and each is a link to it."""
    make(top / "cpu,cpuacct" / place, V1_CPU)
    (top / "cpuacct").symlink_to("cpu,cpuacct")
    make(top / "memory" / place, V1_MEMORY)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("tree", [version_1, version_2])
def test_a_container_is_found_and_measured(tmp_path: Path, tree: object, place: str) -> None:
    """Its processor time, and its memory without the file cache that can be dropped; network traffic is not known there."""
    assert callable(tree)
    tree(tmp_path, place)
    found = ContainerGroups(tmp_path, now_s=lambda: 7.0).sample(UID, CONTAINER)

    assert found is not None
    assert (found.at_s, found.cpu_s, found.memory_mib) == (7.0, 12.5, 240)
    assert (found.network_bytes, found.received_bytes) == (None, None)


def test_what_is_not_there_is_unknown_and_not_zero(tmp_path: Path) -> None:
    """Without a mount, without the group, with a file that is missing or is none, or an id that is no id."""
    place = PLACES["cgroupfs"]
    assert ContainerGroups(tmp_path / "nothing").sample(UID, CONTAINER) is None
    version_2(tmp_path, place)
    groups = ContainerGroups(tmp_path)
    assert groups.sample("another", CONTAINER) is None
    assert groups.sample(UID, f"containerd://{'0' * 64}") is None
    for wrong in ("", "containerd://../..", f"containerd://{DIGITS}/x", DIGITS):
        assert groups.sample(UID, wrong) is None
    assert groups.sample("../..", CONTAINER) is None
    (tmp_path / place / "memory.stat").unlink()
    known = groups.sample(UID, CONTAINER)
    assert known is not None
    assert known.memory_mib is None
    (tmp_path / place / "cpu.stat").write_text("usage_usec many\n")
    assert groups.sample(UID, CONTAINER) is None


def test_no_link_is_followed(tmp_path: Path) -> None:
    """A group is a folder of the kernel's own."""
    elsewhere = tmp_path / "elsewhere"
    make(elsewhere / DIGITS, V2_FILES)
    top = tmp_path / "top"
    top.mkdir()
    (top / "cgroup.controllers").write_text("cpu\n")
    (top / "kubepods").mkdir()
    (top / "kubepods" / f"pod{UID}").symlink_to(elsewhere, target_is_directory=True)

    assert ContainerGroups(top).sample(UID, CONTAINER) is None


def pod(container: str = CONTAINER) -> Pod:
    """A pod that runs."""
    status = {"phase": "Running", "containerStatuses": [{"name": "job", "containerID": container}]}
    return msgspec.json.decode(json.dumps({"metadata": {"uid": UID}, "status": status}), type=Pod)


async def test_use_is_what_lies_between_two_samples(tmp_path: Path) -> None:
    """Unknown again where the group is gone, and forgotten with its pod."""
    clock, place = SetClock(), PLACES["cgroupfs"]
    version_2(tmp_path, place)
    meter = NodeMeter(ContainerGroups(tmp_path, now_s=clock.monotonic))
    meter.measure_pods([pod()])
    await until(lambda: meter.of(UID).memory_mib == 240)
    assert meter.of(UID) == ResourceUse(cpu_ms=12_500, memory_mib=240)

    clock.now_s += 2.0
    (tmp_path / place / "cpu.stat").write_text("usage_usec 13500000\n")
    meter.measure_pods([pod()])
    await until(lambda: meter.of(UID).cpu_m is not None)
    assert meter.of(UID) == ResourceUse(cpu_m=500, cpu_ms=13_500, memory_mib=240)

    (tmp_path / place / "cpu.stat").unlink()
    clock.now_s += 2.0
    meter.measure_pods([pod()])
    await until(lambda: meter.of(UID) == ResourceUse())
    meter.forget(UID)
    await meter.close()
