"""Finds a short schedule that still breaks what a long one breaks: delta debugging (Zeller and Hildebrandt 2002, ddmin)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tests.faults.schedule import Action, Schedule

CAUSE = 40
"""Letters of a finding by which it is known again; names and numbers differ between two schedules."""


def causes(broken: Sequence[str]) -> list[str]:
    """What findings have in common with those of a shorter schedule."""
    return [re.sub(r"[a-z]*-?\d+", "#", one)[:CAUSE] for one in broken]


def shrunk(schedule: Schedule, breaks: Callable[[Schedule], bool]) -> Schedule:
    """The schedule without the lines that it breaks without; ``breaks`` plays one."""
    actions, parts = list(schedule.actions), 2
    while len(actions) >= 2:
        size = -(-len(actions) // parts)
        without = (actions[:begin] + actions[begin + size :] for begin in range(0, len(actions), size))
        shorter = next((rest for rest in without if breaks(schedule.with_actions(rest))), None)
        if shorter is not None:
            actions, parts = shorter, max(parts - 1, 2)
        elif parts >= len(actions):
            break
        else:
            parts = min(parts * 2, len(actions))
    return _without_times(schedule.with_actions(actions), breaks)


def _without_times(schedule: Schedule, breaks: Callable[[Schedule], bool]) -> Schedule:
    """With options left out wherever the default does as well."""
    for place, action in enumerate(schedule.actions):
        for name in action.options:
            now: Action = schedule.actions[place]
            rest = {key: value for key, value in now.options.items() if key != name}
            shorter = Action(now.when, now.verb, now.about, rest)
            tried = schedule.with_actions([*schedule.actions[:place], shorter, *schedule.actions[place + 1 :]])
            if breaks(tried):
                schedule = tried
    return schedule
