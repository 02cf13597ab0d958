"""``steepest config``: the settings in force, and where each comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from steepest.cli.options import config_option, json_option, state_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings

EPILOG = """\b
Examples:
  steepest config show
  steepest config show --config steepest.toml
  steepest config show --json | jq '.[] | select(.origin != "default")'
  steepest config example > steepest.toml      every setting with its default, to be edited

A setting comes from its default, the state folder (which remembers where its log is), a file, the environment or a flag;
each of these overrides those before it.
"""

COLUMNS = ("setting", "value", "from")


@click.group(epilog=EPILOG)
def config() -> None:
    """Show the settings, or an example file of them."""


@config.command(epilog=EPILOG)
@state_option
@click.option("--kafka", metavar="HOST:PORT|auto", help="Show the settings of a log on this Kafka cluster.")
@config_option
@json_option
def show(state: Path | None, kafka: str | None, config: Path | None, *, as_json: bool) -> None:
    """Show every setting in force, and where it comes from. Passwords are not shown."""
    from steepest.app.settings.reading import load
    from steepest.app.settings.rows import rows, text

    loaded = load({"state_dir": state, "kafka.bootstrap": kafka}, config)
    found = [(row, row.shown(row.of(loaded.settings)), loaded.origins[row.path]) for row in rows()]
    if as_json:
        give([{"setting": row.path, "value": value, "origin": origin} for row, value, origin in found])
        return
    from steepest.cli.printing.tables import show as show_table

    show_table(COLUMNS, [[row.path, "" if value is None else text(value), origin] for row, value, origin in found])
    _show_rules(loaded.settings)


def _show_rules(settings: Settings) -> None:
    """Show what a pool's log holds, which the settings leave as it is, or what a new pool gets."""
    from steepest.cli.system.wanted_parameters import stated
    from steepest.describe.rules import rules_in_force

    if settings.folder.kafka_place() is None and not settings.kafka.bootstrap:
        is_there = settings.folder.has_log_in_files
        tell(f"{'in force' if is_there else 'a new pool gets'}: {rules_in_force(stated(settings))}")


@config.command(epilog=EPILOG)
def example() -> None:
    """Print a TOML file of every setting."""
    from steepest.app.settings.tables import example as example_file

    tell(example_file().rstrip("\n"))
