"""Refusals: why something must not be, as a code for programs and a sentence for people.

A *kind* of refusal is an enum whose members are in the order in which they are checked; a table says when each one
applies. The first that applies is given, None where there is none. Codes name metrics and may not change; sentences
are in logs (``PlanAbandoned.message``, ``NodeScore.rejected``), so one that a decider writes may not change either.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R", bound="Refusal")


class Refusal(enum.StrEnum):
    """A code, and the template of its sentence, which names its facts in braces.

    Attributes:
        sentence: The template; where it names no facts, the sentence itself.
    """

    sentence: str

    def __new__(cls, code: str, sentence: str) -> Self:  # noqa: D102 - how an enum takes two values
        member = str.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    def about(self, **facts: object) -> str:
        """The sentence with these facts."""
        return self.sentence.format(**facts)


def first(table: Mapping[R, Callable[P, bool]], *facts: P.args, **more: P.kwargs) -> R | None:
    """The first refusal of a table that applies to these facts."""
    for refusal in table:
        if table[refusal](*facts, **more):
            return refusal
    return None
