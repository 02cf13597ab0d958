"""The coscheduling plugin, in a second scheduler: each Job's pod is a gang of one, with a PodGroup.

It owns that scheduler's settings, and its gangs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from benchmarks.kubernetes.bare_cluster import JOBS, Post, plain_job
from benchmarks.kubernetes.control_plane import QPS, scheduler_settings
from benchmarks.kubernetes.fake_kubelets import NAMESPACE
from benchmarks.kubernetes.plane_host import HostedContender

COSCHEDULING = "coscheduling"
_API = "scheduling.x-k8s.io/v1alpha1"
_GROUPS = f"/apis/{_API}/namespaces/{NAMESPACE}/podgroups"
_PLUGIN = "Coscheduling"


class Coscheduling(HostedContender):
    """It binds the pods of a gang together, or none of them. The default scheduler is there, and has nothing to do."""

    name = COSCHEDULING
    users = (COSCHEDULING,)

    async def submit(self, jobs: int) -> Mapping[str, float]:
        """Each Job after its PodGroup, which the scheduler looks up. See ``Contender.submit``."""
        return await self.stage.cluster.post_jobs([gang(number) for number in range(jobs)], per_s=QPS)

    def begin(self) -> None:
        """Make the kind of the gangs known, and start the scheduler."""
        host, folder = self.host, self.host.folder
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
