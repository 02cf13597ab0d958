"""A release of the chart on the lab's two nodes, in a namespace and on a volume of its own.

It owns how the release is installed and what the cluster itself says of it: objects, control groups, the audit log.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from steepest.kubernetes_lab.images import DEMO
from steepest.kubernetes_lab.lab import KubernetesLab
from steepest.kubernetes_lab.service_images import BROKER, SERVICES

CHART = Path(__file__).parents[3] / "charts" / "steepest"
USER = 10001
CLAIM = "shared"
NAME = "trial-steepest"
TIMEOUT_S = 600

VALUES: Mapping[str, Any] = {
    "image": {"repository": SERVICES.partition(":")[0], "tag": "latest"},
    "jobs": {"volumeClaim": CLAIM, "image": DEMO},
    "optIn": {"enabled": True},
    "pools": [{"name": "default", "nodes": ["node-a=1.6:4Gi", "node-b=0.2:4Gi"]}],
    "parameters": {"policy": "specon+flowcon", "interval_ms": 1000, "alpha": 0.9},
    "kafka": {
        "broker": {
            "enabled": True,
            "image": BROKER,
            "storage": "",
            "resources": {"requests": {"cpu": "10m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        }
    },
    "serviceDefaults": {
        "resources": {"requests": {"cpu": "1m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
    },
}
"""All jobs start on the large node, converge soon, and one moves to the idle one; what services request leaves room."""


class Release:
    """The release ``trial``.

    Args:
        lab: The lab, which runs and has the images.
        namespace: Its namespace, which is made.
    """

    def __init__(self, lab: KubernetesLab, namespace: str) -> None:
        self.lab = lab
        self.namespace = namespace
        self.volume = lab.folder.run / f"volume-{namespace}"

    def make_namespace(self) -> None:
        """Make the namespace, which admits only pods that are closed, with the claim of a volume that both nodes have."""
        self.volume.mkdir()
        os.chown(self.volume, USER, USER)
        volume = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "shared",
            "hostPath": {"path": str(self.volume)},
            "claimRef": {"namespace": self.namespace, "name": CLAIM},
        }
        claim = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "shared",
            "volumeName": self.namespace,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        place = {"name": CLAIM, "namespace": self.namespace}
        items: list[dict[str, object]] = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": labels}},
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": self.namespace}, "spec": volume},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": place, "spec": claim},
        ]
        self.lab.kubectl("apply", "-f", "-", content={"apiVersion": "v1", "kind": "List", "items": items})

    def remove_namespace(self) -> None:
        """Remove it with everything in it."""
        self.lab.kubectl("delete", "namespace", self.namespace, "--timeout=120s")
        self.lab.kubectl("delete", "persistentvolume", self.namespace)

    def helm(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """What Helm prints.

        Raises:
            AssertionError: It failed; the message says why, and which pods there are.
        """
        order = [self.lab.folder.program("helm"), f"--kubeconfig={self.lab.folder.kubeconfig}", "-n", self.namespace]
        order += [*arguments, *(("--values", "-") if values is not None else ())]
        given = msgspec.json.encode(values) if values is not None else None
        done = subprocess.run(order, input=given, capture_output=True, check=False, timeout=TIMEOUT_S + 60)
        assert not done.returncode, done.stderr.decode() + self.kubectl("get", "pods", "-o", "wide")
        return done.stdout.decode()

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints, in the namespace."""
        return self.lab.kubectl("-n", self.namespace, *arguments)

    def items(self, kind: str, labels: str) -> list[dict[str, Any]]:
        """The objects of a kind with these labels."""
        found: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, "-l", labels, "-o", "json"))["items"]
        return found

    def jobs_pods(self) -> dict[str, dict[str, Any]]:
        """The pods of Steepest's jobs that run, by job."""
        running = self.items("pods", "steepest.dev/managed=true")
        return {
            each["metadata"]["name"].partition("-")[0]: each
            for each in running
            if each["status"]["phase"] == "Running" and "deletionTimestamp" not in each["metadata"]
        }

    def steepest(self, *arguments: str) -> str:
        """What the command line prints, in the gateway's pod."""
        return self.kubectl("exec", f"deploy/{NAME}-gateway", "--", "steepest", *arguments)

    def folder(self, job: str) -> Path:
        """A job's folder on the volume."""
        return self.volume / NAME / "cluster" / "jobs" / job

    def asked_of_the_api_server(self) -> Iterator[dict[str, Any]]:
        """What the release's service accounts have changed, or were refused, by the audit log."""
        prefix = f"system:serviceaccount:{self.namespace}:{NAME}-"
        for line in self.lab.folder.audit.read_text().splitlines():
            if prefix in line and (found := json.loads(line))["user"]["username"].startswith(prefix):
                yield found


class LimitSampler(threading.Thread):
    """Reads the CPU limits of containers from the kernel's control groups while the block runs; of pods without one, none.

    Attributes:
        seen: By the pod's UID, every limit that one of its containers had, in millicores.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: dict[str, set[int]] = {}
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Look until the block is over."""
        while not self._over.wait(0.05):
            for place in ("cpu/steepest-*/kubepods", "steepest-*/kubepods"):
                for path in Path("/sys/fs/cgroup").glob(f"{place}/*/pod*/*/*"):
                    if path.name in ("cpu.cfs_quota_us", "cpu.max"):
                        self._note(path)

    def _note(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # the container has ended
            limit = path.read_text().split()[0]
            if limit not in ("-1", "max"):
                self.seen.setdefault(path.parents[1].name.removeprefix("pod"), set()).add(int(limit) // 100)
