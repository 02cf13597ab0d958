"""Amounts and nodes as people write them."""

from __future__ import annotations

import re

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.app.settings.amounts import node
from steepest.app.state_folder import NodeSpec
from steepest.cli.main import COMMANDS, main
from steepest.cli.options import CPU, MEMORY, SPAN, Amount, NodeType
from steepest.events.common import Resources


@pytest.mark.parametrize(
    ("kind", "text", "amount"),
    [
        (CPU, "0.05", 50),
        (CPU, "2", 2000),
        (CPU, "250m", 250),
        (MEMORY, "512", 512),
        (MEMORY, "512Mi", 512),
        (MEMORY, "1.5Gi", 1536),
        (SPAN, "30", 30_000),
        (SPAN, "500ms", 500),
        (SPAN, "2min", 120_000),
    ],
)
def test_amounts_are_read_in_their_units(kind: Amount, text: str, amount: int) -> None:
    """A bare number is cores, MiB or seconds; a unit says otherwise."""
    assert kind.convert(text, None, None) == amount


@pytest.mark.parametrize("text", ["", "a lot", "-1", "1e3", "0.5 cores", "١", "0", "9" * 30, "nan"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    """The message repeats what was written; no possible machine has nothing, or a trillion cores."""
    with pytest.raises(click.BadParameter, match=text or "''"):
        CPU.convert(text, None, None)


@given(st.integers(1, 10**9))
def test_an_amount_written_in_the_smallest_unit_is_itself(millicores: int) -> None:
    """Nothing is lost between what is shown and what is typed again."""
    assert CPU.convert(f"{millicores}m", None, None) == millicores


def test_a_node_has_a_name_and_an_amount_of_each() -> None:
    """Memory may be left out, for a node on which no job reserves any."""
    assert node(NodeType().convert("n1=0.5", None, None)) == NodeSpec("n1", Resources(500))
    assert node(NodeType().convert("big.node=2:4Gi", None, None)) == NodeSpec("big.node", Resources(2000, 4096))


@pytest.mark.parametrize("text", ["n1", "n1=", "N1=1", "=1", "n1=1:much", "n1=1:2:3"])
def test_what_is_no_node_is_refused(text: str) -> None:
    """A node without a proper name or amount stops the call before anything is made."""
    with pytest.raises(click.BadParameter):
        NodeType().convert(text, None, None)


def test_a_wrong_word_is_answered_with_the_closest_one() -> None:
    """For each option of each command that takes one of several words."""
    seen = 0
    for name in COMMANDS:
        _, command, _ = main.resolve_command(click.Context(main), [name])
        assert command is not None
        for param in command.params:
            if isinstance(param.type, click.Choice):
                word = param.type.choices[0]
                with pytest.raises(click.BadParameter, match=f"; did you mean '{re.escape(word)}'\\?"):
                    param.type.convert(f"{word}e", param, None)
                seen += 1
    assert seen > 10
