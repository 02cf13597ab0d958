"""The coscheduling plugin, in a second scheduler: each Job's pod is a gang of one, with a PodGroup.

It owns that scheduler's settings, and its gangs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import yaml
from benchmarks.kubernetes.bare_cluster import JOBS, Post, plain_job
from benchmarks.kubernetes.contenders import Contender, Stage
from benchmarks.kubernetes.control_plane import QPS, scheduler_settings
from benchmarks.kubernetes.fake_kubelets import NAMESPACE
from benchmarks.kubernetes.plane_host import PlaneHost

from steepest.kubernetes_lab.controllers import missing_program
from steepest.kubernetes_lab.layout import LabFolder

COSCHEDULING = "coscheduling"
_API = "scheduling.x-k8s.io/v1alpha1"
_GROUPS = f"/apis/{_API}/namespaces/{NAMESPACE}/podgroups"
_PLUGIN = "Coscheduling"


class Coscheduling(Contender):
    """It binds the pods of a gang together, or none of them. The default scheduler is there, and has nothing to do."""

    name = COSCHEDULING
    users = (COSCHEDULING,)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._host = PlaneHost(stage, COSCHEDULING)

    @classmethod
    def missing(cls, programs: Path) -> str:
        """See ``Contender.missing``."""
        return missing_program(LabFolder(programs, programs), COSCHEDULING)

    async def start(self) -> None:
        """Make the kind of the gangs known, and start the scheduler.

        Raises:
            ClusterError: The kind is refused.
        """
        await asyncio.to_thread(self._start)

    async def submit(self, jobs: int) -> Mapping[str, float]:
        """Each Job after its PodGroup, which the scheduler looks up. See ``Contender.submit``."""
        return await self.stage.cluster.post_jobs([gang(number) for number in range(jobs)], per_s=QPS)

    def processes(self) -> Mapping[str, psutil.Process]:
        """See ``Contender.processes``."""
        return self._host.processes()

    async def stop(self) -> None:
        """See ``Contender.stop``."""
        self._host.close()

    def _start(self) -> None:
        host, folder = self._host, self._host.folder
        host.open()
        for kind in yaml.load_all(Path(folder.program(f"{COSCHEDULING}-crd.yaml")).read_text(), yaml.CSafeLoader):
            if kind:
                host.kubectl("apply", "--server-side", "-f", "-", content=kind)
                host.kubectl("wait", "--for=condition=Established", f"crd/{kind['metadata']['name']}", "--timeout=60s")
        config = folder.run / "scheduler.json"
        config.write_bytes(msgspec.json.encode(settings(folder.kubeconfig)))
        command = [folder.program(COSCHEDULING), f"--config={config}", "--secure-port=0"]
        host.daemons.start(COSCHEDULING, command, env=os.environ)


def settings(kubeconfig: Path) -> dict[str, Any]:
    """The scheduler's configuration: the default plugins and this one, which orders the queue."""
    plugins = {
        "multiPoint": {"enabled": [{"name": _PLUGIN}]},
        "queueSort": {"enabled": [{"name": _PLUGIN}], "disabled": [{"name": "*"}]},
    }
    return {**scheduler_settings(kubeconfig), "profiles": [{"schedulerName": COSCHEDULING, "plugins": plugins}]}


def gang(number: int) -> Sequence[Post]:
    """A PodGroup of one, and its Job."""
    job = plain_job(number)
    name = job["metadata"]["name"]
    template = job["spec"]["template"]
    template["metadata"] = {"labels": {"scheduling.x-k8s.io/pod-group": name}}
    template["spec"]["schedulerName"] = COSCHEDULING
    group = {"apiVersion": _API, "kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": 1}}
    return ((_GROUPS, group), (JOBS, job))
