"""Users' objects of the kinds that Steepest knows, as an API server gives them, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

import msgspec

from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.known import JOB, JOB_SET, PYTORCH_JOB, TRAIN_JOB
from steepest.cluster.kubernetes.kinds.users_object import UsersObject
from steepest.cluster.kubernetes.objects import SCHEDULE

UID = "0a1b2c3d-0000-4000-8000-000000000000"
GANG = "mine.0a1b2c3d"
"""Its name as a job."""

Object = dict[str, Any]


def template(**pod: Any) -> Object:
    """The template of pods that can be scheduled, but for what is named."""
    container = {"name": "train", "image": "trainer:3", "resources": {"requests": {"cpu": "100m"}}}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **pod}}


def indexed(pods: int, **spec: Any) -> Object:
    """The spec of a Job with so many pods."""
    size = {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}
    return {"backoffLimit": 2, **size, "template": template(), **spec}


def replicated(name: str, jobs: int, pods: int, **role: Any) -> Object:
    """A replicated Job of a JobSet."""
    return {"name": name, "replicas": jobs, "template": {"spec": indexed(pods)}, **role}


def job_set(**spec: Any) -> Object:
    """The spec of a JobSet with one leader, and two Jobs of two workers each."""
    return {"replicatedJobs": [replicated("leader", 1, 1), replicated("worker", 2, 2)], **spec}


def replica(pods: int, **role: Any) -> Object:
    """A replica type of a PyTorchJob."""
    pod = template()
    del pod["spec"]["restartPolicy"]
    return {"replicas": pods, "restartPolicy": "Never", "template": pod, **role}


def pytorch_job(**roles: Any) -> Object:
    """The spec of a PyTorchJob with a master and four workers, or with these replica types."""
    named = roles or {"Master": replica(1), "Worker": replica(4)}
    return {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": named}


SPECS = {
    JOB.name: indexed(5),
    JOB_SET.name: job_set(),
    TRAIN_JOB.name: {"runtimeRef": {"name": "torch"}},
    PYTORCH_JOB.name: pytorch_job(),
}
"""A gang of five of each kind."""

CHANGED = {"manager": "steepest.dev/schedule", "trainingRuntimeSpec": {"template": {"metadata": {"labels": {}}}}}
"""What a policy puts into a TrainJob before it is read."""


def users(spec: Object, **metadata: Any) -> Object:
    """A suspended object that is opted in."""
    return {
        "metadata": {"name": "mine", "uid": UID, "labels": {SCHEDULE: "true"}, **metadata},
        "spec": {"suspend": True, **spec},
        "status": {},
    }


def made_by(kind: Kind, **spec: Any) -> Object | None:
    """The object that such an object has made, if its kind makes one; a JobSet has this spec."""
    if kind.made is None:
        return None
    return users(job_set(**spec), uid="a-job-set", ownerReferences=[{"uid": UID}], labels={SCHEDULE: "part"})


def read(found: Object) -> UsersObject:
    """It as it is decoded."""
    return msgspec.json.decode(msgspec.json.encode(found), type=UsersObject)
