"""``steepest trials``: how the trials of a sweep stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import json_option, remote_options
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steepest.app.settings.tree import Settings
    from steepest.cli.printing.tables import Cell
    from steepest.read_models.job_rows import JobRow

EPILOG = """\b
Examples:
  steepest trials lr
  steepest trials lr --json | jq -r '.[0] | .job, .params'       the best one

A sweep is an array that was submitted with --rungs (docs/sweeps.md). The trial that has come furthest is first, and of those
at one rung the best. Value is the mean of the metric before the rung.
"""


@click.command(epilog=EPILOG)
@remote_options
@json_option
@click.argument("array")
def trials(settings: Settings, *, array: str, as_json: bool) -> None:
    """Show the trials of the sweep ARRAY, the best first."""
    from steepest.cli.commands.jobs import every_row
    from steepest.read_models.leaderboard import leaderboard

    rows = every_row(settings)
    found = leaderboard([row for row in rows if row.array == array])
    if not found:
        names = ", ".join(dict.fromkeys(row.array for row in rows if row.array)) or "none"
        raise click.UsageError(f"there is no array {array}; there are: {names}")
    if as_json:
        give(found)
        return
    if not any(row.rungs for row in found):
        tell(f"no trial of {array} has reached a rung yet", err=True)
    _show(found)


def _show(rows: Sequence[JobRow]) -> None:
    from steepest.cli.live.colours import OUTCOMES
    from steepest.cli.printing.tables import show
    from steepest.events.facts import Outcome

    params = list(dict.fromkeys(name for row in rows for name in row.params))
    table: list[list[Cell]] = []
    for row in rows:
        rung = max(row.rungs, default=None)
        value = None if rung is None else row.rungs[rung]
        state = row.outcome or ("waits at its rung" if row.at_rung else f"{row.phase}{', held' * row.held}")
        style = OUTCOMES[Outcome(row.outcome)] if row.outcome else {"running": "green"}.get(state, "")
        table.append(
            [
                row.job,
                *(row.params.get(name, "") for name in params),
                "" if rung is None else str(rung),
                "" if rung is None else "not finite" if value is None else f"{value:.4g}",
                row.steps,
                (state, style),
            ]
        )
    show(("job", *params, "#rung", "#value", "#step", "state"), table)
