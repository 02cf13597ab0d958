"""A schedule: what users, operators and misfortune do to an installation, and when. It is text, one action a line.

::

    world seed=7 topology=split            how the installation is made; each word is optional
    node n1 cpu=1000                       a node, in millicores
    2.5 submit j1 steps=20 cpu=200         at 2.5 s: the verb, what it is about, and its options
    migrate.stop#2+0.02 kill migrator      20 ms after the second STOP of a migration has begun
    migrate.stop@2.5+0.02 kill migrator    likewise after the first one that begins from 2.5 s on
    migrate.stop.over@2.5+0 kill migrator  when the outcome of a STOP stands in the log, and none has read it

It owns the form. What a verb does is in :mod:`tests.faults.actions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

ENDLESS_STEPS = 100_000
"""A job of so many steps ends only if it is cancelled."""

_POINT = re.compile(r"([a-z]+\.[a-z]+(?:\.over)?)(?:#(\d+)|@([0-9.]+))\+([0-9.]+)")


class When(msgspec.Struct, frozen=True):
    """A moment.

    Attributes:
        at_s: Seconds since the beginning; of a moment with a ``point``, seconds after that.
        point: A kind of plan and one of its steps: its beginning, or with ``.over`` its outcome; empty: none.
        nth: Which one, from 1 on; 0: the next one.
        from_s: From when on that is looked for.
    """

    at_s: float
    point: str = ""
    nth: int = 0
    from_s: float = 0.0

    @property
    def step(self) -> str:
        """The step under which it strikes, whichever plan comes to it next; empty: none."""
        return "" if self.nth else self.point.removesuffix(".over")

    def __str__(self) -> str:
        if not self.point:
            return f"{self.at_s:g}"
        return f"{self.point}#{self.nth}+{self.at_s:g}" if self.nth else f"{self.point}@{self.from_s:g}+{self.at_s:g}"


class Action(msgspec.Struct, frozen=True):
    """One line of a schedule.

    Attributes:
        verb: What is done.
        about: To what: a process, a job, a node; empty where it concerns all.
        options: Further words, by name.
    """

    when: When
    verb: str
    about: str = ""
    options: Mapping[str, str] = {}

    def __str__(self) -> str:
        return " ".join((str(self.when), self.verb, *filter(None, (self.about,)), *_words(self.options)))

    def number(self, name: str, otherwise: float) -> float:
        """An option that is a number."""
        return float(self.options.get(name, otherwise))


class Schedule(msgspec.Struct, frozen=True):
    """A world, and what happens in it.

    Attributes:
        world: How the installation is made.
        nodes: The options of each node, by its name.
        actions: What happens, in any order.
    """

    world: Mapping[str, str]
    nodes: Mapping[str, Mapping[str, str]]
    actions: Sequence[Action]

    @property
    def seed(self) -> int:
        """Seed of what no line states: how long a call takes."""
        return int(self.world.get("seed", "0"))

    def with_actions(self, actions: Iterable[Action]) -> Schedule:
        """The same world with other actions."""
        return msgspec.structs.replace(self, actions=tuple(actions))

    def __str__(self) -> str:
        lines = [" ".join(("world", *_words(self.world)))]
        lines += [" ".join(("node", name, *_words(options))) for name, options in self.nodes.items()]
        return "\n".join([*lines, *map(str, self.actions), ""])


def parsed(text: str) -> Schedule:
    """A schedule from its text; what follows a ``#`` at the beginning of a line is a remark.

    Raises:
        ValueError: A line has another form; the message shows it.
    """
    world: Mapping[str, str] = {}
    nodes: dict[str, Mapping[str, str]] = {}
    actions: list[Action] = []
    for line in text.splitlines():
        first, *words = line.split() or ("#",)
        if first.startswith("#"):
            continue
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        if first == "world" and not plain:
            world = options
        elif first == "node" and len(plain) == 1:
            nodes[plain[0]] = options
        elif plain and len(plain) <= 2:
            actions.append(Action(_when(first), plain[0], "".join(plain[1:]), options))
        else:
            raise ValueError(f"no line of a schedule: {line!r}")
    return Schedule(world, nodes, tuple(actions))


def _when(word: str) -> When:
    if found := _POINT.fullmatch(word):
        return When(float(found[4]), found[1], int(found[2] or 0), float(found[3] or 0))
    return When(float(word))


def _words(options: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]
