"""How users' objects are read by the descriptions of their kinds: sizes, ranks, host names, and what is left alone."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.json_patches import PatchTestError, patched
from tests.unit.chart.chart_harness import CHART
from tests.unit.cluster.kinds_objects import (
    CHANGED,
    GANG,
    SPECS,
    Object,
    indexed,
    job_set,
    made_by,
    pytorch_job,
    read,
    replica,
    replicated,
    template,
    users,
)

from steepest.app.settings.kinds import Kind as Named
from steepest.cli.options import KINDS
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.known import (
    JOB,
    JOB_SET,
    OTHERS,
    PYTORCH_JOB,
    TRAIN_JOB,
    Referred,
    kinds,
    reference,
    referred,
)
from steepest.cluster.kubernetes.kinds.marks import marks, suspension
from steepest.cluster.kubernetes.kinds.users_object import UsersObject, hosts, rank_of, roles
from steepest.cluster.kubernetes.manifest import JobSettings, labels_of_job
from steepest.cluster.kubernetes.objects import GATE, SCHEDULE
from steepest.cluster.kubernetes.users_jobs import USERS_JOB, job_name, submission
from steepest.errors import InputError
from steepest.events.cluster import JobSubmitted
from steepest.events.common import (
    LabelOperator,
    LabelRequirement,
    NodeRule,
    Resources,
    Toleration,
    TolerationOperator,
)
from steepest.events.requests import JobSpec, Role, SuccessRule
from steepest.log.base import TopicPartition
from steepest.runtime.decode import asked_record
from steepest.view.spec_rules import what_is_wrong

REQUESTS = Resources(cpu_m=100)
INDEX = "batch.kubernetes.io/job-completion-index"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
BOTH = pytest.mark.parametrize("kind", [JOB, JOB_SET], ids=lambda kind: kind.name)
SETTINGS = JobSettings(
    namespace="n",
    label="ours",
    claim="c",
    below=Path(),
    image="i",
    user=1,
    most=Resources(),
    kinds=(JOB, JOB_SET),
)


@pytest.mark.parametrize("kind", [JOB, *OTHERS.values()], ids=lambda kind: kind.name)
def test_an_object_in_a_queue_of_kueue_is_left_alone(kind: Kind) -> None:
    """Kueue resumes what it has admitted: it and Steepest would undo what the other does."""
    labels = {SCHEDULE: "true", "kueue.x-k8s.io/queue-name": "team"}
    made = having() if kind.made else None
    with pytest.raises(InputError, match="a queue of Kueue") as refused:
        submission(kind, read(users(SPECS[kind.name], labels=labels)), made)

    assert "without the label kueue.x-k8s.io/queue-name, or without steepest.dev/schedule" in refused.value.hint
    submission(kind, read(users(SPECS[kind.name])), made)


QUEUED = {SCHEDULE: "true", "kueue.x-k8s.io/queue-name": "team"}
GATES = f'"schedulingGates": [{{"name": "{GATE}"}}], "restartPolicy"'


def test_a_gated_job_in_a_queue_of_kueue_is_marked_but_for_its_template() -> None:
    """Kueue would put that back."""
    before = users(indexed(5, template=template(schedulingGates=[{"name": GATE}])), labels=QUEUED, resourceVersion="7")
    after = patched(before, marks(JOB, read(before), SETTINGS, GANG))

    assert submission(JOB, read(before)) == submission(JOB, read(after))
    assert after["metadata"]["labels"] == {**QUEUED, **labels_of_job(SETTINGS, GANG)}
    assert after["spec"] == before["spec"]


@pytest.mark.parametrize("kind", [*OTHERS.values()], ids=lambda kind: kind.name)
def test_of_what_kueue_admits_only_jobs_are_scheduled(kind: Kind) -> None:
    """What else is in its queues is left alone, with or without a gate."""
    gated = users(json.loads(json.dumps(SPECS[kind.name]).replace('"restartPolicy"', GATES)), labels=QUEUED)
    with pytest.raises(InputError, match="a queue of Kueue"):
        submission(kind, read(gated), having())


def test_a_job_set_is_a_gang_of_its_replicated_jobs() -> None:
    """Each replicated Job is a role of a fixed size; the fewest failures that end one of its Jobs are the job's retries."""
    spec = job_set()
    spec["replicatedJobs"][1]["template"]["spec"]["backoffLimit"] = 1
    found = submission(JOB_SET, read(users(spec)))

    assert found.roles == (
        Role(name="leader", replicas=1, requests=REQUESTS),
        Role(name="worker", replicas=4, requests=REQUESTS),
    )
    assert (found.env, found.retries, found.success) == ({USERS_JOB: "JobSet/mine"}, 1, SuccessRule.ALL)
    assert list(what_is_wrong(found)) == []


def test_a_job_set_of_one_pod_is_no_gang() -> None:
    """So its template may name nodes, as that of a Job may."""
    alone = replicated("only", 1, 1)
    alone["template"]["spec"]["template"] = template(nodeSelector={"disk": "ssd"})
    found = submission(JOB_SET, read(users({"replicatedJobs": [alone]})))

    assert (found.is_gang, found.roles) == (False, ())
    assert found.node_rule is not None


GPU = {"key": "nvidia.com/gpu", "operator": "Exists"}
SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
CHOOSING = {"nodeSelector": {"disk": "ssd"}, "tolerations": [GPU, SPOT]}
"""What the pods of GPU jobs usually say."""


def asking(kind: Kind, first: Object, others: Object) -> JobSpec:
    """What a gang of this kind asks for, whose first pod and whose others say this of nodes."""
    leader, worker = replicated("leader", 1, 1), replicated("worker", 2, 2)
    for role, pod in ((leader, first), (worker, others)):
        role["template"]["spec"]["template"] = template(**pod)
    sets = {"replicatedJobs": [leader, worker]}
    master, workers = replica(1), replica(4)
    for one, pod in ((master, first), (workers, others)):
        one["template"]["spec"] |= pod
    spec = {JOB_SET.name: sets, PYTORCH_JOB.name: pytorch_job(Master=master, Worker=workers)}.get(kind.name)
    made = having(**sets) if kind.made else None
    return submission(kind, read(users(SPECS[kind.name] if spec is None else spec)), made)


SEVERAL_TEMPLATES = pytest.mark.parametrize("kind", list(OTHERS.values()), ids=lambda kind: kind.name)


@SEVERAL_TEMPLATES
def test_a_gang_runs_where_all_of_its_templates_allow(kind: Kind) -> None:
    """They say the same, also in another order, and beside what they only prefer: that is the gang's one rule."""
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
    others = {**CHOOSING, "tolerations": [SPOT, GPU, GPU], "affinity": {"nodeAffinity": preferred}}
    found = asking(kind, CHOOSING, others)

    assert found.is_gang
    assert found.node_rule == NodeRule(
        requires=(LabelRequirement(key="disk", operator=LabelOperator.IN, values=("ssd",)),),
        tolerates=(
            Toleration(key="nvidia.com/gpu", operator=TolerationOperator.EXISTS),
            Toleration(key="spot", value="yes", effect="NoSchedule"),
        ),
    )
    assert list(what_is_wrong(found)) == []


@SEVERAL_TEMPLATES
@pytest.mark.parametrize(
    "others",
    [{}, {"nodeSelector": {"disk": "ssd"}}, {**CHOOSING, "nodeSelector": {"disk": "hdd"}}],
    ids=["nothing", "less", "another label"],
)
def test_a_gang_whose_templates_differ_in_their_nodes_is_left_alone(kind: Kind, others: Object) -> None:
    """With what its user can change; whichever of them says more."""
    for first, second in ((CHOOSING, others), (others, CHOOSING)):
        with pytest.raises(InputError, match="templates differ in the nodes that they may run on") as refused:
            asking(kind, first, second)

        assert "give all of them the same nodeSelector, required node affinity and tolerations" in refused.value.hint
        assert ("in the runtime that it names" in refused.value.hint) is (kind.made is not None)


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (None, SuccessRule.ALL),
        ({"operator": "All"}, SuccessRule.ALL),
        ({"operator": "All", "targetReplicatedJobs": []}, SuccessRule.ALL),
        ({"operator": "All", "targetReplicatedJobs": ["worker", "leader"]}, SuccessRule.ALL),
        ({"operator": "All", "targetReplicatedJobs": ["leader"]}, SuccessRule.CHIEF),
        ({"operator": "Any", "targetReplicatedJobs": ["leader"]}, SuccessRule.CHIEF),
    ],
)
def test_a_job_set_is_over_as_its_policy_says(policy: Any, rule: SuccessRule) -> None:
    """With its first pod, or with all."""
    assert submission(JOB_SET, read(users(job_set(successPolicy=policy)))).success is rule


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (job_set(failurePolicy={"maxRestarts": 3}), "set failurePolicy.maxRestarts to 0"),
        (
            job_set(failurePolicy={"rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts"}]}),
            "leave failurePolicy.rules out",
        ),
        (job_set(startupPolicy={"startupPolicyOrder": "InOrder"}), "startupPolicyOrder to AnyOrder"),
        (job_set(managedBy="kueue.x-k8s.io/multikueue"), "leave managedBy out"),
        (job_set(successPolicy={"operator": "Any"}), "over with any of its roles"),
        (job_set(successPolicy={"operator": "All", "targetReplicatedJobs": ["worker"]}), "not its first pod"),
        ({"replicatedJobs": [replicated("a", 1, 1, dependsOn=[{"name": "b"}])]}, "leave dependsOn out"),
        ({"replicatedJobs": [replicated("a", 1, 1), replicated("a", 1, 1)]}, "give each a name of its own"),
        ({"replicatedJobs": [replicated("a", 1, 1), replicated("b", 0, 1)]}, "a role without pods"),
        ({"replicatedJobs": [replicated("a", 2_000, 2_000)]}, "too many pods"),
        ({"replicatedJobs": [replicated("a", 1, 1)] * 65}, "no list of 1 to 64"),
        ({"replicatedJobs": []}, "no list of 1 to 64"),
        ({"replicatedJobs": {}}, "no list of 1 to 64"),
        ({}, "no list of 1 to 64"),
        ({"replicatedJobs": ["a"]}, "no template"),
    ],
)
def test_a_job_set_that_cannot_be_scheduled_is_left_alone(spec: dict[str, Any], why: str) -> None:
    """With what its user can change."""
    with pytest.raises(InputError) as refused:
        submission(JOB_SET, read(users(spec)))

    assert why in f"{refused.value}: {refused.value.hint}"


def having(**spec: Any) -> UsersObject:
    """The JobSet that a TrainJob has made."""
    made = made_by(TRAIN_JOB, **spec)
    assert made is not None
    return read(made)


def test_a_train_job_is_the_gang_of_the_job_set_that_it_makes() -> None:
    """With its own name, queue and annotations, and the sizes, templates and retries of its runtime."""
    labels = {SCHEDULE: "true", "steepest.dev/queue": "images"}
    asked = users(SPECS["TrainJob"], labels=labels, annotations={"steepest.dev/metric": "eval"})
    found = submission(TRAIN_JOB, read(asked), having())
    alone = submission(JOB_SET, having())

    assert found.roles == alone.roles
    assert (found.env, found.queue, found.metric) == ({USERS_JOB: "TrainJob/mine"}, "images", "eval")
    assert (found.retries, found.world) == (alone.retries, 5)
    assert list(what_is_wrong(found)) == []


@pytest.mark.parametrize(
    ("asked", "made", "why"),
    [
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, {}, "another controller manages it: leave managedBy out"),
        (
            {},
            {"replicatedJobs": [replicated("a", 1, 1), replicated("b", 1, 1, dependsOn=[{"name": "a"}])]},
            "a gang starts whole: in the runtime that it names, leave dependsOn out",
        ),
        (
            {},
            {
                "replicatedJobs": [
                    {"name": "a", "template": {"spec": {"template": template(restartPolicy="OnFailure")}}}
                ]
            },
            "restarted in place: in the runtime that it names, set restartPolicy to Never",
        ),
    ],
)
def test_a_train_job_that_cannot_be_scheduled_says_where_to_change_it(asked: Any, made: Any, why: str) -> None:
    """In itself, or in its runtime."""
    with pytest.raises(InputError) as refused:
        submission(TRAIN_JOB, read(users({**SPECS["TrainJob"], **asked})), having(**made))

    assert why in f"{refused.value}: {refused.value.hint}"


def test_a_train_job_is_marked_in_what_its_trainer_takes_from_others() -> None:
    """Its JobSet is not written: one change of the TrainJob's own has gate and labels of each role, and others stay."""
    theirs = {"manager": "kueue.x-k8s.io/manager", "time": "2026-11-25T18:08:46Z"}
    labels = {SCHEDULE: "true", "steepest.dev/queue": "images"}
    before = users({**SPECS["TrainJob"], "runtimePatches": [CHANGED, theirs]}, resourceVersion="7", labels=labels)
    after = patched(before, marks(TRAIN_JOB, read(before), SETTINGS, GANG, having()))
    kept, own = after["spec"]["runtimePatches"]
    change = own["trainingRuntimeSpec"]["template"]

    assert after["metadata"]["labels"] == {**labels, **labels_of_job(SETTINGS, GANG)}
    assert (kept, own["manager"]) == (theirs, CHANGED["manager"])
    assert change["metadata"]["labels"] == {SCHEDULE: "part", "steepest.dev/queue": "images"}
    for name, role in zip(("leader", "worker"), change["spec"]["replicatedJobs"], strict=True):
        marked = {"metadata": {"labels": labels_of_job(SETTINGS, GANG)}, "spec": {"schedulingGates": [{"name": GATE}]}}
        assert role == {"name": name, "template": {"spec": {"template": marked}}}


@pytest.mark.parametrize("patches", ["all", {"manager": "a"}, ["a"]])
def test_a_train_job_with_something_else_in_place_of_changes_is_left_alone(patches: Any) -> None:
    """The API server takes none; what is read is anybody's word all the same."""
    with pytest.raises(InputError, match="is no list of changes"):
        marks(TRAIN_JOB, read(users({"runtimePatches": patches})), SETTINGS, GANG, having())


def test_a_pytorch_job_is_a_gang_of_its_replica_types() -> None:
    """Master first, whichever its user writes first; it is over with its master, and with the first pod that fails."""
    spec = pytorch_job(Worker=replica(4), Master=replica(1))
    found = submission(PYTORCH_JOB, read(users(spec)))
    sizes = roles(PYTORCH_JOB, users(spec))

    assert found.roles == (
        Role(name="master", replicas=1, requests=REQUESTS),
        Role(name="worker", replicas=4, requests=REQUESTS),
    )
    assert (found.env, found.retries, found.success) == ({USERS_JOB: "PyTorchJob/mine"}, 0, SuccessRule.CHIEF)
    assert list(what_is_wrong(found)) == []
    kubeflow = "training.kubeflow.org/replica-"
    seen = [
        rank_of(PYTORCH_JOB, sizes, {f"{kubeflow}type": name, f"{kubeflow}index": str(index)})
        for name, index in (("master", 0), ("worker", 0), ("worker", 3), ("worker", 4))
    ]
    assert seen == [0, 1, 4, None]
    assert hosts(PYTORCH_JOB, "mine", users(spec), sizes)[:2] == ("mine-master-0", "mine-worker-0")
    assert hosts(PYTORCH_JOB, "mine", users(spec), sizes)[4] == "mine-worker-3"


@pytest.mark.parametrize(
    ("named", "rule"),
    [
        ({"Worker": replica(3)}, SuccessRule.ALL),
        ({"Master": replica(1)}, SuccessRule.ALL),
        ({"Master": replica(1), "Worker": replica(1)}, SuccessRule.CHIEF),
    ],
)
def test_a_pytorch_job_is_over_with_its_master_if_it_has_others_beside_it(named: Any, rule: SuccessRule) -> None:
    """As its own operator has it."""
    assert submission(PYTORCH_JOB, read(users(pytorch_job(**named)))).success is rule


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (pytorch_job(Master=replica(1, restartPolicy="OnFailure")), "set restartPolicy to Never"),
        (pytorch_job(Worker=replica(1, restartPolicy=None)), "set restartPolicy to Never"),
        ({**pytorch_job(), "elasticPolicy": {"minReplicas": 1}}, "leave elasticPolicy out"),
        ({"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}, **SPECS["Job"]}, "leave runPolicy.managedBy out"),
        (pytorch_job(Chief=replica(1)), "none of Master, Worker, or others"),
        (pytorch_job(Worker=replica(0)), "a role without pods"),
        (pytorch_job(Worker="many"), "no template"),
        ({"pytorchReplicaSpecs": {}}, "none of Master, Worker, or others"),
        ({"pytorchReplicaSpecs": []}, "none of Master, Worker, or others"),
        ({}, "none of Master, Worker, or others"),
    ],
)
def test_a_pytorch_job_that_cannot_be_scheduled_is_left_alone(spec: dict[str, Any], why: str) -> None:
    """With what its user can change."""
    with pytest.raises(InputError) as refused:
        submission(PYTORCH_JOB, read(users(spec)))

    assert why in f"{refused.value}: {refused.value.hint}"


def test_a_pytorch_job_is_marked_in_the_templates_of_its_replica_types() -> None:
    """Each gets the labels by which its pods are found, and a gate."""
    before = users(pytorch_job(), resourceVersion="7")
    after = patched(before, marks(PYTORCH_JOB, read(before), SETTINGS, GANG))

    assert after["metadata"]["labels"] == {SCHEDULE: "true", **labels_of_job(SETTINGS, GANG)}
    assert after["spec"]["pytorchReplicaSpecs"].keys() == {"Master", "Worker"}
    for each in after["spec"]["pytorchReplicaSpecs"].values():
        assert each["template"]["metadata"]["labels"] == labels_of_job(SETTINGS, GANG)
        assert each["template"]["spec"]["schedulingGates"] == [{"name": GATE}]
    assert suspension(PYTORCH_JOB, "u", suspended=True) == {
        "metadata": {"uid": "u"},
        "spec": {"runPolicy": {"suspend": True}},
    }


def test_a_pod_says_which_replica_it_is() -> None:
    """By its role, the index of its Job and its own: ranks follow the object's order, and each belongs to one pod."""
    sizes = roles(JOB_SET, users(job_set()))
    seen = [
        rank_of(JOB_SET, sizes, {ROLE: role, JOB_INDEX: str(job), INDEX: str(pod)})
        for role, jobs, pods in (("leader", 1, 1), ("worker", 2, 2))
        for job in range(jobs)
        for pod in range(pods)
    ]

    assert seen == [0, 1, 2, 3, 4]
    assert hosts(JOB_SET, "mine", users(job_set()), sizes)[:2] == ("mine-leader-0-0.mine", "mine-worker-0-0.mine")
    named = users(job_set(network={"subdomain": "net"}))
    assert hosts(JOB_SET, "mine", named, sizes)[4] == "mine-worker-1-1.net"
    assert hosts(JOB, "mine", users(indexed(2)), roles(JOB, users(indexed(2)))) == ("mine-0", "mine-1")


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {ROLE: "worker"},
        {ROLE: "other", JOB_INDEX: "0", INDEX: "0"},
        {ROLE: "worker", JOB_INDEX: "2", INDEX: "0"},
        {ROLE: "worker", JOB_INDEX: "0", INDEX: "-1"},
        {ROLE: "worker", JOB_INDEX: "0", INDEX: "9" * 30},
        {ROLE: "leader", JOB_INDEX: "0", INDEX: "1"},
    ],
)
def test_a_pod_with_other_labels_is_no_replica(labels: dict[str, str]) -> None:
    """Such as that of another role, or an index that its role does not have."""
    assert rank_of(JOB_SET, roles(JOB_SET, users(job_set())), labels) is None


@BOTH
def test_an_object_is_marked_once(kind: Kind) -> None:
    """It and every template get the labels by which its pods are found, and a gate; nothing of its user's is lost."""
    before = users(SPECS[kind.name], resourceVersion="7")
    after = patched(before, marks(kind, read(before), SETTINGS, GANG))
    labels = labels_of_job(SETTINGS, GANG)
    pods = [part["template"]["spec"]["template"] for part in after["spec"].get("replicatedJobs", ())]

    assert after["metadata"]["labels"] == {SCHEDULE: "true", **labels}
    for each in pods or [after["spec"]["template"]]:
        assert each["metadata"]["labels"] == labels
        assert each["spec"]["schedulingGates"] == [{"name": GATE}]
        assert each["spec"]["containers"] == template()["spec"]["containers"]
    assert after["spec"]["suspend"] is True


@BOTH
def test_marks_join_what_is_there(kind: Kind) -> None:
    """Labels, annotations and gates of the user's stay; a gate that is there is not added again."""
    spec = copy.deepcopy(SPECS[kind.name])
    own = {"metadata": {"labels": {"team": "us"}}, **template(schedulingGates=[{"name": "a/b"}, {"name": GATE}])}
    for part in spec.get("replicatedJobs", ()):
        part["template"]["spec"]["template"] = own
    spec |= {"template": own} if "template" in spec else {}
    before = users(spec, resourceVersion="7", annotations={"note": "mine"})
    after = patched(before, marks(kind, read(before), SETTINGS, GANG))
    pods = [part["template"]["spec"]["template"] for part in after["spec"].get("replicatedJobs", ())]

    assert after["metadata"]["annotations"]["note"] == "mine"
    for each in pods or [after["spec"]["template"]]:
        assert each["metadata"]["labels"] == {"team": "us", **labels_of_job(SETTINGS, GANG)}
        assert each["spec"]["schedulingGates"] == [{"name": "a/b"}, {"name": GATE}]


@BOTH
def test_an_object_that_has_changed_is_not_marked(kind: Kind) -> None:
    """Neither one that was made again under its name: the patch tests for both."""
    before = users(SPECS[kind.name], resourceVersion="7")
    change = marks(kind, read(before), SETTINGS, GANG)
    for other in ({"resourceVersion": "8"}, {"uid": "another"}):
        changed = {**before, "metadata": {**before["metadata"], **other}}
        with pytest.raises(PatchTestError):
            patched(changed, change)
    assert suspension(kind, "u", suspended=False) == {"metadata": {"uid": "u"}, "spec": {"suspend": False}}


def test_the_log_names_objects_of_each_kind() -> None:
    """A Job by its name alone, as in older logs."""
    assert (reference(JOB, "mine"), reference(JOB_SET, "mine")) == ("mine", "JobSet/mine")
    for kind in (JOB, *OTHERS.values()):
        assert referred((JOB, *OTHERS.values()), reference(kind, "mine")) == Referred(kind, "mine")
    assert referred((JOB,), "JobSet/mine") is None
    assert referred((JOB, JOB_SET), "") is None
    assert kinds(("JobSet",)) == (JOB, JOB_SET)
    assert kinds(()) == (JOB,)
    with pytest.raises(InputError, match="no kind that can be scheduled"):
        kinds(("CronJob",))


def test_every_place_that_lists_kinds_has_the_same_ones() -> None:
    """The settings, the command line and the chart."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    items = schema["properties"]["optIn"]["properties"]["kinds"]["items"]

    assert tuple(OTHERS) == get_args(Named) == KINDS == tuple(items["enum"])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**70) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "replicas", "template", "spec", "parallelism", "metadata", "labels", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_JSON, _JSON, st.sampled_from([JOB, *OTHERS.values()]))
def test_any_object_is_taken_or_left_alone(spec: Any, part: Any, kind: Kind) -> None:
    """What is taken is a valid submission: no user's object stops the service that reads it."""
    for each in (
        {"spec": spec},
        users({"replicatedJobs": [part, replicated("a", 1, 1)], **indexed(2, template=part)}),
        users({**job_set(), **(spec if isinstance(spec, dict) else {})}),
    ):
        found = read({"metadata": users({})["metadata"], **each})
        made = None if kind.made is None else found
        try:
            asked = submission(kind, found, made)
            marks(kind, found, SETTINGS, GANG, made)
        except InputError:
            continue
        event = JobSubmitted(job=job_name("mine", found.metadata.uid), request=found.metadata.uid, spec=asked)
        asked_record(TopicPartition("cluster"), "default", event, 0)
        assert msgspec.json.decode(msgspec.json.encode(event), type=JobSubmitted) == event
