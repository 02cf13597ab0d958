"""Which GPUs pods have, and which of these failed, as their kubelets say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.kubernetes.nodes.pod_devices import REMEMBERED_S, PodDevices, unhealthy
from steepest.cluster.kubernetes.nodes.selected_nodes import GPU
from steepest.cluster.kubernetes.objects import ClusterNode, Pod


def pod(**health: str) -> Pod:
    """A pod with devices, by their ids, and what it has of another kind."""
    devices = [{"resourceID": name, "health": state} for name, state in health.items()]
    of_kinds = [{"name": GPU, "resources": devices}, {"name": "other/x", "resources": [{"resourceID": "x"}]}]
    status: dict[str, Any] = {"containerStatuses": [{"name": "job", "allocatedResourcesStatus": of_kinds}]}
    return msgspec.convert({"metadata": {"name": "p"}, "status": status}, Pod)


def node(there: str, given: str) -> ClusterNode:
    """A node whose kubelet has so many GPUs, and gives so many to pods."""
    status = {"capacity": {GPU: there}, "allocatable": {GPU: given}}
    return msgspec.convert({"metadata": {"name": "n"}, "status": status}, ClusterNode)


def test_a_number_stays_that_of_its_gpu(tmp_path: Path) -> None:
    """Counted from 0 on each node by first sight, and the same ones for the next adapter of the folder."""
    state = AdapterFolder(tmp_path)
    devices = PodDevices(state)

    assert devices.of("n1", pod(b="Healthy"), 0.0) == (0,)
    assert devices.of("n1", pod(a="Healthy", b="Unknown"), 0.0) == (0, 1)
    assert devices.of("n2", pod(a="Healthy"), 0.0) == (0,)
    assert PodDevices(state).of("n1", pod(c="Healthy", a="Healthy"), 0.0) == (1, 2)
    (tmp_path / "devices-n1.json").write_text("{")
    assert PodDevices(state).of("n1", pod(z="Healthy"), 0.0) == (0,)


def test_a_failure_outlasts_its_pod_until_the_kubelet_counts_it(tmp_path: Path) -> None:
    """It is over at once where the kubelet says that the GPU works again; a pod without GPUs says nothing of any."""
    devices = PodDevices(AdapterFolder(tmp_path))
    devices.of("n1", pod(a="Healthy", b="Unhealthy"), 10.0)

    assert [one.gpu for one in devices.failed("n1", 10.0 + REMEMBERED_S - 1)] == [1]
    assert devices.failed("n1", 10.0 + REMEMBERED_S) == ()
    assert devices.failed("n2", 10.0) == ()
    devices.of("n1", pod(b="Unhealthy"), 50.0)
    devices.of("n1", pod(), 51.0)
    assert [one.gpu for one in devices.failed("n1", 51.0)] == [1]
    devices.of("n1", pod(b="Healthy"), 52.0)
    assert devices.failed("n1", 52.0) == ()


def test_a_kubelet_gives_no_unhealthy_gpu() -> None:
    """What it has and does not give is unhealthy; a node without GPUs, or that is not known, has none."""
    assert unhealthy(node("4", "3")) == 1
    assert unhealthy(node("0", "0")) == unhealthy(None) == 0
