"""A gateway as commands ask it: with the token that is set, or with its own where it belongs to the state folder.

It owns how a gateway is named: by its address, or as the one of a kube context.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from steepest.app.extras import refuse_without
from steepest.app.settings.remote import KUBE, ClientSettings
from steepest.app.settings.tree import Settings
from steepest.errors import SteepestError

if TYPE_CHECKING:
    from steepest.client.synchronous import Client
    from steepest.gateway.answers import ChangeAnswer, ChangeRequest
    from steepest.read_models.changes.selection import Selection


class _Remembered(msgspec.Struct):
    address: str
    token: str


def client_of(settings: Settings) -> Client:
    """The client of the gateway that the settings name.

    Raises:
        InputError: The kube context that they name has none, or cannot be used.
        GatewayError: The API server of that context refuses, or does not answer.
    """
    if settings.client.is_in_cluster:
        from steepest.client.kubernetes import gateway_of
        from steepest.cluster.kubernetes.contexts import read_context

        return gateway_of(read_context(settings.client.server.removeprefix(KUBE)), settings.client.token)
    from steepest.client.synchronous import Client

    server = settings.client.server.rstrip("/")
    return Client(server, settings.client.token or _own_token(settings.folder.gateway, server))


def by_own_gateway(settings: Settings) -> Settings:
    """Where the log is on Kafka, and the folder's own gateway answers: settings that ask it. It has read the log already."""
    if settings.client.server or settings.folder.kafka_place() is None:
        return settings
    try:
        found = msgspec.json.decode(settings.folder.gateway.read_bytes(), type=_Remembered)
        asked = msgspec.structs.replace(settings, client=ClientSettings(server=found.address, token=found.token))
        with client_of(asked) as gateway:
            gateway.pools()
    except (OSError, msgspec.DecodeError, ImportError, SteepestError):
        return settings
    return asked


def refuse_without_client(settings: Settings) -> None:
    """Check that the client's libraries are installed.

    Raises:
        InputError: One is not.
    """
    more = ("kubernetes_asyncio",) if settings.client.is_in_cluster else ()
    extras = "client,kubernetes" if more else "client"
    refuse_without(("httpx2", *more), "--server needs", f"install steepest[{extras}], or run `make setup`")


def change_of(kind: str, selection: Selection | None = None, to: str = "", node: str | None = None) -> ChangeRequest:
    """A command's request to a gateway to change jobs or a node; ``to``: the priority, or the node to move to."""
    from steepest.gateway.answers import ChangeRequest
    from steepest.read_models.changes.job_changes import ChangeKind

    jobs, array, queue, there = selection or ((), "", "", "")
    request, node = os.urandom(8).hex(), node or there or None
    return ChangeRequest(
        change=ChangeKind(kind), jobs=jobs, array=array, queue=queue, node=node, to=to, request=request
    )


def changed(settings: Settings, asked: ChangeRequest) -> Sequence[ChangeAnswer]:
    """What a gateway answers to that.

    Raises:
        InputError: The client's libraries are not installed.
        GatewayError: The gateway refuses, or is not reached.
    """
    refuse_without_client(settings)
    with client_of(settings) as gateway:
        return gateway.change(asked, pool=settings.pool).answers


def _own_token(file: Path, server: str) -> str:
    """The token of the state folder's own gateway; empty where the server is another one."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_Remembered)
    except (OSError, msgspec.DecodeError):
        return ""
    return found.token if found.address == server else ""
