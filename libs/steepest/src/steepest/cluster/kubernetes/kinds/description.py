"""The description of a kind of object: the paths of the parts that decide how its pods are scheduled.

It owns the form of a description. It must never know a kind by its name: what differs between kinds is in descriptions.
"""

from __future__ import annotations

import msgspec

Path = tuple[str, ...]
"""The names of the fields that lead to a part of an object."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """A demand on every object that is scheduled.

    Attributes:
        path: The field: of the object, or of each of its roles.
        allowed: The values that it may have; a field that is not there, or is null, has the value None.
        why: What is wrong otherwise, in words for the object's user.
        hint: What to change.
    """

    path: Path
    allowed: tuple[str | int | None, ...]
    why: str
    hint: str


class Roles(msgspec.Struct, frozen=True, kw_only=True):
    """Where the roles of an object stand, and what each of them says.

    A role of an object is a part of it that has one template for its pods. It stands for a number of Jobs with a number of
    pods each. Paths of a role begin at the role.

    Attributes:
        path: Where the list of the roles stands, or the map; empty: the object itself is its only role.
        names: The names that a map of roles may have, in the order of the replicas' ranks; empty: it is a list.
        name: The name of a role in a list; empty: it has none.
        jobs: The number of Jobs of a role, which is 1 where it is not said; empty: it has one.
        pods: The number of pods of each of these Jobs, which is 1 where it is not said.
        completions: How many of them must succeed; empty: all.
        completion_mode: How the Jobs of a role count their pods; empty: as ``default_mode`` says.
        default_mode: How they do where it is not said.
        retries: The number of failures after which a Job of a role has failed; empty: none is allowed.
        template: The template of a role's pods.
        job_template: The template of a role's Jobs; empty: the object is a Job itself, or makes pods without Jobs.
        restart: What is done about a container that ends; empty: its template says it.
        success: The names of the roles whose end ends the object; empty where no path says so.
        chief: The name of the role whose end ends an object that has it; empty: none.
        subdomain: The domain of its pods' host names; empty: they have none.
        is_own_domain: Whether it makes one for its pods, by its own name, where none is named.
        role_label: The label of a pod that has the name of its role; empty: there is none.
        job_label: The label of a pod that has the index of its Job among those of the role; empty: there is none.
        pod_label: The label of a pod that has its own index.
        demands: What the object with the roles must say.
        role_demands: What each of its roles must say.
    """

    path: Path = ()
    names: tuple[str, ...] = ()
    name: Path = ()
    jobs: Path = ()
    pods: Path
    completions: Path = ()
    completion_mode: Path = ()
    default_mode: str = "Indexed"
    retries: Path = ()
    template: Path
    job_template: Path = ()
    restart: Path = ()
    success: Path = ()
    chief: str = ""
    subdomain: Path = ()
    is_own_domain: bool = False
    role_label: str = ""
    job_label: str = ""
    pod_label: str = "batch.kubernetes.io/job-completion-index"
    demands: tuple[Demand, ...] = ()
    role_demands: tuple[Demand, ...] = ()


class TakenChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Where an object takes changes of the one that it makes, from parties that it knows by a name each.

    Attributes:
        path: Where the list of these changes stands.
        by: The field of a change that has its party's name.
        changed: Where a change has the changed parts, which have the form of the object that is made.
    """

    path: Path
    by: str
    changed: Path


class MadeObject(msgspec.Struct, frozen=True, kw_only=True):
    """The object in which a user's object has its roles: it makes one of its own name as soon as it is there itself.

    Attributes:
        kind: That object's kind.
        changes: Where the user's object takes changes of it.
        where: In which object its user can change what is wrong with it, for hints.
    """

    kind: Kind
    changes: TakenChanges
    where: str


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of object whose pods Steepest can schedule.

    Attributes:
        name: Its name, as in ``kind``.
        api: Its group and version, as in ``apiVersion``.
        plural: Its name in paths.
        suspend: Whether the object is suspended.
        roles: Its roles; of a kind that makes an object which has them, those of that object.
        made: The object that has its roles; None: it has them itself.
        ends: The conditions of which one holds once it is over.
        may_be_queued: Whether an object may be in a queue of Kueue too; it has its roles itself then.
        counts_what_is_there: Whether a pod that has ended counts as long as it is there: one that was stopped would be a
            failure if the object were resumed while it is.
        demands: What each object must say.
    """

    name: str
    api: str
    plural: str
    suspend: Path
    roles: Roles
    made: MadeObject | None = None
    ends: tuple[str, ...]
    may_be_queued: bool = False
    counts_what_is_there: bool = False
    demands: tuple[Demand, ...] = ()

    def path(self, namespace: str) -> str:
        """Where the API server has the objects of a namespace."""
        return f"/apis/{self.api}/namespaces/{namespace}/{self.plural}"


RETRIES = 6
"""The failures after which a Job of ``batch/v1`` has failed that does not say so."""
