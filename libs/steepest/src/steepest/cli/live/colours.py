"""Colours of categories and outcomes, the same ones wherever a terminal shows them."""

from __future__ import annotations

from collections.abc import Mapping

from steepest.events.facts import Outcome
from steepest.events.growth import Category

CATEGORIES: Mapping[Category, str] = {
    Category.PROGRESSING: "green",
    Category.WATCHED: "yellow",
    Category.CONVERGED: "bright_blue",
}
"""Green learns, yellow is watched, blue has converged."""

GAIN, LOSS = "green", "red"
"""The colours of times that a policy makes shorter, and longer."""

OUTCOMES: Mapping[Outcome, str] = {Outcome.FINISHED: "green", Outcome.FAILED: "red", Outcome.CANCELLED: "yellow"}
