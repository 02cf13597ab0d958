"""What a user's Job asks for: what is taken over, what is left alone, and that any object is one or the other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cluster.kubernetes.users_jobs import (
    USERS_JOB,
    UsersJob,
    is_of,
    job_name,
    may_be_users,
    submission,
)
from steepest.errors import InputError
from steepest.events.cluster import JobSubmitted
from steepest.events.common import Name, Resources
from steepest.log.base import TopicPartition
from steepest.runtime.decode import asked_record

UID = "0a1b2c3d-0000-4000-8000-000000000000"


def job(*, labels: Any = (), annotations: Any = (), pod: Any = (), container: Any = (), **spec: Any) -> UsersJob:
    """A Job that can be taken, but for what is named."""
    one = {"name": "train", "image": "trainer:3", "command": ["python"], "args": ["train.py"], **dict(container)}
    body = {
        "metadata": {"name": "mine", "uid": UID, "labels": dict(labels), "annotations": dict(annotations)},
        "spec": {
            "suspend": True,
            "backoffLimit": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [one], **dict(pod)}},
            **spec,
        },
    }
    return msgspec.convert(body, UsersJob)


def test_a_job_keeps_what_its_user_has_written() -> None:
    """Its command and image are for people; its requests, queue, metric and retries decide."""
    found = submission(
        job(
            labels={"steepest.dev/queue": "images"},
            annotations={"steepest.dev/metric": "val_loss", "steepest.dev/steps": "300"},
            container={"resources": {"requests": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}}},
        )
    )

    assert found.command == ("python", "train.py")
    assert found.env == {USERS_JOB: "mine"}
    assert found.requests == Resources(cpu_m=500, memory_mib=1024, gpus=1)
    assert (found.queue, found.metric, found.steps, found.retries) == ("images", "val_loss", 300, 2)


@pytest.mark.parametrize(
    ("given_job", "why"),
    [
        (job(parallelism=2, completions=2), "more than one pod"),
        (job(completions=None), "more than one pod"),
        (job(pod={"restartPolicy": "OnFailure"}), "restarted in place"),
        (job(pod={"containers": [{}, {}]}), "more than one container"),
        (job(pod={"containers": []}), "more than one container"),
        (job(labels={"steepest.dev/queue": "Not a name"}), "no name of a queue"),
        (job(annotations={"steepest.dev/steps": "many"}), "no number of steps"),
        (job(annotations={"steepest.dev/steps": "0"}), "no number of steps"),
    ],
)
def test_what_cannot_be_scheduled_is_left_alone(given_job: UsersJob, why: str) -> None:
    """With a reason for its user."""
    with pytest.raises(InputError, match=why):
        submission(given_job)


def test_a_job_that_is_made_again_is_another_one() -> None:
    """The UID is a part of its name, and the name says that it is a user's."""
    other = "ffffffff-0000-4000-8000-000000000000"

    assert job_name("mine", UID) == "mine.0a1b2c3d"
    assert job_name("mine", other) != job_name("mine", UID)
    assert is_of(job_name("mine", UID), UID)
    assert not is_of(job_name("mine", UID), other)
    assert not may_be_users("mine")


@given(st.from_regex(r"\A[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z"), st.uuids().map(str))
def test_every_name_of_a_job_becomes_a_name(name: str, uid: str) -> None:
    """Kubernetes allows longer ones."""
    assert may_be_users(msgspec.convert(job_name(name, uid), Name))


_TEXT = st.text(max_size=80)


@given(
    st.dictionaries(st.sampled_from(["steepest.dev/queue", "steepest.dev/metric", "x"]), _TEXT),
    st.dictionaries(st.sampled_from(["steepest.dev/metric", "steepest.dev/log-format", "steepest.dev/steps"]), _TEXT),
    st.lists(_TEXT, max_size=80),
    st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "x/y"]), _TEXT),
    st.integers(-5, 2**70),
)
def test_any_object_is_taken_or_left_alone(
    labels: dict[str, str], annotations: dict[str, str], words: list[str], requests: dict[str, str], limit: int
) -> None:
    """What is taken is a valid submission: no user's object stops the service that reads it."""
    container = {"command": words, "image": "i" * 5_000, "resources": {"requests": requests}}
    try:
        spec = submission(job(labels=labels, annotations=annotations, container=container, backoffLimit=limit))
    except (InputError, msgspec.ValidationError):
        return
    event = JobSubmitted(job=job_name("mine", UID), request=UID, spec=spec)
    asked_record(TopicPartition("cluster"), "default", event, 0)
