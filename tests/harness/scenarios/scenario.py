"""Scenarios in text: one act a line, and behind the arrow what the deciders must make of it.

    run job-1 w4 CC                 ->
    request job-1                   -> move job-1 w4->w2

It owns the words, of acts and of decisions, and must never know why a decision is right. Several decisions stand in the
order in which they are made, with `` | `` between them. A line without an arrow only sets the scene: it may yield
anything. ``#`` begins a comment.

=============================== =======================================================================================
act                             what it does
=============================== =======================================================================================
``node N CPU``                  a node joins, with that many millicores
``device N CPU``                a node joins that only reports, and takes no jobs
``lost N``                      a node is lost
``gone N``                      an operator says that a lost node never returns
``use N CPU``                   a node uses that many millicores
``submit J [k=v …]``            a job is submitted; ``cpu``, ``mode``, ``retries``, ``first_node``, ``request``,
                                ``replicas``, ``min``, ``priority``, ``queue``, ``steps``
``run J N [PC|WC|CC] [k=v …]``  a job is submitted, placed and started on a node; growth was measured of one with a category
``move J N->N``                 Algorithm 4 moves the job, by hand
``carry J``                     the job's plan is carried out to its end
``fail J CODE``                 the step that is due for the job fails definitely
``category J PC|WC|CC``         the job is of another category
``request J``                   the job asks for another place
``grow J``                      growth was measured
``exit J [STATUS]``             the job's process ends; ``?``: its exit status is unknown
``save J STEP``                 the job's first checkpoint of this incarnation is verified
``cancel J``                    a user wants the job to stop
``tick [MS]``                   time passes; a second by default
``set K=V …``                   parameters of the pool, of SpeCon, of the queue or of preemption
``limit QUEUE K=V …``           the limits of a queue
=============================== =======================================================================================

Decisions read ``admit J``, ``reject J: WHY``, ``place J N``, ``retry J at COUNTED_MS [charged]``, ``finished J``,
``failed J: WHY``, ``cancelled J``, ``move J N->N``, ``rebalance J N->N``, ``stay J`` and ``lost N``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from tests.harness.scenarios import folded_pool
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.parameters import (
    PoolParameters,
    PreemptionLimits,
    QueueLimits,
    QueueParameters,
    SpeConParameters,
)
from steepest.events.requests import Role
from steepest.policies.decider import ClusterDecider

# --- reading --------------------------------------------------------------------------------------------------------


class Line(msgspec.Struct, frozen=True):
    """An act and what it must yield; None where it may yield anything."""

    number: int
    words: tuple[str, ...]
    expected: tuple[str, ...] | None

    def __str__(self) -> str:
        return f"line {self.number}: {' '.join(self.words)}"


def read(text: str) -> Iterator[Line]:
    """The lines of a scenario."""
    for number, line in enumerate(text.splitlines(), 1):
        act_and_result = line.partition("#")[0]
        act, arrow, expected = f"{act_and_result} ".partition(" -> ")
        words = tuple(act.split())
        if words:
            wanted = tuple(part.strip() for part in expected.split(" | ") if part.strip())
            yield Line(number, words, wanted if arrow else None)


def check(text: str, *deciders: ClusterDecider, delay: int | Callable[[], int] = 0) -> DeciderDriver:
    """Act a scenario out before these deciders, and hold each line to what it must yield.

    Raises:
        AssertionError: A line yields something else; the message names it.
    """
    driver = DeciderDriver(*deciders, delay=delay)
    for line in read(text):
        before = len(driver.decided)
        act(driver, line.words)
        made = tuple(spell(event) for event in driver.decided[before:])
        assert line.expected is None or made == line.expected, f"{line}\nmust yield {line.expected}\nyields     {made}"
    return driver


# --- acts -----------------------------------------------------------------------------------------------------------


def act(driver: DeciderDriver, words: Sequence[str]) -> None:
    """Act one line out."""
    verb, *rest = words
    plain = [word for word in rest if "=" not in word]
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    _ACTS[verb](driver, plain, options)


SECTIONS = {
    "specon": SpeConParameters.__struct_fields__,
    "queueing": QueueParameters.__struct_fields__,
    "preemption": PreemptionLimits.__struct_fields__,
}
"""Sections of the parameters whose fields ``set`` knows by their names alone."""


def _spec(options: dict[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "cpu_m": int(options.get("cpu", "100")),
        "mode": CheckpointMode(options.get("mode", "on-request")),
    }
    spec |= {name: int(options[name]) for name in ("retries", "replicas", "priority", "steps") if name in options}
    spec |= {name: options[name] for name in ("first_node", "request", "queue", "user") if name in options}
    if "min" in options:
        requests = Resources(spec["cpu_m"])
        role = Role(name="worker", replicas=spec.pop("replicas"), min=int(options["min"]), requests=requests)
        spec["roles"] = (role,)
    return spec


def _run(driver: DeciderDriver, words: list[str], options: dict[str, str]) -> None:
    name, node, *of = words
    driver.run(name, node, c.Category(of[0]) if of else None, **_spec(options))


def _exit(driver: DeciderDriver, words: list[str], _: dict[str, str]) -> None:
    name, *status = words
    known = None if status == ["?"] else int(status[0]) if status else 0
    driver.fold(driver.stopped(name, known))


def _save(driver: DeciderDriver, words: list[str], _: dict[str, str]) -> None:
    name, step = words
    job = driver.job(name)
    saved = folded_pool.checkpoint(int(step), job.incarnation)
    event = c.CheckpointVerified(job=name, incarnation=job.incarnation, node=job.started_on or "", checkpoint=saved)
    driver.fold(event)


def _set(driver: DeciderDriver, _: list[str], options: dict[str, str]) -> None:
    now = msgspec.to_builtins(driver.view.parameters)
    for name, value in options.items():
        section = next((section for section, fields in SECTIONS.items() if name in fields), None)
        group = now if section is None else now.setdefault(section, {})
        group[name] = value
    parameters = msgspec.convert(now, PoolParameters, strict=False)
    driver.fold(c.PoolConfigured(parameters=parameters))


def _limit(driver: DeciderDriver, words: list[str], options: dict[str, str]) -> None:
    whose = {} if "user" in options else {"queue": words[0]}
    limits = msgspec.convert({**whose, **options}, QueueLimits, strict=False)
    now = driver.view.parameters
    queueing = msgspec.structs.replace(now.queueing, limits=(limits,))
    parameters = msgspec.structs.replace(now, queueing=queueing)
    driver.fold(c.PoolConfigured(parameters=parameters))


def _move(driver: DeciderDriver, words: list[str], _: dict[str, str]) -> None:
    name, way = words
    source, target = way.split("->")
    driver.fold(folded_pool.migration(name, source, target, incarnation=driver.job(name).incarnation))


def _carry(driver: DeciderDriver, words: list[str], _: dict[str, str]) -> None:
    driver.deliver(everything=True)
    driver.carry_out(words[0])


def _fail(driver: DeciderDriver, words: list[str], _: dict[str, str]) -> None:
    driver.deliver(everything=True)
    driver.fail(words[0], words[1])


def _tick(driver: DeciderDriver, words: list[str], _: dict[str, str]) -> None:
    driver.tick(int(words[0]) if words else 1_000)


def _submit(driver: DeciderDriver, words: list[str], options: dict[str, str]) -> None:
    driver.fold(folded_pool.submitted(words[0], **_spec(options)))


def _event_act(build: Callable[..., c.ClusterEvent]) -> Callable[[DeciderDriver, list[str], dict[str, str]], None]:
    """An act that is one event, made of the line's words."""

    def fold(driver: DeciderDriver, words: list[str], _: dict[str, str]) -> None:
        driver.fold(build(*words))

    return fold


_ACTS: dict[str, Callable[[DeciderDriver, list[str], dict[str, str]], None]] = {
    "node": _event_act(lambda name, cpu_m: folded_pool.joined(name, int(cpu_m))),
    "device": _event_act(lambda name, cpu_m: folded_pool.joined(name, int(cpu_m), takes_jobs=False)),
    "lost": _event_act(lambda name: c.NodeLost(node=name, silent_ms=1)),
    "gone": _event_act(lambda name: c.NodeGone(node=name)),
    "use": _event_act(lambda name, cpu_m: folded_pool.used(name, int(cpu_m))),
    "submit": _submit,
    "limit": _limit,
    "run": _run,
    "move": _move,
    "carry": _carry,
    "fail": _fail,
    "category": _event_act(lambda name, after: folded_pool.category(name, c.Category(after))),
    "request": _event_act(folded_pool.requested),
    "grow": _event_act(folded_pool.grown),
    "exit": _exit,
    "save": _save,
    "cancel": _event_act(folded_pool.cancelled),
    "tick": _tick,
    "set": _set,
}


# --- decisions ------------------------------------------------------------------------------------------------------


def spell(event: c.ClusterEvent) -> str:
    """A decision in the words of a scenario."""
    words: Callable[[Any], str] = _SPELLED.get(type(event), lambda event: type(event).__name__)
    return words(event)


def _ended(event: c.JobEnded) -> str:
    return f"{event.outcome} {event.job}" + (f": {event.reason}" if event.outcome is c.Outcome.FAILED else "")


def _moved(event: c.MigrationPlanned) -> str:
    verb = "rebalance" if event.kind is c.MoveKind.REBALANCE else "move"
    return f"{verb} {event.job} {event.source}->{event.target}"


_SPELLED: dict[type, Callable[[Any], str]] = {
    c.JobAdmitted: lambda event: f"admit {event.job}",
    c.JobRejected: lambda event: f"reject {event.job}: {event.reason}",
    c.PlacementPlanned: lambda event: f"place {event.job} {' '.join(event.nodes)}{' later' * bool(event.after)}",
    c.TransitionPlanned: lambda event: f"{event.kind} {event.job}",
    c.RetryPlanned: lambda event: f"retry {event.job} at {event.not_before_ms}{' charged' * event.charged}",
    c.JobEnded: _ended,
    c.MigrationPlanned: _moved,
    c.StayDecided: lambda event: f"stay {event.job}",
    c.NodeLost: lambda event: f"lost {event.node}",
}
