"""What a webhook puts into a Job: all that a start needs, nothing of its user's lost, and the same twice as once."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.json_patches import patched
from tests.unit.cluster.kinds_objects import job_set, pytorch_job, replicated, template, users

from steepest.admission.gating import JobsVolume, JobToGate, patch
from steepest.admission.review import answer
from steepest.cluster.container_paths import KEEPS, TEMPORARY
from steepest.errors import UntrustedError
from steepest.keeper.kernel import CAPABILITIES

POLICY = Path(__file__).parents[3] / "deploy" / "kubernetes" / "opt-in.yaml"
VOLUME = JobsVolume(claim="shared", folder="trial", folders={"images": "trial/pools/vision"})
WITH_KEEPERS = msgspec.structs.replace(VOLUME, has_keepers=True)

Job = dict[str, Any]


def users_job(
    *, pod: Job | None = None, container: Job | None = None, labels: Job | None = None, **annotations: str
) -> Job:
    """A Job as the API server hands it over when it is created."""
    one = {"name": "train", "image": "trainer:3", **(container or {})}
    said = {f"steepest.dev/{name}": value for name, value in annotations.items()}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "mine",
            "labels": {"steepest.dev/schedule": "true", **(labels or {})},
            "annotations": said,
        },
        "spec": {"backoffLimit": 2, "suspend": False, "template": {"spec": {"containers": [one], **(pod or {})}}},
    }


def gated(job: Job, volume: JobsVolume = VOLUME) -> Job:
    """The Job with the patch applied."""
    return patched(job, patch(msgspec.convert(job, JobToGate), volume))


def named(items: list[Job], key: str = "name") -> dict[str, Job]:
    """Items by their key, of which none is there twice."""
    found = {item[key]: item for item in items}
    assert len(found) == len(items)
    return found


def test_its_pod_waits_with_the_jobs_folders() -> None:
    """It is suspended, its pods have the gate, and its container finds its folders and variables."""
    spec = gated(users_job())["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    mounts = named(container["volumeMounts"], "mountPath")
    variables = named(container["env"])

    assert (spec["suspend"], spec["podReplacementPolicy"], spec["backoffLimit"]) == (True, "Failed", 2)
    assert pod["schedulingGates"] == [{"name": "steepest.dev/placement"}]
    assert pod["volumes"] == [{"name": "steepest", "persistentVolumeClaim": {"claimName": "shared"}}]
    below = "trial/cluster/jobs/$(STEEPEST_JOB)"
    assert mounts["/steepest/control"]["subPathExpr"] == f"{below}/$(STEEPEST_REPLICA)/$(STEEPEST_INCARNATION)/control"
    assert mounts["/steepest/checkpoints"]["subPathExpr"] == f"{below}/checkpoints"
    assert variables["STEEPEST_CONTROL"]["value"] == "/steepest/control"
    of_annotation = variables["STEEPEST_JOB"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert of_annotation == "metadata.annotations['variable.steepest.dev/STEEPEST_JOB']"


def test_what_its_user_has_written_stays() -> None:
    """Those of other names stay; each of ours is there once, also where the user has one of that name."""
    pod = gated(
        users_job(
            pod={
                "schedulingGates": [{"name": "another.example/gate"}],
                "volumes": [{"name": "data", "emptyDir": {}}, {"name": "steepest", "emptyDir": {}}],
                "nodeSelector": {"disk": "fast"},
            },
            container={
                "env": [{"name": "LR", "value": "0.1"}, {"name": "STEEPEST_JOB", "value": "another"}],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"},
                    {"name": "data", "mountPath": "/steepest/control"},
                ],
            },
        )
    )["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert set(named(pod["schedulingGates"])) == {"another.example/gate", "steepest.dev/placement"}
    assert named(pod["volumes"])["data"] == {"name": "data", "emptyDir": {}}
    assert named(pod["volumes"])["steepest"]["persistentVolumeClaim"] == {"claimName": "shared"}
    assert named(container["env"])["LR"] == {"name": "LR", "value": "0.1"}
    assert "valueFrom" in named(container["env"])["STEEPEST_JOB"]
    assert named(container["volumeMounts"], "mountPath")["/data"]["name"] == "data"
    assert named(container["volumeMounts"], "mountPath")["/steepest/control"]["name"] == "steepest"
    assert pod["nodeSelector"] == {"disk": "fast"}


@pytest.mark.parametrize(
    ("queue", "folder"), [("images", "trial/pools/vision"), ("texts", "trial"), ("../../etc", "trial")]
)
def test_its_files_are_where_its_queues_pool_has_them(queue: str, folder: str) -> None:
    """The jobs of a queue that no pool names are the first pool's, also where its name is a path."""
    pod = gated(users_job(labels={"steepest.dev/queue": queue}))["spec"]["template"]["spec"]

    for mount in pod["containers"][0]["volumeMounts"]:
        assert mount["subPathExpr"].startswith(f"{folder}/cluster/jobs/$(STEEPEST_JOB)/")


WORDS = {"command": ["python"], "args": ["train.py"]}


def test_a_job_whose_user_wants_that_begins_with_its_keeper() -> None:
    """Its own words are the keeper's arguments, it is root with six capabilities, and its programs cannot be written."""
    job = users_job(container={**WORDS, "env": [{"name": "LD_PRELOAD", "value": "/mine.so"}]}, checkpoint="system")
    spec = gated(job, WITH_KEEPERS)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = named(container["volumeMounts"], "mountPath")

    assert (container["command"], container["args"]) == (list(KEEPS), ["python", "train.py"])
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": list(CAPABILITIES)}
    assert container["securityContext"]["runAsUser"] == 0
    assert "securityContext" not in spec  # which says the job's user
    assert named(container["env"])["LD_PRELOAD"]["value"] == ""
    read = {path for path, mount in mounts.items() if mount.get("readOnly")}
    assert read == {"/steepest/criu", "/steepest/program/steepest/keeper", "/steepest/order.json"}
    assert mounts["/steepest/criu"]["subPathExpr"] == "trial/cluster/$(STEEPEST_KEEPER)/criu"
    assert mounts[TEMPORARY]["subPathExpr"] == "trial/cluster/jobs/$(STEEPEST_JOB)/tmp"
    assert gated(gated(job, WITH_KEEPERS), WITH_KEEPERS) == gated(job, WITH_KEEPERS)


@pytest.mark.parametrize(
    ("container", "said", "volume"),
    [
        pytest.param(WORDS, "auto", WITH_KEEPERS, id="its-user-does-not-say-so"),
        pytest.param(WORDS, "system", VOLUME, id="the-operator-does-not-allow-it"),
        pytest.param({"args": ["train.py"]}, "system", WITH_KEEPERS, id="command-of-its-image"),
        pytest.param({**WORDS, "securityContext": {"runAsUser": 7}}, "system", WITH_KEEPERS, id="user-of-its-own"),
    ],
)
def test_no_other_job_gets_a_right(container: Job, said: str, volume: JobsVolume) -> None:
    """Nothing of a keeper is put into it."""
    job = users_job(container=container, checkpoint=said)

    assert gated(job, volume)["spec"] == gated(users_job(container=container))["spec"]


def test_the_policies_of_newer_servers_add_the_same_names() -> None:
    """Every text of a policy that ends up in a pod's template is in the webhook's patch too."""
    made = msgspec.json.encode(gated(users_job(container=WORDS, checkpoint="system"), WITH_KEEPERS)).decode()
    counts = (
        (POLICY, 15),
        (POLICY.with_name("opt-in-pytorchjob.yaml"), 14),
        (POLICY.with_name("opt-in-keepers.yaml"), 22),
    )
    for policy, count in counts:
        mutations = policy.read_text().partition("mutations:")[2].partition("---")[0]
        names = r"steepest\.dev/placement|Failed|/steepest/[\w/.-]+|STEEPEST_\w+|/tmp|Unconfined|[A-Z][A-Z_]+"
        texts = set(re.findall(rf'"({names})"', mutations))

        assert len(texts) == count
        assert not [text for text in texts if f'"{text}"' not in made]


ITEMS = st.lists(st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "steepest", "STEEPEST_JOB"])}), max_size=4)


@given(volumes=st.none() | ITEMS, env=st.none() | ITEMS, queue=st.text(max_size=5))
def test_a_second_time_changes_nothing(volumes: list[Job] | None, env: list[Job] | None, queue: str) -> None:
    """Servers may ask again about what the webhook has changed."""
    once = gated(users_job(pod={"volumes": volumes}, container={"env": env}, labels={"steepest.dev/queue": queue}))

    assert gated(once) == once


def test_the_jobs_of_a_job_set_are_gated_by_their_label() -> None:
    """It is suspended itself; each of its Jobs will have the label and the queue by which that Job is gated."""
    before = {
        "kind": "JobSet",
        **users(job_set(), labels={"steepest.dev/schedule": "true", "steepest.dev/queue": "images"}),
    }
    before["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"labels": {"team": "us"}}
    asked = question(before, request={"uid": "u-1", "object": before, "kind": {"kind": "JobSet"}})
    response = msgspec.json.decode(answer(asked, VOLUME))["response"]
    after = patched(before, msgspec.json.decode(base64.b64decode(response["patch"])))
    leader, worker = (each["template"]["metadata"]["labels"] for each in after["spec"]["replicatedJobs"])

    assert after["spec"]["suspend"] is True
    assert worker == {"steepest.dev/schedule": "part", "steepest.dev/queue": "images"}
    assert leader == {"team": "us", **worker}


def test_a_train_job_hands_its_label_on_to_the_job_set_that_it_makes() -> None:
    """It is suspended itself; the JobSet, as a part, gets the labels for its Jobs, and no in-place restarts by default."""
    labels = {"steepest.dev/schedule": "true", "steepest.dev/queue": "images"}
    others = {"manager": "team.example/a"}
    before = {"kind": "TrainJob", **users({"suspend": False, "runtimePatches": [others]}, labels=labels)}
    after = asked_about(before)
    kept, own = after["spec"]["runtimePatches"]
    part = own["trainingRuntimeSpec"]["template"]["metadata"]["labels"]

    silent, said = replicated("node", 1, 2), replicated("other", 1, 1)
    del silent["template"]["spec"]["template"]["spec"]["restartPolicy"]
    said["template"]["spec"]["template"] = template(restartPolicy="OnFailure")
    made = {"kind": "JobSet", **users({"suspend": False, "replicatedJobs": [silent, said]}, labels=part)}
    roles = asked_about(made)["spec"]["replicatedJobs"]

    assert (after["spec"]["suspend"], kept, own["manager"]) == (True, others, "steepest.dev/schedule")
    assert part == {"steepest.dev/schedule": "part", "steepest.dev/queue": "images"}
    assert [role["template"]["metadata"]["labels"] for role in roles] == [part, part]
    assert [role["template"]["spec"]["template"]["spec"]["restartPolicy"] for role in roles] == ["Never", "OnFailure"]
    assert asked_about(made)["spec"]["suspend"] is False


def test_the_pods_of_a_pytorch_job_are_gated_as_those_of_a_job() -> None:
    """Their templates get what a Job's would get, and it is suspended; a map that is not there is made."""
    labels = {"steepest.dev/schedule": "true", "steepest.dev/queue": "images"}
    spec = pytorch_job()
    del spec["runPolicy"]
    after = asked_about({"kind": "PyTorchJob", **users(spec, labels=labels)})
    job = users_job(labels=labels)
    job["spec"]["template"] = template()
    del job["spec"]["template"]["spec"]["restartPolicy"]
    wanted = gated(job)["spec"]["template"]["spec"]

    assert after["spec"]["runPolicy"] == {"suspend": True}
    for each in after["spec"]["pytorchReplicaSpecs"].values():
        assert each["template"]["spec"] == wanted


def asked_about(found: Job) -> Job:
    """An object as it is once the webhook was asked about it."""
    asked = question(found, request={"uid": "u-1", "object": found, "kind": {"kind": found["kind"]}})
    response = msgspec.json.decode(answer(asked, VOLUME))["response"]
    return patched(found, msgspec.json.decode(base64.b64decode(response["patch"])))


def question(job: Any, **fields: Any) -> bytes:
    """The API server's question about a Job."""
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u-1", "object": job}}
    return msgspec.json.encode({**review, **fields})


def test_the_answer_admits_the_job_with_the_patch() -> None:
    """Under the uid of the question, as the API has it."""
    found = msgspec.json.decode(answer(question(users_job()), VOLUME))
    response = found["response"]

    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u-1", True, "JSONPatch")
    assert msgspec.json.decode(base64.b64decode(response["patch"])) == patch(
        msgspec.convert(users_job(), JobToGate), VOLUME
    )


def test_a_job_without_a_container_is_gated_all_the_same() -> None:
    """The API server refuses it then, with its own words."""
    operations = patch(msgspec.convert(users_job(pod={"containers": []}), JobToGate), VOLUME)

    assert "/spec/template/spec/schedulingGates" in {one["path"] for one in operations}
    assert not [one for one in operations if "containers" in one["path"]]


@pytest.mark.parametrize(
    "asked",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        question(users_job(), kind="ConversionReview"),
        question(users_job(), request=None),
        question({"spec": {}}),
        question(users_job(pod={"volumes": "all"})),
        question(None),
        question(None, request={"uid": "u-1", "object": users_job(), "kind": {"kind": "CronJob"}}),
        question(None, request={"uid": "u-1", "object": users_job(), "kind": {"kind": "JobSet"}}),
        question(None, request={"uid": "u-1", "object": users({"runtimePatches": 1}), "kind": {"kind": "TrainJob"}}),
        question(None, request={"uid": "u-1", "object": users(pytorch_job(Master={})), "kind": {"kind": "PyTorchJob"}}),
    ],
)
def test_what_is_no_question_about_a_job_is_refused(asked: bytes) -> None:
    """With an error, and no answer that admits anything."""
    with pytest.raises(UntrustedError):
        answer(asked, VOLUME)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PARTS = st.dictionaries(st.sampled_from(["env", "volumeMounts", "volumes", "containers", "schedulingGates"]), JSON)


@given(
    st.binary(max_size=50)
    | st.builds(question, JSON)
    | st.builds(lambda pod, container: question(users_job(pod=pod, container=container)), PARTS, PARTS)
)
def test_any_question_has_an_answer_or_an_error(asked: bytes) -> None:
    """No input ends the process that answers."""
    try:
        found = msgspec.json.decode(answer(asked, VOLUME))
    except UntrustedError:
        return
    assert found["response"]["allowed"] is True
