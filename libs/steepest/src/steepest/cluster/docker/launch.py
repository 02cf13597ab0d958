"""How an incarnation's container comes into being, and how it is removed.

It owns the order of these acts and what a failure between two of them leaves. Its calls block; whoever starts something
holds the job's lock.

Making a container and starting it are two requests, and the second is sent only after the first was answered and put on
record. So a request that arrives late starts nothing: whoever gave the start up has removed the container before.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from typing import Any

import docker
import msgspec
from docker.errors import APIError, ImageNotFound, NotFound

from steepest.cluster import fence
from steepest.cluster.docker.container import NO_PROGRAM, ContainerRecord, creation, name_of, ours, record_of
from steepest.cluster.docker.host import EngineInfo, Host, status_of
from steepest.cluster.docker.mounts import Allowed, give, mounts_of
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.port import ReplicaSpec
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events.common import CheckpointRef, Resources

_CONFLICT = 409
_INIT = "/sbin/docker-init"
_INIT_FAILED = b"[FATAL tini"
_PROOF_S = 5.0
_LOOK_S = 0.005


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What a start asks for, beyond the incarnation's folder.

    Attributes:
        label: Marks what is ours.
        image: The one to run it in.
        capacity: The node's.
        soft: The CPU limit is a weight.
        engine: What the engine says of itself.
        allowed: What the container may have of the machine.
    """

    node: str
    spec: ReplicaSpec
    restore: CheckpointRef | None
    label: str
    image: str
    capacity: Resources
    soft: bool
    engine: EngineInfo
    allowed: Allowed


def launch(host: Host, state: AdapterFolder, folder: IncarnationFolder, order: Launch) -> None:
    """Make the folder and the container, and start it; returns once the job's program is executed.

    Raises:
        RefusedError: ``no-such-image``, ``no-such-program`` or ``node-lost``; nothing of it stays.
        ClusterError: It did not start, for another reason; likewise.
        OSError: Nor did it, because a file could not be written.
        UncertainError: It may have.
    """
    if not order.spec.command:
        raise RefusedError("the command is empty", code="no-such-program")
    mounts = mounts_of(state, folder, order.spec, order.allowed)
    fence.make(state, folder, order.node, order.spec)
    try:
        give(state, folder, mounts)
        client = host.client()
        asked = creation(
            client,
            state=state,
            folder=folder,
            spec=order.spec,
            image=order.image,
            restore=order.restore,
            network=None if order.engine.has_bridge else "none",
            capacity=order.capacity,
            soft=order.soft,
            label=order.label,
            mounts=mounts,
        )
        made = _create(host, client, folder, order, asked)
        folder.write(record_of(folder), ContainerRecord(id=made, engine=order.engine.id))
        _start(host, client, folder, made)
    except ClusterError as error:
        if error.definite:
            # Nothing ran, so nothing stays: the same incarnation may be started again with a better order.
            _leave_no_trace(host, folder, order.label)
        raise
    except OSError:
        _leave_no_trace(host, folder, order.label)
        raise


def remove(host: Host, container: str, label: str) -> None:
    """Remove a container of ours by its name or id, whatever it does; succeeds where there is none.

    Raises:
        ClusterError, UncertainError: It may be there still.
    """
    with host.acting(f"the container {container} was not removed"):
        try:
            client = host.client()
            client.remove_container(ours(client, container, label)["Id"], force=True)
        except NotFound:
            return
        except APIError as error:
            if status_of(error) != _CONFLICT:  # somebody else is removing it
                raise


def _create(
    host: Host, client: docker.APIClient, folder: IncarnationFolder, order: Launch, asked: Mapping[str, Any]
) -> str:
    with host.acting(f"{folder} did not start"):
        try:
            return str(client.create_container(**asked)["Id"])
        except ImageNotFound as error:
            raise RefusedError(
                f"{host} has no image {order.image!r}",
                code="no-such-image",
                hint=f"docker --host {host.node.url} pull {order.image} (`make images` for Steepest's own)",
            ) from error
        except APIError as error:
            if status_of(error) != _CONFLICT:
                raise
        _remove_unless_it_runs(client, folder, order.label)
        return str(client.create_container(**asked)["Id"])


def _remove_unless_it_runs(client: docker.APIClient, folder: IncarnationFolder, label: str) -> None:
    """What an interrupted start or a forgotten job of the same name left."""
    name = name_of(label, folder)
    with contextlib.suppress(NotFound):
        found = ours(client, name, label)
        if found["State"]["Running"]:
            raise RefusedError(f"a container of the name {name} runs", code="still-running", hint="stop it first")
        # The record first: whoever looks while it is there without its container takes the incarnation for ended.
        record_of(folder).unlink(missing_ok=True)
        client.remove_container(found["Id"], force=True)


def _start(host: Host, client: docker.APIClient, folder: IncarnationFolder, made: str) -> None:
    try:
        with host.acting(f"{folder} did not start"):
            client.start(made)
            _prove(client, folder, made)
    except NotFound as error:
        raise ClusterError(f"{folder} did not start: its container was removed", code="not-started") from error
    except ClusterError as error:
        if isinstance(error.__cause__, APIError):
            _judge(host, client, folder, made, error)
        raise


def _judge(host: Host, client: docker.APIClient, folder: IncarnationFolder, made: str, error: ClusterError) -> None:
    """The engine has answered, so it does nothing more: what is so now tells whether it started."""
    try:
        with host.looking():
            state = client.inspect_container(made)["State"]
    except NotFound:
        raise ClusterError(str(error), code="not-started") from error
    if state["Status"] != "created":
        raise UncertainError(str(error), code=error.code) from error
    if state["ExitCode"] in NO_PROGRAM:
        raise _no_program(folder, state["Error"]) from error
    raise ClusterError(str(error), code="not-started") from error


def _prove(client: docker.APIClient, folder: IncarnationFolder, made: str) -> None:
    """Wait until the engine's own first process has executed the program, or has failed to."""
    deadline = time.monotonic() + _PROOF_S
    while time.monotonic() < deadline:
        state = client.inspect_container(made)["State"]
        if not state["Running"]:
            if state["ExitCode"] in NO_PROGRAM and _INIT_FAILED in (said := client.logs(made, tail=1)):
                raise _no_program(folder, said.decode(errors="replace").strip())
            return
        try:
            processes: list[list[str]] = client.top(made, ps_args="-eo pid,args")["Processes"] or []
        except APIError as error:
            if status_of(error) != _CONFLICT:  # no ps on the engine's machine
                return
            processes = []
        if any(not " ".join(process[1:]).startswith(_INIT) for process in processes):
            return
        time.sleep(_LOOK_S)


def _no_program(folder: IncarnationFolder, why: object) -> RefusedError:
    return RefusedError(
        f"{folder} cannot be executed: {str(why)[:500]}", code="no-such-program", hint="name a program of the image"
    )


def _leave_no_trace(host: Host, folder: IncarnationFolder, label: str) -> None:
    # The folder first: while it is there without its container, that container counts as removed by somebody. And in one
    # step: nobody must make a file in what is half removed.
    aside = folder.path.with_name(f".{folder.path.name}.{os.urandom(4).hex()}")
    with contextlib.suppress(OSError):
        folder.path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    with contextlib.suppress(ClusterError):
        remove(host, name_of(label, folder), label)
