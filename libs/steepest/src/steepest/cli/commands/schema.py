"""``steepest schema``: the topics and events, as a document for programs or a page for people."""

from __future__ import annotations

import click

from steepest.cli.printing.output import give_raw

EPILOG = """\b
Examples:
  steepest schema > asyncapi.json
  steepest schema | jq '.components.schemas.JobSubmitted'
  steepest schema --page > events.md
"""


@click.command(epilog=EPILOG)
@click.option("--page/--document", "as_page", default=False, help="Print a page of Markdown for people.")
def schema(*, as_page: bool) -> None:
    """Print every topic and event as an AsyncAPI 3.0 document (JSON)."""
    from steepest.events.schema.asyncapi import encode_document
    from steepest.events.schema.page import page

    give_raw(page() if as_page else encode_document())
