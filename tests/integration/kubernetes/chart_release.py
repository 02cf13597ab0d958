"""A release of the chart on the lab's two nodes, in a namespace and on a volume of its own.

It owns how the release is installed and what the cluster itself says of it: objects, control groups, the audit log.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from tests.integration import exclusive_training
from tests.integration.kubernetes.pod_processes import process_in

from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.service_images import BROKER, SERVICES

CHART = Path(__file__).parents[3] / "charts" / "steepest"
USER = 10001
CLAIM = "shared"
NAME = "trial-steepest"
TIMEOUT_S = 600
PATIENCE_S = 300.0
T = TypeVar("T")

VALUES: Mapping[str, Any] = {
    "image": {"repository": SERVICES.partition(":")[0], "tag": "latest"},
    "jobs": {"volumeClaim": CLAIM, "image": DEMO},
    "optIn": {"enabled": True, "ownNamespace": True, "kinds": ["JobSet", "TrainJob", "PyTorchJob"]},
    "pools": [{"name": "default", "nodes": ["node-a=1.6:4Gi", "node-b=0.2:4Gi"]}],
    "parameters": {
        "policy": "specon+flowcon",
        "interval_ms": 1000,
        "alpha": 0.9,
        "queueing": "priority",
        "preempt": True,
        "min_run_ms": 1000,
    },
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
"""All jobs start on the large node, converge soon, and one moves to the idle one; what services request leaves room.

An urgent job has others suspended that have run for a second.
"""


class Release:
    """The release ``trial``.

    Args:
        lab: The lab, which runs and has the images.
        namespace: Its namespace, which is made.

    Attributes:
        team: A further namespace, of which users' objects are scheduled.
        values: Those of the chart.
    """

    def __init__(self, lab: KubernetesLab, namespace: str) -> None:
        self.lab = lab
        self.namespace = namespace
        self.team = f"{namespace}-team"
        self.values: Mapping[str, Any] = {**VALUES, "optIn": {**VALUES["optIn"], "namespaces": [self.team]}}
        self.volume = lab.folder.run / f"volume-{namespace}"

    def make_namespaces(self) -> None:
        """Make both namespaces, which admit only pods that are closed, each with a claim of the same volume."""
        self.volume.mkdir()
        os.chown(self.volume, USER, USER)
        items = [each for place in (self.namespace, self.team) for each in _with_claim(place, self.volume)]
        self.lab.kubectl("apply", "-f", "-", content={"apiVersion": "v1", "kind": "List", "items": items})

    def remove_namespaces(self) -> None:
        """Have them removed with everything in them, which takes as long as the broker and the jobs take to end."""
        for kind in ("namespace", "persistentvolume"):
            self.lab.kubectl("delete", kind, self.namespace, self.team, "--wait=false")

    def clear(self) -> None:
        """Remove what a release has left that is gone: its jobs, and their files on the volume."""
        self.kubectl("delete", "jobs", "-l", "steepest.dev/managed=true", "--cascade=foreground")
        for left in self.volume.iterdir():
            shutil.rmtree(left)

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

    def items(self, kind: str, labels: str, namespace: str = "") -> list[dict[str, Any]]:
        """The objects of a kind with these labels; ``namespace``: empty for the release's own."""
        asked = ("-n", namespace or self.namespace, "get", kind, "-l", labels, "-o", "json")
        found: list[dict[str, Any]] = json.loads(self.lab.kubectl(*asked))["items"]
        return found

    def jobs_pods(self, job: str = "") -> dict[str, dict[str, Any]]:
        """The pods of Steepest's jobs that run, by job; of a gang, those of ``job``, by the replica's number."""
        found = [
            each
            for each in self.items("pods", "steepest.dev/managed=true")
            if each["status"]["phase"] == "Running" and "deletionTimestamp" not in each["metadata"]
        ]
        if job:
            return {each["metadata"]["labels"]["steepest.dev/replica"]: each for each in found if job_of(each) == job}
        return {job_of(each): each for each in found}

    def jobs(self, *names: str) -> list[dict[str, Any]]:
        """The Jobs of some of Steepest's jobs, by replica."""
        found = [each for each in self.items("jobs", "steepest.dev/managed=true") if job_of(each) in names]
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    def steepest(self, *arguments: str) -> str:
        """What the command line prints, in the gateway's pod."""
        return self.kubectl("exec", f"deploy/{NAME}-gateway", "--", "steepest", *arguments)

    def submit(self, job: str, *options: str, cpu: str = "0.1") -> None:
        """Submit a training that goes on until it is enough, and that leaves a mark if it runs twice."""
        source = Path(exclusive_training.__file__).read_text()
        of_each = ("--name", job, "--cpu", cpu, "--memory", "64Mi", *options)
        self.steepest("submit", *of_each, "--", "python3", "-c", source, "/steepest/checkpoints")

    def let_finish(self, *jobs: str) -> None:
        """It is enough."""
        for job in jobs:
            (self.folder(job) / "checkpoints" / "enough").touch()

    def folder(self, job: str) -> Path:
        """A job's folder on the volume, also of one that is over."""
        cluster = self.volume / NAME / "cluster"
        return found if (found := cluster / "jobs" / job).exists() else cluster / "ended" / f"{job}.1"

    def control(self, job: str, incarnation: int = 0) -> Path:
        """The control folder of an incarnation of a job's first replica; of the newest one without a number."""
        replica = self.folder(job) / "0"
        number = incarnation or max(int(path.name) for path in replica.iterdir())
        return replica / str(number) / "control"

    def reported(self, job: str, incarnation: int = 0) -> list[int]:
        """The steps that an incarnation has reported, the chief's of a gang."""
        path = self.control(job, incarnation) / "reports.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line)["step"] for line in lines]

    def restored(self, job: str) -> int | None:
        """The step from which the newest incarnation says that it resumed."""
        hello = self.control(job) / "hello.json"
        eventually(hello.exists, "the job greets")
        step: int | None = json.loads(hello.read_text())["restored_step"]
        return step

    def saved(self, job: str) -> set[int]:
        """The steps of the manifests on the volume."""
        manifests = self.folder(job).glob("checkpoints/*/manifest.json")
        return {json.loads(path.read_text())["step"] for path in manifests}

    def doubled(self, *jobs: str) -> list[str]:
        """The marks of trainings that found another copy of themselves running."""
        return [mark.name for job in jobs for mark in self.folder(job).glob("checkpoints/*.twice")]

    def is_asked_to_save(self, job: str) -> bool:
        """Whether a process of the job was asked for a checkpoint, which is how a move begins."""
        return any(self.folder(job).glob("0/*/control/checkpoint-request.json"))

    def has_restarted(self, component: str) -> bool:
        """Whether a container of a service runs and is ready, and is not the first one."""
        (pod,) = self.items("pods", f"app.kubernetes.io/component={component}")
        return all(each["ready"] and each["restartCount"] for each in pod["status"]["containerStatuses"])

    def process_of(self, component: str, program: str) -> int:
        """The process of a service, by its number on this machine."""
        (pod,) = self.items("pods", f"app.kubernetes.io/component={component}")
        return process_in(pod["metadata"]["uid"], program)

    def asked_of_the_api_server(self) -> Iterator[dict[str, Any]]:
        """What the release's service accounts have changed, or were refused, by the audit log."""
        prefix = f"system:serviceaccount:{self.namespace}:{NAME}-"
        for line in self.lab.folder.audit.read_text().splitlines():
            if prefix in line and (found := json.loads(line))["user"]["username"].startswith(prefix):
                yield found


def _with_claim(namespace: str, volume: Path) -> Sequence[Mapping[str, Any]]:
    """A namespace, and its claim of a folder of both nodes."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": "shared"}
    folder = {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(volume)}}
    claimed = {"claimRef": {"namespace": namespace, "name": CLAIM}}
    claim = {**common, "volumeName": namespace, "resources": {"requests": {"storage": "1Gi"}}}
    place = {"name": CLAIM, "namespace": namespace}
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": namespace},
            "spec": {**folder, **claimed},
        },
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": place, "spec": claim},
    )


def job_of(made: Mapping[str, Any]) -> str:
    """The job of a Job or pod that Steepest has made."""
    return str(made["metadata"]["name"]).partition("-")[0]


def incarnation_of(pod: Mapping[str, Any]) -> str:
    """Which incarnation runs in a pod."""
    return str(pod["metadata"]["annotations"]["steepest.dev/incarnation"])


def eventually(
    ask: Callable[[], T | None], what: str, why: Callable[[], object] = str, within_s: float = PATIENCE_S
) -> T:
    """The first answer that holds.

    Raises:
        AssertionError: There was none in time.
    """
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if (found := ask()) and found is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not in {within_s:g} s: {what} {why()}")


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
                # Unlike pathlib's, this glob does not mind a group that vanishes.
                for path in map(Path, glob.iglob(f"/sys/fs/cgroup/{place}/*/pod*/*/*")):  # noqa: PTH207 - as above
                    if path.name in ("cpu.cfs_quota_us", "cpu.max"):
                        self._note(path)

    def _note(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # the container has ended
            limit = path.read_text().split()[0]
            if limit not in ("-1", "max"):
                self.seen.setdefault(path.parents[1].name.removeprefix("pod"), set()).add(int(limit) // 100)
