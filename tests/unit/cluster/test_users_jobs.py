"""What a user's Job asks for: what is taken over, what is left alone, and that any object is one or the other."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cluster.container_paths import KEEPS
from steepest.cluster.kubernetes.kinds.known import JOB
from steepest.cluster.kubernetes.kinds.users_object import UsersObject
from steepest.cluster.kubernetes.nodes.users_node_rules import PARTS_MOST, RULE_BYTES_MOST
from steepest.cluster.kubernetes.users_jobs import (
    USERS_JOB,
    is_of,
    job_name,
    submission,
)
from steepest.errors import InputError
from steepest.events.cluster import JobSubmitted
from steepest.events.common import (
    NAME_FIELD,
    CheckpointMode,
    LabelOperator,
    LabelRequirement,
    Name,
    NodeRule,
    Resources,
    Toleration,
    TolerationOperator,
)
from steepest.events.requests import Role
from steepest.log.base import TopicPartition
from steepest.policies.submission import may_be_users
from steepest.runtime.decode import asked_record
from steepest.view.spec_rules import what_is_wrong

UID = "0a1b2c3d-0000-4000-8000-000000000000"


def job(*, labels: Any = (), annotations: Any = (), pod: Any = (), container: Any = (), **spec: Any) -> UsersObject:
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
    return msgspec.json.decode(msgspec.json.encode(body), type=UsersObject)


def test_a_job_keeps_what_its_user_has_written() -> None:
    """Its command and image are for people; its requests, queue, metric and retries decide."""
    found = submission(
        JOB,
        job(
            labels={"steepest.dev/queue": "images"},
            annotations={"steepest.dev/metric": "val_loss", "steepest.dev/steps": "300"},
            container={"resources": {"requests": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}}},
        ),
    )

    assert found.command == ("python", "train.py")
    assert found.env == {USERS_JOB: "mine"}
    assert found.requests == Resources(cpu_m=500, memory_mib=1024, gpus=1)
    assert (found.queue, found.metric, found.steps, found.retries) == ("images", "val_loss", 300, 2)


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({}, Resources(cpu_m=1)),
        ({"requests": {"memory": "1Gi"}}, Resources(cpu_m=1, memory_mib=1024)),
        ({"limits": {"nvidia.com/gpu": "1"}}, Resources(cpu_m=1, gpus=1)),
        ({"requests": {"cpu": "2"}}, Resources(cpu_m=2000)),
    ],
)
def test_pods_that_request_no_cpu_count_as_if_they_asked_for_the_least(resources: Any, requests: Resources) -> None:
    """They are common: such a job is admitted as any other, and its node takes no more of its pods than it has places."""
    found = submission(JOB, job(container={"resources": resources}))

    assert found.requests == requests
    assert not list(what_is_wrong(found.counted))


def required(*terms: Any) -> dict[str, Any]:
    """A pod's required node affinity."""
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
            },
            "podAffinity": {"odd": 1},
        }
    }


def test_a_job_keeps_which_nodes_its_pod_allows() -> None:
    """Its node selector, required node affinity and tolerations; what it only prefers does not count."""
    zone = {"key": "zone", "operator": "NotIn", "values": ["a", "b"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    pod = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [
            {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "team", "value": "us", "tolerationSeconds": 60},
            {"key": "team", "value": "us"},
            {"key": "cores", "operator": "Gt", "value": "8"},
        ],
        **required({"matchExpressions": [zone]}, {"matchFields": [name]}, {}),
    }

    assert submission(JOB, job(pod=pod)).node_rule == NodeRule(
        requires=(LabelRequirement(key="disk", operator=LabelOperator.IN, values=("ssd",)),),
        any_of=(
            (LabelRequirement(key="zone", operator=LabelOperator.NOT_IN, values=("a", "b")),),
            (LabelRequirement(key=NAME_FIELD, operator=LabelOperator.IN, values=("n1",)),),
            (),
        ),
        tolerates=(
            Toleration(key="gpu", operator=TolerationOperator.EXISTS, effect="NoSchedule"),
            Toleration(key="team", value="us"),
        ),
    )


@pytest.mark.parametrize("pod", [{}, {"tolerations": [], "nodeSelector": {}, "affinity": {"podAffinity": {}}}])
def test_a_job_that_says_nothing_of_nodes_is_submitted_as_before(pod: Any) -> None:
    """Its bytes have no such field."""
    spec = submission(JOB, job(pod=pod))

    assert spec.node_rule is None
    assert b"node_rule" not in msgspec.json.encode(spec)


MANY = [{"key": f"k{number}", "operator": "Exists"} for number in range(10_000)]


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        ({"tolerations": MANY}, "too long"),
        ({"tolerations": [{"key": "k", "value": "v" * RULE_BYTES_MOST}]}, "too long"),
        ({"nodeSelector": {"k": "v" * 401}}, "cannot be a job"),
        (required(*[{"matchExpressions": [each]} for each in MANY]), "too long"),
        (required(*[{"matchExpressions": [{**MANY[0], "values": ["v"] * 10_000}]}]), "too long"),
        (required(*[{}] * 10_000, {"matchExpressions": [{"key": "k", "operator": "Near"}]}), "affinity cannot be read"),
        (required({"matchFields": [{"key": "spec.x", "operator": "Exists"}]}), "names the field 'spec.x'"),
        ({"tolerations": 7}, "tolerations cannot be read"),
        ({"tolerations": [{"key": ["k"]}]}, "tolerations cannot be read"),
        ({"tolerations": [{"key": "k", "value": 7}]}, "tolerations cannot be read"),
        ({"nodeSelector": ["disk"]}, "nodeSelector cannot be read"),
        ({"nodeSelector": {"disk": None}}, "nodeSelector cannot be read"),
        ({"affinity": {"nodeAffinity": "here"}}, "affinity cannot be read"),
    ],
)
def test_nodes_that_cannot_be_chosen_concern_their_job_alone(pod: Any, why: str) -> None:
    """However long or odd it is, the object itself is read, and its user is given a reason."""
    with pytest.raises(InputError, match=why):
        submission(JOB, job(pod=pod))


def test_the_same_toleration_many_times_is_one() -> None:
    """It is no reason to leave a Job alone."""
    rule = submission(JOB, job(pod={"tolerations": MANY[:1] * PARTS_MOST})).node_rule
    assert rule is not None
    assert len(rule.tolerates) == 1


_ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(["In", "Gt", "Exists", "Equal"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["key", "operator", "values", "value", "effect", "matchExpressions", "matchFields", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.fixed_dictionaries({}, optional={"tolerations": _ODD, "nodeSelector": _ODD, "affinity": _ODD}), _ODD)
def test_any_choice_of_nodes_is_taken_or_left_alone(pod: dict[str, Any], term: Any) -> None:
    """Nothing else is raised, and what is taken is a valid submission that is read as it was written."""
    for each in (pod, {**pod, **required(term)}):
        try:
            spec = submission(JOB, job(pod=each))
        except InputError:
            continue
        event = JobSubmitted(job=job_name("mine", UID), request=UID, spec=spec)
        asked_record(TopicPartition("cluster"), "default", event, 0)
        assert msgspec.json.decode(msgspec.json.encode(event), type=JobSubmitted) == event


@pytest.mark.parametrize(
    ("given_job", "why"),
    [
        (job(parallelism=2, completions=2), "they have no index: set completionMode to Indexed"),
        (job(parallelism=2, completions=3, completionMode="Indexed"), "side by side"),
        (job(parallelism=1, completions=3), "side by side"),
        (job(parallelism=0, completions=0), "without pods"),
        (job(parallelism="two"), "spec.parallelism is no number"),
        (job(template=[]), "cannot be read"),
        (job(template=None), "no template"),
        (job(pod={"restartPolicy": "OnFailure"}), "restarted in place"),
        (job(pod={"containers": [{}, {}]}), "more than one container"),
        (job(pod={"containers": []}), "more than one container"),
        (job(labels={"steepest.dev/queue": "Not a name"}), "no name of a queue"),
        (job(annotations={"steepest.dev/steps": "many"}), "no number of steps"),
        (job(annotations={"steepest.dev/steps": "0"}), "no number of steps"),
    ],
)
def test_what_cannot_be_scheduled_is_left_alone(given_job: UsersObject, why: str) -> None:
    """With a reason for its user."""
    with pytest.raises(InputError) as refused:
        submission(JOB, given_job)

    assert why in f"{refused.value}: {refused.value.hint}"


def test_a_job_of_several_pods_is_a_gang_of_a_fixed_size() -> None:
    """Each of its pods is a replica, and none may leave: it runs whole or not at all."""
    container = {"resources": {"requests": {"cpu": "500m"}}}
    found = submission(JOB, job(parallelism=3, completions=3, completionMode="Indexed", container=container))

    assert found.roles == (Role(name="worker", replicas=3, requests=Resources(cpu_m=500)),)
    assert (found.is_gang, found.world, found.allows((2,)), found.retries) == (True, 3, False, 2)
    assert (found.node_rule, list(what_is_wrong(found))) == (None, [])


def test_a_job_of_several_pods_runs_where_its_template_allows() -> None:
    """The rule of its one template is that of the gang."""
    pod = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    found = submission(JOB, job(parallelism=3, completions=3, completionMode="Indexed", pod=pod))

    assert (
        found.node_rule
        == submission(JOB, job(pod=pod)).node_rule
        == NodeRule(
            requires=(LabelRequirement(key="disk", operator=LabelOperator.IN, values=("ssd",)),),
            tolerates=(Toleration(key="gpu", operator=TolerationOperator.EXISTS),),
        )
    )
    assert list(what_is_wrong(found)) == []


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
        spec = submission(JOB, job(labels=labels, annotations=annotations, container=container, backoffLimit=limit))
    except (InputError, msgspec.ValidationError):
        return
    event = JobSubmitted(job=job_name("mine", UID), request=UID, spec=spec)
    asked_record(TopicPartition("cluster"), "default", event, 0)


KEPT = {"command": list(KEEPS), "args": ["python", "train.py"]}
"""A container into which the API server has put a keeper."""

WANTED = {"steepest.dev/checkpoint": "system"}


def test_a_job_with_a_keeper_is_known_by_its_own_words() -> None:
    """Nothing of the keeper is part of its command."""
    found = submission(JOB, job(annotations=WANTED, container=KEPT, pod={"securityContext": {"runAsUser": 7}}), user=7)

    assert (found.command, found.checkpoint_mode) == (("python", "train.py"), CheckpointMode.SYSTEM)


@pytest.mark.parametrize(
    ("asked", "user", "why"),
    [
        (job(annotations={"steepest.dev/checkpoint": "sdk"}), 7, "'sdk' is no way to save its pod"),
        (job(annotations=WANTED), 7, "pods may have no keeper here"),
        (job(annotations=WANTED, container={"command": []}), 7, "does not state its command"),
        (job(annotations=WANTED, container={"securityContext": {"runAsUser": 7}}), 7, "has a user of its own"),
        (job(annotations=WANTED, container=KEPT), None, "only in the installation's own namespace"),
        (job(annotations=WANTED, container=KEPT, parallelism=2, completions=2, completionMode="Indexed"), 7, "one pod"),
        (job(annotations=WANTED, container=KEPT, pod={"securityContext": {"runAsUser": 8}}), 7, "the group 7"),
        (job(annotations=WANTED, container=KEPT, pod={"securityContext": {"fsGroup": 7}}), 7, "no other group"),
        (job(annotations=WANTED, container=KEPT, pod={"hostPID": True}), 7, "process ids of its own"),
        (job(annotations=WANTED, container=KEPT, pod={"shareProcessNamespace": True}), 7, "process ids of its own"),
    ],
)
def test_a_job_that_can_have_no_keeper_says_why(asked: UsersObject, user: int | None, why: str) -> None:
    """In words for its user: it does not run without one, as its user has demanded it."""
    with pytest.raises(InputError, match=why):
        submission(JOB, asked, user=user)
