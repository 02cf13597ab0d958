"""Which nodes a new state folder gets: emulated ones, or Docker engines.

It owns ``--cluster``. It must never know how a node runs anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from steepest.app.state_folder import Installation, NodeSpec

LOCAL = "local"
DOCKER = "docker"
IMAGE = "steepest-base"
"""Of jobs that name none; ``make images`` makes it."""

cluster_option = click.option(
    "--cluster",
    metavar="local|docker[=HOST,...]",
    help="Make the nodes of a new folder emulated (local) or Docker engines. A HOST is unix://…, tcp://… or reached by SSH.",
)


def engines(cluster: str | None, sizes: tuple[NodeSpec, ...] = ()) -> tuple[NodeSpec, ...]:
    """The engines that are asked for, as nodes; none where nodes are emulated.

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
    if kind != DOCKER:
        raise click.UsageError(f"--cluster {cluster}: write it like local, docker or docker=gpu1,tcp://gpu2:2376")
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
