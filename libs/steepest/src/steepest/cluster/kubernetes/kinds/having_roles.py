"""Which object has the roles of a user's object: itself, or the one that it makes.

It owns the request for the latter. An object of the same name that the user's object has not made is another one.
"""

from __future__ import annotations

from steepest.cluster.kubernetes.api import NOT_FOUND, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.users_object import UsersObject


async def having_roles(api: KubernetesApi, namespace: str, kind: Kind, found: UsersObject) -> UsersObject | None:
    """The object that has the roles of a user's object of this kind; None: its own controller has not made it yet.

    Raises:
        ClusterError: The API server refuses it.
        UncertainError: It does not answer.
    """
    if kind.made is None:
        return found
    path = f"{kind.made.kind.path(namespace)}/{found.metadata.name}"
    try:
        made = await api.get(path, UsersObject)
    except AnswerError as error:
        if error.status == NOT_FOUND:
            return None
        raise
    return made if any(owner.uid == found.metadata.uid for owner in made.metadata.owner_references) else None
