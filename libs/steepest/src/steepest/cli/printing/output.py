"""The output of commands: the one door to standard output and standard error.

It owns that no text from outside steers a terminal: of what a job, a recording, a device or an argument holds, only what can
be printed is printed. Colours are ours, and come as arguments. It must never know what a text says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console


Part = str | tuple[str, Mapping[str, Any]]
"""A text, or a text and its style, as :func:`click.style` takes it."""


def tell(*parts: Part, err: bool = False) -> None:
    """Print a line for people, or several."""
    click.echo("".join(map(_styled, parts)), err=err)


def _styled(part: Part) -> str:
    return printable(part) if isinstance(part, str) else click.style(printable(part[0]), **part[1])


def give(value: Any) -> None:
    """Print a value for programs, as JSON on one line."""
    import msgspec

    click.echo(msgspec.json.encode(value))


def give_raw(data: bytes | str) -> None:
    """Print what is a document for programs already, byte for byte."""
    click.echo(data, nl=False)


def printable(text: str) -> str:
    """Text whose only control characters are line ends."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(letter if letter == "\n" or letter.isprintable() else " " for letter in text)


def console(**options: Any) -> Console:
    """A console of Rich's that prints tables and charts under the same rule, and takes no markup from a text."""
    from rich.console import Console
    from rich.segment import Segment

    class Clean(Console):
        def render(self, *arguments: Any, **named: Any) -> Iterable[Segment]:
            for segment in super().render(*arguments, **named):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

    return Clean(markup=False, **options)
