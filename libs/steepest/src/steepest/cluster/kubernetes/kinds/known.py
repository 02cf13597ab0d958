"""The kinds that Steepest knows.

It owns their descriptions, and which of them a name stands for.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.cluster.kubernetes.kinds.description import Demand, Kind, MadeObject, Roles, TakenChanges
from steepest.errors import InputError

JOB = Kind(
    name="Job",
    api="batch/v1",
    plural="jobs",
    suspend=("spec", "suspend"),
    roles=Roles(
        pods=("spec", "parallelism"),
        completions=("spec", "completions"),
        completion_mode=("spec", "completionMode"),
        default_mode="NonIndexed",
        retries=("spec", "backoffLimit"),
        template=("spec", "template"),
        subdomain=("spec", "template", "spec", "subdomain"),
    ),
    ends=("Complete", "Failed"),
    may_be_queued=True,
)
"""It is the only kind that needs no value of the chart. https://kubernetes.io/docs/concepts/workloads/controllers/job/"""

JOB_SET = Kind(
    name="JobSet",
    api="jobset.x-k8s.io/v1alpha2",
    plural="jobsets",
    suspend=("spec", "suspend"),
    roles=Roles(
        path=("spec", "replicatedJobs"),
        name=("name",),
        jobs=("replicas",),
        pods=("template", "spec", "parallelism"),
        completions=("template", "spec", "completions"),
        completion_mode=("template", "spec", "completionMode"),
        retries=("template", "spec", "backoffLimit"),
        template=("template", "spec", "template"),
        job_template=("template",),
        success=("spec", "successPolicy", "targetReplicatedJobs"),
        subdomain=("spec", "network", "subdomain"),
        is_own_domain=True,
        role_label="jobset.sigs.k8s.io/replicatedjob-name",
        job_label="jobset.sigs.k8s.io/job-index",
        demands=(
            Demand(
                path=("spec", "failurePolicy", "maxRestarts"),
                allowed=(None, 0),
                why="it is restarted by its own controller",
                hint="set failurePolicy.maxRestarts to 0; backoffLimit says how often Steepest starts it again",
            ),
            Demand(
                path=("spec", "failurePolicy", "rules"),
                allowed=(None,),
                why="the rules of its failure policy may restart it",
                hint="leave failurePolicy.rules out",
            ),
            Demand(
                path=("spec", "startupPolicy", "startupPolicyOrder"),
                allowed=(None, "AnyOrder"),
                why="its replicated Jobs start one after the other, and a gang starts whole",
                hint="set startupPolicy.startupPolicyOrder to AnyOrder",
            ),
            Demand(
                path=("spec", "managedBy"),
                allowed=(None, "jobset.sigs.k8s.io/jobset-controller"),
                why="another controller manages it",
                hint="leave managedBy out",
            ),
        ),
        role_demands=(
            Demand(
                path=("dependsOn",),
                allowed=(None,),
                why="a replicated Job waits for another one, and a gang starts whole",
                hint="leave dependsOn out",
            ),
        ),
    ),
    ends=("Completed", "Failed"),
)
"""https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/"""

TRAIN_JOB = Kind(
    name="TrainJob",
    api="trainer.kubeflow.org/v1alpha1",
    plural="trainjobs",
    suspend=("spec", "suspend"),
    roles=JOB_SET.roles,
    made=MadeObject(
        kind=JOB_SET,
        changes=TakenChanges(
            path=("spec", "runtimePatches"), by="manager", changed=("trainingRuntimeSpec", "template")
        ),
        where="the runtime that it names",
    ),
    ends=("Complete", "Failed"),
    demands=(
        Demand(
            path=("spec", "managedBy"),
            allowed=(None, "trainer.kubeflow.org/trainjob-controller"),
            why="another controller manages it",
            hint="leave managedBy out",
        ),
    ),
)
"""Its runtime has the templates of its pods, and Kubeflow's Trainer makes a JobSet of both.
https://www.kubeflow.org/docs/components/trainer/"""

PYTORCH_JOB = Kind(
    name="PyTorchJob",
    api="kubeflow.org/v1",
    plural="pytorchjobs",
    suspend=("spec", "runPolicy", "suspend"),
    roles=Roles(
        path=("spec", "pytorchReplicaSpecs"),
        names=("Master", "Worker"),
        pods=("replicas",),
        template=("template",),
        restart=("restartPolicy",),
        chief="Master",
        role_label="training.kubeflow.org/replica-type",
        pod_label="training.kubeflow.org/replica-index",
    ),
    ends=("Succeeded", "Failed"),
    counts_what_is_there=True,
    demands=(
        Demand(
            path=("spec", "elasticPolicy"),
            allowed=(None,),
            why="its own operator changes its size",
            hint="leave elasticPolicy out",
        ),
        Demand(
            path=("spec", "runPolicy", "managedBy"),
            allowed=(None, "kubeflow.org/training-operator"),
            why="another controller manages it",
            hint="leave runPolicy.managedBy out",
        ),
    ),
)
"""Kubeflow's training operator makes its pods without Jobs, and one that fails is the end of it.
https://www.kubeflow.org/docs/components/trainer/legacy-v1/"""

OTHERS = {kind.name: kind for kind in (JOB_SET, TRAIN_JOB, PYTORCH_JOB)}
"""The kinds that an installation schedules only if it names them."""


def kinds(names: Sequence[str]) -> tuple[Kind, ...]:
    """The kinds that an installation schedules: Jobs, and those that it names.

    Raises:
        InputError: There is no such kind.
    """
    for name in names:
        if name not in OTHERS:
            raise InputError(
                f"{name!r} is no kind that can be scheduled", code="bad-kind", hint=f"there is {', '.join(OTHERS)}"
            )
    return (JOB, *(kind for name, kind in OTHERS.items() if name in names))


class Referred(msgspec.Struct, frozen=True):
    """The object that a job was submitted for, as the job's spec says it.

    Attributes:
        kind: Its kind.
        name: Its name.
        namespace: Its namespace; empty: the installation's own.
    """

    kind: Kind
    name: str
    namespace: str = ""


def reference(kind: Kind, name: str, namespace: str = "") -> str:
    """How the spec of a job names the object that it was submitted for: a Job by its name alone, as in older logs.

    Args:
        kind: The object's kind.
        name: Its name.
        namespace: Its namespace; empty: the installation's own.
    """
    if namespace:
        return f"{namespace}/{kind.name}/{name}"
    return name if kind == JOB else f"{kind.name}/{name}"


def referred(among: Sequence[Kind], said: str) -> Referred | None:
    """The object that :func:`reference` names; None: it is of none of these kinds."""
    before, _, name = said.rpartition("/")
    namespace, _, wanted = before.rpartition("/")
    wanted = wanted or JOB.name
    return next((Referred(kind, name, namespace) for kind in among if kind.name == wanted and name), None)
