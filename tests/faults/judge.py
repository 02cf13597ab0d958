"""What must hold once a world is over: of its log, nodes and processes. The checkers are those of `steepest check`."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from tests.faults.measured import ends, unmeasured
from tests.faults.processes import SHARING
from tests.faults.reports import Reported
from tests.faults.world import Outcome, World, readable

from steepest.errors import UndecodableError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import ID, LOGIC, DecisionId, Received
from steepest.invariants import AnnouncedParameters, Audit, Status, all_with
from steepest.log.base import Log, Record, TopicPartition
from steepest.replay.replay import Replay
from steepest.runtime.decode import received
from steepest.view.cluster_view import ClusterView, fold_all
from steepest.view.state import Phase

RESTATED = ("upgrade", "power-loss", "recreate")
"""Faults after which a stream's decider states again what holds, which one that reads its topic from the first record
does not: another logic has decided, or records were lost about which decisions remain. A roll-back is
of a process that was upgraded before."""

STARTS_LOST = ("incarnations-rise", "one-place")
"""What a log without its newest records need not show: a start that was lost is known by the node's report alone, and the
end before it not at all. Until it has come, the node may be given more than it has. What ran where, the nodes have seen."""

RESUMPTIONS = "suspended-resume"
"""The checker of resumptions: of one that was lost with the newest records, only the node's report is left as well."""

ACCOUNTS = "accounting"
"""The checker of ends: where a start was lost, a job may be cancelled as if it had none. The janitor ends what runs on."""

SEEN_BESIDE = ("one-place", "accounting")
"""Checkers that a start breaks which takes effect after it was looked up. The log cannot tell it from one that nothing has
looked up; the janitor ends it, and what ran there twice, the nodes have seen."""

STREAMS = "decision-ids"
"""The checker of streams of decisions, which begin again where an operator removed the newest and the power a snapshot
that knew of it. And where an operator has removed records, a decider of another release begins with an empty state: beside
one that never left it decides otherwise about the same records, and each goes on with its own."""

NAMED = re.compile(r"names (\S+) as its predecessor, but the log has (\S+) before it")
"""What such a breach says."""

ALONE = ("embedded", "split")
"""Topologies in which one process writes the decisions of a decider."""

LATE = ("append-late", "append-zombie")
"""Faults by which a decision may reach the log after its decider has looked for it there, and made it again. A roll-back
does that too where an operator has removed what the first release had decided: views know that they have read it."""

REPLAY, MEASURED, ONE_PLACE, NO_TWICE = "replay", "measured", "one-place", "no-decision-twice"
"""What is judged of some worlds only: that the log is decided again to the same; that the growth of who reports is measured;
the checkers of ``STARTS_LOST`` and the room of nodes; that no decision is in the log twice."""

Incarnation = tuple[str, int, str]
"""A job, its incarnation, and a node."""


async def judge(world: World) -> Outcome:
    """Stop a world, and look at what is left of it."""
    took_s = world.now_s
    ends_before = {pool: await world.broker.log.end(world.layout.of_pool(pool)) for pool in world.layout.pools}
    await world.stop()
    log = await world.broker.recording()
    broken = list(world.complaints)
    judged = _judged(world)
    if REPLAY in judged and (report := await Replay(log).run()).first_difference is not None:
        broken.append(f"replay: {report.differences} differences, the first is {report.first_difference}")
    losses = [_events(await records_of(log, at)) for at in world.layout.of_topic("loss")]
    decided: list[Received[Any]] = []
    strays: dict[Incarnation, int] = {}
    digest, records = hashlib.sha256(), 0
    for pool in world.layout.pools:
        at = world.layout.of_pool(pool)
        found = await records_of(log, at)
        records += len(found)
        for record in found:
            digest.update(msgspec.msgpack.encode((record.key, record.value, record.at_ms, record.headers)))
        events = _events(found)
        decided += events
        strays |= _strays(events)
        lossy, late = ONE_PLACE not in judged, world.broker.late_starts
        trimmed = world.is_trimmed
        of_log = _of_log(found, [event for one in losses for event in one], late, lossy=lossy, trimmed=trimmed)
        broken += [f"{pool}: {what}" for what in of_log]
        if NO_TWICE in judged:
            broken += [f"{pool}: {what}" for what in _of_decisions(found)]
        folded, unsound = _folded(found, world.refuted if _is_alone(world) and not lossy else {})
        broken += [f"{pool}: {what}" for what in (*unsound, *_of_view(folded))]
        views = {name: process.views[pool] for name, process in world.processes.items() if pool in process.views}
        shared = world.schedule.world.get("topology") == SHARING
        broken += [f"{pool}: {what}" for what in _of_processes(found, folded, views, ends_before[pool], shared=shared)]
    if MEASURED in judged:
        known = ends(decided)
        broken += [what for partition in losses for what in unmeasured(partition, known)]
    broken += _of_nodes(world, strays, lossy=ONE_PLACE not in judged)
    short = digest.hexdigest()[:16]
    return Outcome(tuple(broken), dict(world.struck), world.faults, records, took_s, short, judged)


def _judged(world: World) -> tuple[str, ...]:
    """What is judged of this world, of that which is not of every one."""
    kinds = {kind: None for kind, _ in world.struck}
    is_restated = any(kind in kinds for kind in RESTATED)
    asked = {
        REPLAY: not is_restated,
        MEASURED: not is_restated,
        ONE_PLACE: "power-loss" not in kinds,
        NO_TWICE: _is_alone(world)
        and not any(kind in kinds for kind in LATE)
        and not ("roll-back" in kinds and world.is_trimmed),
    }
    return tuple(name for name, is_asked in asked.items() if is_asked)


def _is_alone(world: World) -> bool:
    return world.schedule.world.get("topology", "split") in ALONE


def _of_log(
    records: Sequence[Record],
    losses: Sequence[Received[Any]],
    late_starts: Iterable[str],
    *,
    lossy: bool,
    trimmed: bool,
) -> Iterator[str]:
    watched = AnnouncedParameters()
    for event in losses:
        watched.feed(event)
    audit = Audit(all_with(watched))
    for record in records:
        try:
            audit.feed(received(record))
        except UndecodableError:
            audit.skip(record.offset)
    for verdict in audit.verdicts():
        if verdict.status is Status.HOLDS or (lossy and verdict.checker in STARTS_LOST):
            continue
        breaches = audit.breaches(verdict.checker)
        excuses = _excuses(verdict.checker, late_starts, lossy=lossy, trimmed=trimmed)
        if not breaches or not any(all(map(is_excused, breaches)) for is_excused in excuses):
            yield f"{verdict.checker} is {verdict.status.value}: {verdict.message}"


def _excuses(
    checker: str, late_starts: Iterable[str], *, lossy: bool, trimmed: bool
) -> Iterator[Callable[[str], bool]]:
    """What excuses a breach of this checker in this world; of all its breaches, it must be the same."""
    if checker in SEEN_BESIDE:
        yield partial(_says_any, [f"job {job} " for job in late_starts])
    if lossy and checker == ACCOUNTS:
        yield partial(_says_any, [" while incarnation "])
    if lossy and checker == RESUMPTIONS:
        yield partial(_says_any, ["is suspended, and runs on"])
    if trimmed and checker == STREAMS:
        yield _goes_on_with_its_own
        if lossy:
            yield partial(_says_any, ["names none as its predecessor"])


def _says_any(phrases: Sequence[str], breach: str) -> bool:
    return any(phrase in breach for phrase in phrases)


def _goes_on_with_its_own(breach: str) -> bool:
    """Whether a decision names one that is in the log before it, and not the last one."""
    said = NAMED.search(breach)
    named, last = map(DecisionId.parse, said.groups()) if said else (None, None)
    return named is not None and last is not None and named.position <= last.position


def _of_decisions(records: Sequence[Record]) -> Iterator[str]:
    """What is in the log is not appended again by the same logic, however often its decider was started."""
    times = Counter((record.headers[ID], record.headers.get(LOGIC)) for record in records if ID in record.headers)
    yield from (f"{one} is in the log {count} times" for (one, _), count in times.items() if count > 1)


def _folded(records: Sequence[Record], refuted: Mapping[bytes, bool]) -> tuple[ClusterView, Sequence[str]]:
    """The view of these records, and which of them must not be.

    The time that ticks count never goes back. A START that has failed and had no effect, as a record that counts says, runs
    nowhere.
    """
    view, unsound = ClusterView(), []
    for record in records:
        before_ms = view.counted_ms
        try:
            counts = view.fold(received(record))
        except UndecodableError:
            view.skip(record.offset)
            continue
        if counts and refuted.get(record.value):
            unsound.append(f"a START that is said to have had no effect runs, at record {record.offset}")
        if view.counted_ms < before_ms:
            unsound.append(
                f"counted time went back to {view.counted_ms} ms from {before_ms} ms, at record {record.offset}"
            )
    return view, unsound


def _of_view(view: ClusterView) -> Iterator[str]:
    if view.state.gaps:
        yield f"{view.state.gaps} decisions have no predecessor"
    for job in view.jobs:
        if job.phase is not Phase.ENDED:
            yield f"{job.name} has not ended: it is {job.phase.value}"
    for plan in view.in_flight:
        yield f"{plan} is in flight"
    for node in view.nodes:
        if node.allocated.cpu_m or node.count:
            yield f"{node.name} has {node.allocated.cpu_m}m of {node.count} replicas reserved, and nothing runs"


def _of_processes(
    records: Sequence[Record], folded: ClusterView, views: Mapping[str, ClusterView], end: int, *, shared: bool
) -> Iterator[str]:
    """Each view is a fold up to its position: at least to the ``end`` that the log had before all were stopped.

    That is so for all that follow the pool. Of replicas that share, one does.
    """
    furthest = max((view.position for view in views.values()), default=0)
    at_end = folded.snapshot()
    for name, view in views.items():
        if view.position < end and not (shared and furthest >= end):
            yield f"{name} stands at {view.position}, and the log ended at {end}"
        elif view.position:
            is_at_end = view.position == folded.position
            if view.snapshot() != (at_end if is_at_end else _snapshot_at(records, view.position)):
                yield f"{name} has another view than the log says"


def _snapshot_at(records: Sequence[Record], position: int) -> bytes:
    view = fold_all(_events(records[:position]))
    view.skip(position - 1)  # the last one may be none that can be read
    return view.snapshot()


def _of_nodes(world: World, strays: Mapping[Incarnation, int], *, lossy: bool) -> Iterator[str]:
    for nodes in world.nodes.values():
        witness = nodes.witness
        assert isinstance(witness, Reported)
        yield from (f"ran twice at a time: {moment}" for moment in witness.doubled)
        for at_ms, moment, there in () if lossy else witness.crowds:
            taken = Resources()
            for training in there:
                if training.replica.job in world.broker.late_starts:
                    continue  # no record explains it before the janitor finds it, so that its room is given to others
                gone_ms = strays.get((training.replica.job, training.incarnation, training.node))
                if gone_ms is None or at_ms < gone_ms:
                    taken += training.spec.requests
            if not taken.fits(nodes.capacities[moment.node].of_a_node):
                yield f"more than the node has: {moment}"
        yield from (f"still runs: {training.replica}.{training.incarnation}" for training in nodes.running())


def _strays(events: Sequence[Received[Any]]) -> Mapping[Incarnation, int]:
    """Starts that were under way to a node when it was declared to be gone, and when that was.

    The node was said never to return. Where it does and they still come to it, nothing knows of them before they run.
    """
    begun: dict[Incarnation, None] = {}
    found: dict[Incarnation, int] = {}
    for one in events:
        match one.event:
            case c.StepBegun(step=c.Step.START) as step:
                begun |= {(step.job, step.incarnation, node): None for node in step.nodes or (step.node,)}
            case c.NodeGone(node=node):
                found |= {start: one.at_ms for start in begun if start[2] == node and start not in found}
    return found


def _events(records: Sequence[Record]) -> list[Received[Any]]:
    return list(readable(records))


async def records_of(log: Log, at: TopicPartition) -> list[Record]:
    """All records of a partition that still exist."""
    begin, end = await log.begin(at), await log.end(at)
    reader = log.reader({at: begin})
    found: list[Record] = []
    while len(found) < end - begin:
        found.extend(await reader.poll())
        await asyncio.sleep(0)
    await reader.close()
    return found
