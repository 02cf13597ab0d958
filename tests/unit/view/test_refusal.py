"""A refusal: a code, and a sentence that may name facts; of a table, the first that applies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from steepest.view.refusal import Refusal, first


class Number(Refusal):
    """Why a number is refused."""

    NEGATIVE = "negative", "{number} is below zero"
    ODD = "odd", "{number} is odd"


NUMBERS: Mapping[Number, Callable[[int], bool]] = {
    Number.NEGATIVE: lambda number: number < 0,
    Number.ODD: lambda number: number % 2 == 1,
}


@pytest.mark.parametrize(("number", "refusal"), [(-1, Number.NEGATIVE), (1, Number.ODD), (2, None)])
def test_the_first_that_applies_is_given(number: int, refusal: Number | None) -> None:
    """In the order of the table; None where nothing applies."""
    assert first(NUMBERS, number) is refusal


def test_a_code_is_its_text_and_a_sentence_names_its_facts() -> None:
    """Braces in a fact stay as they are: only the template's own are filled in."""
    assert str(Number.ODD) == "odd"
    assert Number.ODD.about(number="{0}") == "{0} is odd"
