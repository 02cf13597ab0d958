"""Finds a short schedule that still breaks what a long one breaks: delta debugging (Zeller and Hildebrandt 2002, ddmin)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tests.faults.schedule import Deed, Schedule

CAUSE = 40
"""Letters of a finding by which it is known again; names and numbers differ between two schedules."""


def causes(broken: Sequence[str]) -> list[str]:
    """What findings have in common with those of a shorter schedule."""
    return [re.sub(r"[a-z]*-?\d+", "#", one)[:CAUSE] for one in broken]


def shrunk(schedule: Schedule, breaks: Callable[[Schedule], bool]) -> Schedule:
    """The schedule without the lines that it breaks without; ``breaks`` plays one."""
    deeds, parts = list(schedule.deeds), 2
    while len(deeds) >= 2:
        size = -(-len(deeds) // parts)
        without = (deeds[:begin] + deeds[begin + size :] for begin in range(0, len(deeds), size))
        shorter = next((rest for rest in without if breaks(schedule.with_deeds(rest))), None)
        if shorter is not None:
            deeds, parts = shorter, max(parts - 1, 2)
        elif parts >= len(deeds):
            break
        else:
            parts = min(parts * 2, len(deeds))
    return _without_times(schedule.with_deeds(deeds), breaks)


def _without_times(schedule: Schedule, breaks: Callable[[Schedule], bool]) -> Schedule:
    """With options left out wherever the default does as well."""
    for place, deed in enumerate(schedule.deeds):
        for name in deed.options:
            now: Deed = schedule.deeds[place]
            rest = {key: value for key, value in now.options.items() if key != name}
            shorter = Deed(now.when, now.verb, now.about, rest)
            tried = schedule.with_deeds([*schedule.deeds[:place], shorter, *schedule.deeds[place + 1 :]])
            if breaks(tried):
                schedule = tried
    return schedule
