"""Users' objects of the kinds that Steepest knows, as an API server gives them, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

import msgspec

from steepest.cluster.kubernetes.kinds.known import JOB, JOB_SET
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


SPECS = {JOB.name: indexed(5), JOB_SET.name: job_set()}
"""A gang of five of each kind."""


def users(spec: Object, **metadata: Any) -> Object:
    """A suspended object that is opted in."""
    return {
        "metadata": {"name": "mine", "uid": UID, "labels": {SCHEDULE: "true"}, **metadata},
        "spec": {"suspend": True, **spec},
        "status": {},
    }


def read(found: Object) -> UsersObject:
    """It as it is decoded."""
    return msgspec.json.decode(msgspec.json.encode(found), type=UsersObject)
