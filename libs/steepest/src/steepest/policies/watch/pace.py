"""The pace of a node's jobs: seconds a step against each job's own past, and whether the job or its node is slower.

A cumulative sum of how far the logarithm of a pace lies above its median, in its own noise (Page 1954, "Continuous
Inspection Schemes"), is slow to believe a single step and quick where many agree. A slow node is what its jobs have in
common; a job alone on its node cannot tell the two apart. What the jobs of its model on other nodes have in common with it
is neither. Where these agree, they are also the past of a job that has none of its own: it may be slow from its start. The
constants were chosen on simulated nodes, and hold on others; what they find of public training times is in
``docs/watching.md``.

Replicas of a gang wait for each other, so their steps take equally long: only what each computes for a step tells them
apart. There a step is what a report of use covers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from steepest.policies.watch.robust import Newest

RATIO = 1.25
"""What is slower by this is worth a word."""

PAST, KNOWN_PACES, LEAST_NOISE = 31, 10, 0.01
"""Paces that are a job's past; it is judged from so many on."""

HIGH, CLIP, DRIFT = 14.0, 4.0, 1.5
"""The sum from which on a job is slow; the most that one pace adds; what is no sign of anything. All in its own noise."""

NORMAL = 200
"""Slow paces after which they are the job's own."""

PEER_PACES, WAITS = 4, 50
"""Paces that each other job has made since, before a cause is named; and slow paces after which it is waited for no more."""

KIN_LEAST, KIN_MOST = 3, 20
"""The least and the most jobs of a model on other nodes to which one is compared."""

FIRST_LOOKS, LOOKS = range(5, 2 * KNOWN_PACES), (4 * KNOWN_PACES, 16 * KNOWN_PACES)
"""After how many of its paces it is: as soon as these jobs are known, when its own past is, and later. Before its past is
known, this only shows a slow neighbour the cause."""

LASTS, JOBS_LEAST = 20, 2
"""Slow paces, and jobs, of which a node is slow so surely that it may be closed."""

STRAGGLES, STRAGGLER_STEPS, STRAGGLER_SHARE = 1.2, 10, 0.8
"""A replica computes this many times as long as its peers of the same role, in so many steps, in this share of them."""


class Pace(msgspec.Struct, kw_only=True, gc=False):
    """What is remembered of one job.

    Attributes:
        past: Logarithms of seconds a step; none of them slow, and one in four once it is full.
        count: Paces so far.
        total: The cumulative sum, since ``run`` paces, whose excesses are ``excess`` together.
        fresh: The newest ones.
        peers: Once it is slow: the other jobs of its node, and those of its model on others, with their counts then.
        model: What its steps are those of; empty: unknown.
        from_start: It was slower than the other jobs of its model, whose pace is its past since.
        against: How far it was above the pace of these; None: there were too few, or they do not agree.
        well: Paces since it was slow on this node; None: it was not.
    """

    node: str
    model: str = ""
    from_start: bool = False
    against: float | None = None
    past: Newest = msgspec.field(default_factory=lambda: Newest(PAST))
    count: int = 0
    total: float = 0.0
    run: int = 0
    excess: float = 0.0
    fresh: list[float] = []
    peers: dict[str, int] | None = None
    well: int | None = None

    @property
    def ratio(self) -> float:
        """How many times as long a step takes as before; 1 where it is not slow."""
        return math.exp(self.excess / self.run) if self.run else 1.0

    @property
    def usual_ms(self) -> float:
        """How long a step takes as a rule, in milliseconds. It has a past."""
        return 1_000 * math.exp(self.past.median)

    @property
    def now(self) -> float:
        """The median of its newest paces, against its past; 0 without these."""
        if not self.fresh or not self.past.ordered:
            return 0.0
        return sorted(self.fresh)[len(self.fresh) // 2] - self.past.median

    def _forget_slow(self) -> None:
        self.total, self.run, self.excess, self.peers, self.from_start = 0.0, 0, 0.0, None, False

    def add(self, seconds: float, node: str, others: Mapping[str, Pace], *, is_closed: bool = False) -> None:
        """Judge a pace; where its node is closed because it is slow, its past stays the measure.

        Work: O(1), and O(``others``), the jobs that are watched, when it becomes slow or is compared.
        """
        if node != self.node:  # its past stays, so that a slow node shows on the first job that comes to it
            self.node, self.fresh, self.against, self.well = node, [], None, None
            self._forget_slow()
        pace = math.log(max(seconds, 1e-9))
        self.count += 1
        self.fresh = [*self.fresh[-4:], pace]
        if len(self.past.ordered) < KNOWN_PACES:
            self.past.add(pace)
            return
        noise = max(LEAST_NOISE, self.past.spread / 1.35)
        above = pace - self.past.median
        self.total += min(above / noise - max(DRIFT, 0.5 * math.log(RATIO) / noise), CLIP)
        if self.total <= 0:
            self._forget_slow()
            self.well = None if self.well is None else self.well + 1
            if len(self.past.ordered) < PAST or self.count % 4 == 0:
                self.past.add(pace)
            return
        self.run += 1
        self.excess += above
        if self.peers is None:
            if self.total > HIGH and self.ratio > RATIO:
                self._become_slow(others)
        elif self.run > NORMAL and not is_closed:
            self.past.clear()
            self.well = None
            self._forget_slow()
        elif self.now < 0.5 * math.log(RATIO):
            self._forget_slow()

    def _become_slow(self, others: Mapping[str, Pace]) -> None:
        rest = {name: one for name, one in others.items() if one is not self}
        kin = [name for name, one in rest.items() if one.node != self.node and one.model == self.model != ""]
        here = [name for name, one in rest.items() if one.node == self.node]
        self.well = 0
        self.peers = {name: rest[name].count for name in (*here, *kin[:KIN_MOST])}

    def compare(self, others: Mapping[str, Pace]) -> None:
        """Judge its past by those of the other jobs of its model on other nodes. Work: O(``others``), some times."""
        known = min(KNOWN_PACES, len(self.past.ordered))
        is_first = self.count in FIRST_LOOKS and (self.against is None or self.count == KNOWN_PACES)
        if (
            not (is_first or self.count in LOOKS)
            or not self.model
            or self.peers is not None
            or known < FIRST_LOOKS.start
        ):
            return
        kin = Newest(PAST)
        for one in others.values():
            if one.model == self.model and one.node != self.node and len(one.past.ordered) >= known:
                kin.add(one.past.median)
        self.against = None
        if len(kin.ordered) < KIN_LEAST or kin.spread > math.log(RATIO):
            return
        self.against = excess = self.past.median - kin.median
        noise = max(self.past.spread, kin.spread) / 1.35
        if known == KNOWN_PACES and excess > math.log(RATIO) + 0.5 * noise:
            self.past = self.past.moved(-excess)
            self._become_slow(others)
            self.total, self.run, self.excess, self.from_start = HIGH, KNOWN_PACES, KNOWN_PACES * excess, True

    def cause(self, others: Mapping[str, Pace]) -> str | None:
        """Why it is slow; None: it is not, or its neighbours have made no steps yet.

        ``job``, ``node``; ``model``: jobs of its model on other nodes are as slow; ``unclear``: it is alone.
        """
        if self.peers is None:
            return None
        here: list[bool | None] = []
        elsewhere: list[bool | None] = []
        for name, count in self.peers.items():
            peer = others.get(name)
            is_kin = peer is not None and peer.model == self.model != "" and not self.from_start
            if peer is None or (peer.node != self.node and not is_kin):
                continue
            is_known, is_awaited = self._knows(peer, count)
            if is_known or (is_awaited and self.run < WAITS):
                above = max(peer.now, peer.against or 0.0) if self.from_start else peer.now * (not peer.from_start)
                is_slow = above > 0.5 * math.log(self.ratio) if is_known else None
                (here if peer.node == self.node else elsewhere).append(is_slow)
        by_model, by_node = _most(elsewhere), _most(here)
        if by_model or by_model is None:
            return "model" if by_model else None
        if by_node is None:
            return None
        return "node" if by_node else "job" if here else "unclear"

    def _knows(self, peer: Pace, count: int) -> tuple[bool, bool]:
        """Whether it is known how fast another job is since it had made ``count`` paces, and whether it will be soon."""
        if peer.peers is not None:
            return True, False
        if self.from_start:
            is_known = peer.against is not None
            return is_known, not is_known and peer.model != "" and peer.count < FIRST_LOOKS.stop
        was_known = len(peer.past.ordered) >= KNOWN_PACES
        is_known = was_known and peer.count - count >= PEER_PACES
        return is_known, was_known and not is_known

    def blames_node(self, others: Mapping[str, Pace]) -> bool:
        """Whether the node has become slow for long, by this job and another one. One that always was is another machine."""
        if self.run < LASTS or self.from_start or self.cause(others) != "node":
            return False
        peers = [others[name] for name in self.peers or () if name in others]
        lasting = sum(one.node == self.node and one.peers is not None and one.run >= LASTS for one in peers)
        return lasting + 1 >= JOBS_LEAST


def _most(slow: Sequence[bool | None]) -> bool | None:
    """Whether half of them are; None: it depends on those of which it is not known yet."""
    yes, no = slow.count(True), slow.count(False)
    if yes and 2 * yes >= len(slow):
        return True
    return False if 2 * no > len(slow) or yes + no == len(slow) else None


class GangPace(msgspec.Struct, kw_only=True, gc=False):
    """What is remembered of a gang's incarnation.

    Attributes:
        at: The newest report of each replica: its step, and the CPU time that it has used.
        busy: CPU time a step in the round under way, by replica.
        rounds: Complete rounds, of the newest ``STRAGGLER_STEPS`` and more.
        slow: In how many of them a replica was slow, and the sum of its excesses.
    """

    incarnation: int = 1
    at: dict[int, tuple[int, int]] = {}
    busy: dict[int, float] = {}
    rounds: int = 0
    slow: dict[int, tuple[int, float]] = {}

    def hear(self, replica: int, step: int, cpu_ms: int) -> None:
        """Take in what a replica has used up to a step."""
        before = self.at.get(replica)
        if before is not None and step <= before[0]:
            return
        self.at = {**self.at, replica: (step, cpu_ms)}
        if before is not None and cpu_ms >= before[1]:
            self.busy = {**self.busy, replica: (cpu_ms - before[1]) / (step - before[0])}

    def compare(self, busy: Mapping[int, float], roles: Mapping[int, int]) -> None:
        """Take in what each replica computed for a step, in any unit."""
        by_role: dict[int, list[float]] = {}
        for replica, spent in busy.items():
            by_role.setdefault(roles[replica], []).append(spent)
        typical = {role: max(sorted(spent)[(len(spent) - 1) // 2], 1e-9) for role, spent in by_role.items()}
        if self.rounds >= 2 * STRAGGLER_STEPS:  # older rounds count half
            self.rounds //= 2
            self.slow = {replica: (count // 2, total / 2) for replica, (count, total) in self.slow.items()}
        self.rounds += 1
        for replica, spent in busy.items():
            excess = math.log(max(spent, 1e-9) / typical[roles[replica]])
            count, total = self.slow.get(replica, (0, 0.0))
            self.slow[replica] = (count + (excess > math.log(STRAGGLES)), total + excess)

    @property
    def straggler(self) -> tuple[int, float] | None:
        """The slowest of the replicas that are slow, and how many times as much it computes as its peers."""
        if self.rounds < STRAGGLER_STEPS:
            return None
        named = [
            (total / self.rounds, -replica)
            for replica, (count, total) in self.slow.items()
            if count >= STRAGGLER_SHARE * self.rounds
        ]
        return (-max(named)[1], math.exp(max(named)[0])) if named else None
