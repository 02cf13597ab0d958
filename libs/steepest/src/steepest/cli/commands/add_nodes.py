"""``steepest nodes add``: gives a pool more nodes.

It owns the options. It must never decide what may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import NodeType, installation_options, json_option
from steepest.cli.printing.output import give, tell
from steepest.cli.system.node_selection import cluster_option, engines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steepest.app.settings.tree import Settings

EPILOG = """\b
Examples:
  steepest nodes add big=16:64Gi:gpus=2
  steepest nodes add --cluster docker=gpu-box

No system may run meanwhile: stop `steepest up` by Ctrl-C or SIGTERM. Its jobs run on, and its next start takes them over.
Leave --node and --cluster out there.
"""


@click.command(epilog=EPILOG)
@click.argument("nodes", type=NodeType(), nargs=-1)
@cluster_option
@installation_options
@json_option
def add(settings: Settings, *, nodes: Sequence[str], cluster: str | None, as_json: bool) -> None:
    """Add NODES, like n2=4:16Gi, or Docker engines to a pool that no system runs on now."""
    from steepest.app.pool_changes import add_nodes
    from steepest.app.settings.amounts import node

    sizes = tuple(map(node, nodes))
    new = engines(cluster, sizes) or sizes
    if not new:
        raise click.UsageError("name a node like n2=4:16Gi, or engines with --cluster docker=HOST")
    pool = settings.pool or settings.folder.read().pool
    installation = add_nodes(settings, pool, new)
    names = [one.name for one in installation.nodes_of(pool)]
    if as_json:
        give({"pool": pool, "nodes": names})
    else:
        tell(f"the pool {pool} has {', '.join(names)} from the next `steepest up` on")
