"""``steepest pool``: the pools of an installation.

It owns the options and how pools are shown. It must never decide what may change.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steepest.cli.options import NodeType, installation_options, json_option
from steepest.cli.printing.output import give, tell
from steepest.cli.system.node_selection import cluster_option, engines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steepest.app.settings.tree import Settings
    from steepest.app.state_folder import Installation, PoolSpec
    from steepest.events.parameters import PoolParameters

EPILOG = """\b
Examples:
  steepest pool add vision --node v1=2:8Gi --node v2=2:8Gi --queue vision
  steepest pool apply pools.toml
  steepest pool list --json

\b
pools.toml:
  [[pool]]
  name = "vision"
  nodes = ["v1=2:8Gi", "v2=2:8Gi"]
  queues = ["vision"]

On Kafka the services may run meanwhile, and work on a new pool within seconds. A system whose log is in files must not run.
"""


@click.group(epilog=EPILOG)
def pool() -> None:
    """List and add pools. A pool has nodes of its own, and its jobs stay on them."""


@pool.command()
@installation_options
@click.argument("name")
@click.option("--node", "nodes", type=NodeType(), multiple=True, help="Add an emulated node to the pool. Repeat it.")
@cluster_option
@click.option("--queue", "queues", multiple=True, help="Send jobs of this queue to the pool. Repeat it.")
@json_option
def add(
    settings: Settings, *, name: str, nodes: Sequence[str], cluster: str | None, queues: tuple[str, ...], as_json: bool
) -> None:
    """Add the pool NAME with its nodes."""
    import msgspec

    from steepest.app.settings.amounts import node
    from steepest.app.state_folder import PoolSpec
    from steepest.errors import InputError

    sizes = tuple(map(node, nodes))
    described = {"name": name, "nodes": engines(cluster, sizes) or sizes, "queues": queues}
    try:
        wanted = msgspec.convert(described, PoolSpec)
    except msgspec.ValidationError as error:
        raise InputError(f"the pool {name!r}: {error}", hint="names have letters, digits, - and _") from error
    if wanted.name in settings.folder.read().layout.pools:
        raise InputError(f"the pool {name} is there already", hint="change its queues with `steepest pool apply`")
    _apply(settings, [wanted], as_json=as_json)


@pool.command()
@installation_options
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@json_option
def apply(settings: Settings, *, file: Path | None, as_json: bool) -> None:
    """Add the pools that FILE describes, and give those that are there the queues that it names.

    A second call changes nothing. Pools that FILE does not name stay as they are; none is removed.

    Without FILE: give the pools of the installation that STEEPEST_INSTALLATION_FILE describes their topics, and put the
    parameters of the settings in force. It may be called while services run.
    """
    from steepest.app.pool_changes import read_pools

    if file is not None:
        _apply(settings, read_pools(file), as_json=as_json)
    elif settings.installation_file:
        _apply_mounted(settings, as_json=as_json)
    else:
        raise click.UsageError("name the FILE that describes the pools")


@pool.command(name="list")
@installation_options
@json_option
def list_pools(settings: Settings, *, as_json: bool) -> None:
    """List the pools, with their nodes and queues."""
    _show(settings.folder.read(), as_json=as_json)


def _apply(settings: Settings, wanted: Sequence[PoolSpec], *, as_json: bool) -> None:
    import asyncio

    from steepest.app.pool_changes import apply_pools

    _show(asyncio.run(apply_pools(settings, wanted)), as_json=as_json)


def _apply_mounted(settings: Settings, *, as_json: bool) -> None:
    import asyncio

    import msgspec

    from steepest.app.pool_changes import open_mounted
    from steepest.cli.system.wanted_parameters import wanted

    installation = asyncio.run(open_mounted(settings))
    for name in settings.pools:
        one = msgspec.structs.replace(settings, pool=name)
        asyncio.run(_configure(one, wanted(one)))
    _show(installation, as_json=as_json)


async def _configure(settings: Settings, parameters: PoolParameters | None) -> None:
    from steepest.app.configurator import due_configuration
    from steepest.cli.pool.user_requests import append, asking

    async with asking(settings) as (log, pool):
        due = due_configuration(pool.view, parameters)
        if due is not None:
            await append(log, pool, due)


def _show(installation: Installation, *, as_json: bool) -> None:
    from steepest.view.nodes import format_resources

    pools: list[dict[str, Any]] = [
        {
            "pool": one.name,
            "partition": str(installation.layout.of_pool(one.name)),
            "nodes": {each.name: format_resources(each.capacity) for each in one.nodes},
            **({} if (selector := installation.selector(one.name)) is None else {"selector": selector}),
            "queues": list(one.queues),
        }
        for one in installation.all_pools
    ]
    if as_json:
        give(pools)
        return
    for one in pools:
        nodes = ", ".join(f"{name} ({size})" for name, size in one["nodes"].items())
        if "selector" in one:
            nodes = f"nodes with {one['selector']}" if one["selector"] else "all nodes"
        queues = f"; queues: {', '.join(one['queues'])}" if one["queues"] else ""
        tell(f"{one['pool']} ({one['partition']}): {nodes}{queues}")
