"""Creates, starts and removes an incarnation's container.

It owns the order of these steps and what a failure between two of them leaves. Its calls block; the caller of ``launch``
holds the job's lock.

Creating and starting a container are two requests, and the second is sent only after the first was answered and recorded.
So a request that arrives late starts nothing: the caller that gave up has removed the container before.
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
from steepest.cluster.allowed_folders import Allowed
from steepest.cluster.data_source import DataSource
from steepest.cluster.docker.container import NO_PROGRAM, ContainerRecord, creation, name_of, ours, record_of
from steepest.cluster.docker.host import EngineInfo, Host, status_of
from steepest.cluster.docker.kept import ContainerKeeper, close_folders, kept
from steepest.cluster.docker.mounts import mounts_of, set_owner
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.gang_variables import GangAddresses
from steepest.cluster.port import ReplicaSpec
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events.common import CheckpointRef, Resources

_CONFLICT = 409
_INIT = "/sbin/docker-init"
_INIT_FAILED = b"[FATAL tini"
_PROOF_S = 5.0
_LOOK_S = 0.005


class ContainerLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a start.

    Attributes:
        label: The label of this state folder's containers.
        image: The container image.
        capacity: The node's capacity.
        soft: The CPU limit is a weight.
        engine: The engine's description.
        allowed: The folders of the machine that containers may use.
        addresses: Where its gang listens; None: it has none.
        gpus: The GPUs that it may use, by their ids; None: its node has none.
        data: Where it reads its data; None: the pool has no storage.
        keeper: How it is kept; None: it runs without a keeper.
        closed: Its own folders are its keeper's, in this incarnation or in another one.
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
    addresses: GangAddresses | None = None
    gpus: tuple[int, ...] | None = None
    data: DataSource | None = None
    keeper: ContainerKeeper | None = None
    closed: bool = False

    @property
    def network(self) -> str | None:
        """The container's network; None is the engine's bridge.

        A gang's processes connect to each other at ports that their frameworks choose, from machine to machine: only the
        machine's own network passes all of them without anything to be set up on the hosts.
        """
        if self.addresses is not None:
            return "host"
        return None if self.engine.has_bridge else "none"


def launch(host: Host, state: AdapterFolder, folder: IncarnationFolder, order: ContainerLaunch) -> None:
    """Create the folder and the container, and start it; returns once the job's program is executed.

    Raises:
        RefusedError: ``no-such-image``, ``no-such-program`` or ``node-lost``; everything was removed again.
        ClusterError: It did not start for another reason; everything was removed again.
        OSError: It did not start because a file could not be written.
        UncertainError: It may have started.
    """
    if not order.spec.command:
        raise RefusedError("the command is empty", code="no-such-program")
    mounts = mounts_of(state, folder, order.spec, order.allowed)
    fence.make(state, folder, order.node, order.spec)
    try:
        if order.closed:
            close_folders(state, folder)
        else:
            set_owner(state, folder, mounts)
        client = host.client()
        asked = creation(
            client,
            folder=folder,
            spec=order.spec,
            image=order.image,
            restore=order.restore,
            network=order.network,
            capacity=order.capacity,
            soft=order.soft,
            label=order.label,
            mounts=mounts,
            addresses=order.addresses,
            gpus=order.gpus,
            requests_gpus=order.engine.has_gpu_runtime,
            data=order.data,
        )
        made = _create(host, client, folder, order, asked)
        record = ContainerRecord(id=made, engine=order.engine.id, image=order.spec.image)
        folder.write(record_of(folder), record)
        _start(host, client, folder, made)
    except ClusterError as error:
        if error.definite:
            # Nothing ran, so remove everything: the same incarnation may be started again with corrected parameters.
            _remove_traces(host, folder, order.label)
        raise
    except OSError:
        _remove_traces(host, folder, order.label)
        raise


def remove(host: Host, container: str, label: str) -> None:
    """Remove a container of this state folder by its name or id, running or not; succeeds if there is none.

    The volumes that its image asks for go with it: they have no name, and nothing else would remove them.

    Raises:
        ClusterError, UncertainError: It may still exist.
    """
    with host.acting(f"the container {container} was not removed"):
        try:
            client = host.client()
            client.remove_container(ours(client, container, label)["Id"], v=True, force=True)
        except NotFound:
            return
        except APIError as error:
            if status_of(error) != _CONFLICT:  # a conflict: another process is removing it
                raise


def _create(
    host: Host,
    client: docker.APIClient,
    folder: IncarnationFolder,
    order: ContainerLaunch,
    asked: Mapping[str, Any],
) -> str:
    with host.acting(f"{folder} did not start"):
        try:
            if order.keeper is not None:
                asked = kept(
                    client,
                    asked,
                    order.keeper,
                    folder,
                    spec=order.spec,
                    restore=order.restore,
                    version=order.engine.version,
                )
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
    """Remove the container that an interrupted start or a forgotten job of the same name left."""
    name = name_of(label, folder)
    with contextlib.suppress(NotFound):
        found = ours(client, name, label)
        if found["State"]["Running"]:
            raise RefusedError(f"a container named {name} runs", code="still-running", hint="stop it first")
        # The record first: a record without its container would mean that the incarnation has ended.
        record_of(folder).unlink(missing_ok=True)
        client.remove_container(found["Id"], v=True, force=True)


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
    """Classify a failed start. The engine has answered, so the container's state does not change any more."""
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
    """Wait until the container's init process has executed the program, or has failed to."""
    deadline = time.monotonic() + _PROOF_S
    while time.monotonic() < deadline:
        state = client.inspect_container(made)["State"]
        if not state["Running"]:
            if state["ExitCode"] in NO_PROGRAM and _INIT_FAILED in (line := client.logs(made, tail=1)):
                raise _no_program(folder, line.decode(errors="replace").strip())
            return
        try:
            processes: list[list[str]] = client.top(made, ps_args="-eo pid,args")["Processes"] or []
        except APIError as error:
            if status_of(error) != _CONFLICT:  # there is no ps on the engine's machine: skip the proof
                return
            processes = []
        if any(not " ".join(process[1:]).startswith(_INIT) for process in processes):
            return
        time.sleep(_LOOK_S)


def _no_program(folder: IncarnationFolder, why: object) -> RefusedError:
    return RefusedError(
        f"{folder} cannot be executed: {str(why)[:500]}", code="no-such-program", hint="use a program in the image"
    )


def _remove_traces(host: Host, folder: IncarnationFolder, label: str) -> None:
    # The folder first: a folder without its container would mean that the container was removed by a user. Rename it before
    # removing it, so that no other process writes into a half-removed folder.
    removed = folder.path.with_name(f".{folder.path.name}.{os.urandom(4).hex()}")
    with contextlib.suppress(OSError):
        folder.path.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)
    with contextlib.suppress(ClusterError):
        remove(host, name_of(label, folder), label)
