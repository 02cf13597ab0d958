"""What a move consists of, and which part of it is Steepest's own: from the audit log, the volume and the pool's log.

It owns these parts. Not Steepest's own are: the process that saves and ends, the control plane that makes and binds the pod,
the node that starts its container, and the process that comes to its first step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.harness.system.running_system import RunningSystem

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.kubernetes.pod_observer import pod_of
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:steepest"
CONTROLLER = "system:serviceaccount:kube-system:job-controller"


def own_parts_ms(system: RunningSystem, lab: KubernetesLab, moved: c.MigrationFinished) -> dict[str, float]:
    """How long Steepest itself took for a move that has just ended, between what it waited for.

    Returns:
        ``asked``: from the decision to the request for a checkpoint; ``suspended``: from the process's answer to the request
        that suspends the Job; ``resumed``: from what the kubelet says of the process's end to the request that resumes the
        Job; ``placed``: from the pod that the control plane makes to the request that drops its gate; ``noted``: from the
        first step's report to the record of it. In milliseconds.
    """
    times = {type(each.event): each.at_ms for each in system.events() if getattr(each.event, "plan", "") == moved.plan}
    before, after = _incarnations(system, moved.job)
    old, new = pod_of(before), pod_of(after)
    assert old is not None
    assert new is not None
    saved = _written_ms(before.ack)
    asked = list(_asked(lab))
    job = old.name.rpartition("-")[0]
    changes = [one for one in asked if _is_ours(one) and _is(one, "patch", "jobs", name=job)]
    made = [_done_ms(one) for one in asked if one["user"]["username"] == CONTROLLER and _is(one, "create", "pods")]
    suspended = min(_received_ms(one) for one in changes if _received_ms(one) > saved)
    ended = min(_done_ms(one) for one in asked if _has_ended(one, old.name))
    resumed = min(_received_ms(one) for one in changes if _received_ms(one) > ended)
    placed = min(_received_ms(one) for one in asked if _is_ours(one) and _is(one, "patch", "pods", name=new.name))
    first = json.loads(after.reports.read_text().partition("\n")[0])["at_ms"]
    return {
        "asked": _written_ms(before.request) - times[c.MigrationPlanned],
        "suspended": suspended - saved,
        "resumed": resumed - ended,
        "placed": placed - min(at for at in made if at > resumed),
        "noted": times[c.JobResumed] - first,
    }


def _incarnations(system: RunningSystem, job: str) -> tuple[IncarnationFolder, IncarnationFolder]:
    before, after = AdapterFolder(system.state / "cluster").incarnations(ReplicaId(job))[-2:]
    return before, after


def _written_ms(path: Path) -> float:
    return path.stat().st_mtime_ns / 1e6


def _asked(lab: KubernetesLab) -> Iterator[dict[str, Any]]:
    """What was asked of the API server, and done."""
    for line in lab.folder.audit.read_text().splitlines():
        found = json.loads(line)
        if found.get("responseStatus", {}).get("code", 500) < 300:
            yield found


def _is(asked: dict[str, Any], verb: str, resource: str, subresource: str = "", name: str = "") -> bool:
    of = asked["objectRef"]
    wanted = (verb, resource, subresource, name or of.get("name", ""))
    return (asked["verb"], of["resource"], of.get("subresource", ""), of.get("name", "")) == wanted


def _is_ours(asked: dict[str, Any]) -> bool:
    return bool(asked["user"]["username"] == ACCOUNT)


def _has_ended(asked: dict[str, Any], pod: str) -> bool:
    """Whether a kubelet says here that no process of the pod runs."""
    phase = asked.get("requestObject", {}).get("status", {}).get("phase")
    return _is(asked, "patch", "pods", "status", pod) and phase in ("Succeeded", "Failed")


def _received_ms(asked: dict[str, Any]) -> float:
    return datetime.fromisoformat(asked["requestReceivedTimestamp"]).timestamp() * 1000


def _done_ms(asked: dict[str, Any]) -> float:
    return datetime.fromisoformat(asked["stageTimestamp"]).timestamp() * 1000
