"""``steepest nodes drain`` and ``undrain``: keeps jobs away from a node, and lets them come again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import json_option, remote_options
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings

EPILOG = """\b
Examples:
  steepest nodes drain node-3          no more jobs start there; `steepest move --node node-3` moves those that run
  steepest nodes undrain node-3

Jobs that run there go on. Those that can save are moved by the policy as before, and never to this node.
"""


def _command(name: str, says: str, *, drained: bool) -> click.Command:
    @click.command(name, help=says, epilog=EPILOG)
    @click.argument("node")
    @remote_options
    @json_option
    def command(node: str, settings: Settings, *, as_json: bool) -> None:
        _drain(settings, node, drained=drained, as_json=as_json)

    return command


drain = _command("drain", "Let no more jobs start on NODE; those that run there go on.", drained=True)
undrain = _command("undrain", "Let jobs start on NODE again.", drained=False)


def _drain(settings: Settings, node: str, *, drained: bool, as_json: bool) -> None:
    import asyncio

    kind = "drain" if drained else "undrain"
    if settings.client.server:
        from steepest.cli.pool.remote import change_of, changed

        (answer,) = changed(settings, change_of(kind, node=node))
        said = answer.said
    else:
        said = asyncio.run(_append(settings, node, kind))
    if as_json:
        give({"node": node, "drained": drained, "said": said})
    else:
        tell(f"{node} {said}")


async def _append(settings: Settings, name: str, kind: str) -> str:
    from steepest.cli.pool.user_requests import append, asking, new_request
    from steepest.read_models.changes.job_changes import ChangeKind, change_of_node

    async with asking(settings) as (log, pool):
        change = change_of_node(pool.view, ChangeKind(kind), name)
        if change.ask is not None:
            await append(log, pool, change.ask(request=new_request()))
        return change.said
