"""``steepest nodes drain`` and ``undrain``: keeps jobs away from a node, and lets them come again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings

EPILOG = """\b
Examples:
  steepest nodes drain node-3          no more jobs start there; `steepest suspend` moves those off that run
  steepest nodes undrain node-3

Jobs that run there go on. Those that can save are moved by the policy as before, and never to this node.
"""


def _command(name: str, says: str, *, drained: bool) -> click.Command:
    @click.command(name, help=says, epilog=EPILOG)
    @click.argument("node")
    @installation_options
    @json_option
    def command(node: str, settings: Settings, *, as_json: bool) -> None:
        _drain(settings, node, drained=drained, as_json=as_json)

    return command


drain = _command("drain", "Let no more jobs start on NODE; those that run there go on.", drained=True)
undrain = _command("undrain", "Let jobs start on NODE again.", drained=False)


def _drain(settings: Settings, node: str, *, drained: bool, as_json: bool) -> None:
    import asyncio

    jobs = asyncio.run(_append(settings, node, drained=drained))
    if as_json:
        give({"node": node, "drained": drained, "jobs": jobs})
    elif not drained:
        tell(f"{node} takes jobs again")
    else:
        tell(f"{node} gets no more jobs" + (f"; {', '.join(jobs)} still there" if jobs else ""))


async def _append(settings: Settings, name: str, *, drained: bool) -> list[str]:
    """The jobs that are there."""
    from steepest.cli.pool.user_requests import append, asking, new_request
    from steepest.errors import InputError
    from steepest.events.cluster import NodeDrainRequested

    async with asking(settings) as (log, pool):
        node = pool.view.nodes.get(name)
        if node is None:
            raise InputError(f"there is no node {name!r}", code="no-such-node", hint="see `steepest nodes`")
        if node.drained is drained:
            raise InputError(f"node {name} is {'drained already' if drained else 'not drained'}", code="not-changed")
        await append(log, pool, NodeDrainRequested(node=name, request=new_request(), drained=drained))
        return list(node.jobs)
