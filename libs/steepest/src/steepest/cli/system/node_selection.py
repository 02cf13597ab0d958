"""Which nodes a new state folder gets: emulated ones, Docker engines, or those of a Kubernetes cluster.

It owns ``--cluster``. It must never know how a node runs anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from steepest.app.state_folder import Installation, NodeSpec

LOCAL = "local"
DOCKER = "docker"
KUBERNETES = "kubernetes"
IMAGE = "steepest-base"
"""The image of jobs that name none; ``make images`` makes it."""

cluster_option = click.option(
    "--cluster",
    metavar="local|docker[=HOST,...]|kubernetes=NAMESPACE/CLAIM:FOLDER",
    help="Make the nodes of a new folder emulated (local), Docker engines (a HOST is unix://…, tcp://… or reached by SSH), "
    "or those of a Kubernetes cluster, whose claim is mounted here at FOLDER.",
)


def engines(cluster: str | None, sizes: tuple[NodeSpec, ...] = ()) -> tuple[NodeSpec, ...]:
    """The engines or the cluster's nodes that are asked for; none where nodes are emulated.

    Args:
        cluster: The option.
        sizes: Names and sizes for the engines, in their order; without any, what each engine says of its machine.

    Raises:
        InputError: An engine does not answer, or there are more or fewer sizes than engines.
        click.UsageError: The option is neither.
    """
    import msgspec

    from steepest.app.state_folder import NodeSpec
    from steepest.errors import InputError

    kind, _, hosts = (cluster or LOCAL).partition("=")
    if kind == LOCAL and not hosts:
        return ()
    if kind == KUBERNETES:
        return _of_kubernetes(hosts, sizes)
    if kind != DOCKER:
        raise click.UsageError(
            f"--cluster {cluster}: write it like local, docker, docker=gpu1,tcp://gpu2:2376 or "
            "kubernetes=NAMESPACE/CLAIM:/mnt/claim"
        )
    try:
        from steepest.cluster.docker import addresses
    except ImportError as error:
        raise InputError(
            f"the client of Docker engines is missing: {error}", hint="install steepest[docker]"
        ) from error
    found = [
        NodeSpec(name=node.name, capacity=node.capacity, engine=node.url, tls=node.tls or "")
        for node in addresses.nodes(addresses.addresses(hosts))
    ]
    if sizes and len(sizes) != len(found):
        raise InputError(
            f"{len(found)} engines and {len(sizes)} sizes", hint="name one --node for each engine, or none"
        )
    if sizes:
        found = [
            msgspec.structs.replace(node, name=size.name, capacity=size.capacity)
            for node, size in zip(found, sizes, strict=True)
        ]
    return tuple(found)


def _of_kubernetes(asked: str, sizes: tuple[NodeSpec, ...]) -> tuple[NodeSpec, ...]:
    """The nodes of a Kubernetes cluster; with sizes, those that they name."""
    from steepest.app.state_folder import NodeSpec
    from steepest.errors import InputError

    try:
        from steepest.cluster.kubernetes import address
    except ImportError as error:
        raise InputError(
            f"the client of Kubernetes is missing: {error}", hint="install steepest[kubernetes]"
        ) from error
    at = str(address.address(asked))
    found = dict(address.nodes())
    if unknown := [size.name for size in sizes if size.name not in found]:
        raise InputError(f"the cluster has no node {unknown[0]} that takes pods", hint="kubectl get nodes")
    chosen = [(size.name, size.capacity) for size in sizes] or list(found.items())
    return tuple(NodeSpec(name=name, capacity=capacity, engine=at) for name, capacity in chosen)


def engines_as(sizes: tuple[NodeSpec, ...], there: tuple[NodeSpec, ...]) -> tuple[NodeSpec, ...]:
    """The names and sizes that are asked for, on the engines of a folder that is there."""
    import msgspec

    urls = [(node.engine, node.tls) for node in there] + [("", "")] * len(sizes)
    return tuple(
        msgspec.structs.replace(size, engine=url, tls=tls) for size, (url, tls) in zip(sizes, urls, strict=False)
    )


def refuse_others(cluster: str | None, there: Installation) -> None:
    """A folder keeps its nodes.

    Raises:
        InputError: Other ones are asked for.
    """
    from steepest.errors import InputError

    has = [node.engine for node in there.nodes]
    asked = [node.engine for node in engines(cluster)] or [""] * len(has)
    if cluster is not None and asked != has:
        raise InputError(
            f"the folder is there already, with the nodes {', '.join(name or 'emulated' for name in has)}",
            hint="leave --cluster out, or begin with a new folder",
        )


SHARES = (35, 28, 22, 15)
"""Sizes of emulated nodes, in percent of what they have together: uneven, as real ones are."""


def own_node() -> tuple[NodeSpec, ...]:
    """This machine as the only node."""
    from steepest.app.state_folder import NodeSpec
    from steepest.cluster.local.machine import own_capacity, own_name

    return (NodeSpec(own_name(), own_capacity()),)


def emulated_nodes() -> tuple[NodeSpec, ...]:
    """Uneven nodes that have four fifths of this machine's cores together."""
    from steepest.app.state_folder import NodeSpec
    from steepest.cluster.local.machine import own_capacity
    from steepest.events.common import Resources

    total_m = own_capacity().cpu_m * 8 // 9
    return tuple(
        NodeSpec(f"node-{number}", Resources(total_m * share // 1000 * 10))
        for number, share in enumerate(SHARES, start=1)
    )
