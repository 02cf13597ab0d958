"""How a kind of object is described: where the parts stand that decide how its pods are scheduled.

It owns the form of a description. It must never know a kind by its name: what differs between kinds is in descriptions.
"""

from __future__ import annotations

import msgspec

Path = tuple[str, ...]
"""The names of the fields that lead to a part of an object."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What an object must say so that it can be scheduled.

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


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of object whose pods Steepest can schedule.

    A role of an object is a part of it that has one template for its pods. It stands for a number of Jobs with a number of
    pods each. Paths of a role begin at the role.

    Attributes:
        name: Its name, as in ``kind``.
        api: Its group and version, as in ``apiVersion``.
        plural: Its name in paths.
        suspend: Whether the object is suspended.
        roles: Where the list of its roles stands; empty: the object itself is its only role.
        role_name: The name of a role; empty: it has none.
        jobs: The number of Jobs of a role, which is 1 where it is not said; empty: it has one.
        pods: The number of pods of each of these Jobs, which is 1 where it is not said.
        completions: How many of them must succeed.
        completion_mode: How the Jobs of a role count their pods.
        default_mode: How they do where it is not said.
        retries: The number of failures after which a Job of a role has failed.
        template: The template of a role's pods.
        job_template: The template of a role's Jobs; empty: the object is a Job itself.
        success: The names of the roles whose end ends the object; empty where no path says so: all.
        subdomain: The domain of its pods' host names.
        is_own_domain: Whether it makes one for its pods, by its own name, where none is named.
        ends: The conditions of which one holds once it is over.
        role_label: The label of a pod that has the name of its role; empty: there is none.
        job_label: The label of a pod that has the index of its Job among those of the role; empty: there is none.
        demands: What each object must say.
        role_demands: What each of its roles must say.
    """

    name: str
    api: str
    plural: str
    suspend: Path
    roles: Path = ()
    role_name: Path = ()
    jobs: Path = ()
    pods: Path
    completions: Path
    completion_mode: Path
    default_mode: str
    retries: Path
    template: Path
    job_template: Path = ()
    success: Path = ()
    subdomain: Path
    is_own_domain: bool
    ends: tuple[str, ...]
    role_label: str = ""
    job_label: str = ""
    demands: tuple[Demand, ...] = ()
    role_demands: tuple[Demand, ...] = ()

    def path(self, namespace: str) -> str:
        """Where the API server has the objects of a namespace."""
        return f"/apis/{self.api}/namespaces/{namespace}/{self.plural}"


POD_LABEL = "batch.kubernetes.io/job-completion-index"
"""The label of a pod that has its index in its Job."""

RETRIES = 6
"""The failures after which a Job of ``batch/v1`` has failed that does not say so."""
