"""The gateway: the live page and the HTTP API of an installation. It decides nothing, and keeps nothing of its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from steepest.app.logging import configure_logging
from steepest.app.settings.reading import read_settings
from steepest.app.settings.rows import rows_of
from steepest.app.settings.tables import help_table
from steepest.errors import SteepestError
from steepest.gateway.service import serve


def command() -> click.Command:
    """The service's command line."""

    def run(config: Path | None) -> None:
        configure_logging()
        try:
            asyncio.run(serve(read_settings(config=config)))
        except SteepestError as error:
            print(f"{error}\n{error.hint}".rstrip(), file=sys.stderr)  # noqa: T201 - the last words of a process
            sys.exit(2)

    return click.Command(
        "steepest-gateway",
        callback=run,
        params=[click.Option(["--config"], type=click.Path(dir_okay=False, path_type=Path), help="A TOML file.")],
        help=f"{__doc__} Runs until SIGTERM or SIGINT.",
        epilog=f"\b\n{help_table(rows_of('gateway'))}",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )


def main() -> None:
    """Run the service, until SIGTERM or SIGINT."""
    command()()
