"""No dead-lock under DRAGON: gangs that exclude each other, crashes, and every gang that can ever have room ends.

When the queue must advance is each variant's own rule, counted here in places, as every replica asks for the same:

* ``dragon-fixed``: whenever a waiting gang has room with its fewest replicas.
* ``dragon``: likewise, but not while the head of the queue starves and would have no room if all gangs were at their
  fewest. The head is judged without its parameter server.
* ``dragon-paper-era``: likewise, but not while two jobs or more starve: they take turns in having others scaled down, and
  nothing starts in such a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.parameters import PoolParameters
from steepest.policies.dragon.gang_scheduler import GangScheduler
from steepest.policies.named import under
from steepest.policies.placement.placer import Placer
from steepest.view.state import Job, Phase

PLACE_M = 100
NODES = (4, 4, 4)
"""The places of each node, if a test says nothing else."""

POOL = sum(NODES)
STEP_MS = 2_000
"""Virtual time between two looks at the pool: as much as one tick may count."""

PASS = 8
"""Steps from one pass to the next, at the most: DRAGON's period is 15 s."""

ADVANCES_IN = {"dragon": PASS, "dragon-paper-era": 2 * PASS, "dragon-fixed": PASS}
"""Steps within which a gang with room starts: by the next pass, or by that after it, where a pass may start none."""


class Gang(NamedTuple):
    """What is submitted ``after`` so many steps: a gang that trains for ``steps``."""

    fewest: int
    more: int = 0
    serves: bool = False
    loose: bool = False
    steps: int = 10**6
    after: int = 0

    @property
    def places(self) -> int:
        """What it needs to start."""
        return self.fewest + self.serves


def gangs(fewest: st.SearchStrategy[int]) -> st.SearchStrategy[Gang]:
    """Gangs with so many workers at least."""
    after = st.sampled_from([0, 0, 1, 5, 20])
    drawn = st.builds(Gang, fewest, st.integers(0, 4), st.booleans(), st.booleans(), st.integers(1, 40), after)
    return drawn.filter(lambda gang: gang.places + gang.more > 1)


LARGE = gangs(st.integers(POOL // 2 + 1, POOL + 1))
"""Two of them never run together; the largest have no room at all."""

LOADS = st.builds(
    lambda large, others, order: order.sample([*large, *others], len(large) + len(others)),
    st.lists(LARGE, min_size=2, max_size=3),
    st.lists(gangs(st.integers(1, POOL // 2)), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
CRASHES = st.lists(st.tuples(st.integers(1, 150), st.integers(0, 7), st.integers(0, 5)), max_size=4)
"""At which step, of which of the jobs that run, which replica."""


def submission(name: str, gang: Gang) -> c.JobSubmitted:
    """A gang that may be saved, scaled and started again."""
    requests = Resources(cpu_m=PLACE_M)
    most = gang.fewest + gang.more
    workers = c.Role(
        name="worker",
        replicas=gang.fewest + gang.more // 2,
        min=gang.fewest,
        max=most,
        requests=requests,
        may_leave=gang.loose,
    )
    roles = (c.Role(name="ps", requests=requests), workers) if gang.serves else (workers,)
    success = c.SuccessRule.CHIEF if gang.loose else c.SuccessRule.ALL
    return submitted(name, mode=CheckpointMode.ON_REQUEST, roles=roles, success=success, retries=20)


class Pool:
    """A pool under a policy, whose gangs train for as long as they were submitted for.

    Attributes:
        driver: The deciders and their log.
        trained: For how many steps each gang has trained.
    """

    def __init__(self, policy: str, *places: int) -> None:
        """Open it; ``places``: of each node."""
        nodes = {f"w{number}": count * PLACE_M for number, count in enumerate(places or NODES, start=1)}
        self.driver = DeciderDriver(Placer(), GangScheduler(), **nodes)
        parameters = under(policy, PoolParameters())
        self.rules = parameters.dragon
        self.driver.fold(c.PoolConfigured(parameters=parameters))
        self.gangs: dict[str, Gang] = {}
        self.trained: dict[str, int] = {}

    def submit(self, gang: Gang) -> None:
        """One more gang."""
        name = f"job-{len(self.gangs)}"
        self.gangs[name] = gang
        self.trained[name] = 0
        self.driver.fold(submission(name, gang))

    def step(self) -> Sequence[c.ClusterEvent]:
        """Let time pass; plans are carried out, and gangs train and end. Gives what was decided."""
        before = len(self.driver.decided)
        self.driver.tick(STEP_MS)
        for job in self.driver.active():
            self.carry_out(job)
        for job in self.driver.active():
            if not job.alive or job.plan:
                continue
            self.trained[job.name] += 1
            if self.trained[job.name] >= self.gangs[job.name].steps:
                self.finish(job)
        return self.driver.decided[before:]

    def carry_out(self, job: Job) -> None:
        """Carry a job's plan out, if there is one."""
        if job.plan:
            self.driver.carry_out(job.name)
            self.check(job)

    def finish(self, job: Job) -> None:
        """All replicas of a gang end well."""
        for index in [index for index, replica in enumerate(job.replicas) if replica.alive]:
            if job.phase is not Phase.ENDED and job.replicas[index].alive:
                self.driver.fold(self.driver.stopped(job.name, 0, replica=index))
        self.carry_out(job)

    def crash(self, which: int, replica: int) -> None:
        """A replica of a gang ends with a failure."""
        running = [job for job in self.driver.active() if job.alive and job.plan is None]
        if running:
            job = running[which % len(running)]
            alive = [index for index, one in enumerate(job.replicas) if one.alive]
            self.driver.fold(self.driver.stopped(job.name, 1, replica=alive[replica % len(alive)]))
            self.check(job)

    def check(self, job: Job) -> None:
        """No gang trains with fewer replicas of a role than the role's ``min``; those that have finished count."""
        if job.phase is Phase.RUNNING and job.alive and job.plan is None:
            for index, role in enumerate(job.spec.all_roles):
                mine = [one for one in job.replicas if one.role == index]
                count = sum(one.alive or one.exit_status == 0 for one in mine)
                assert count >= role.fewest, f"{job.name} runs with {count} of role {role.name}: {job.replicas}"

    # --- each variant's rule ------------------------------------------------------------------------------------------

    def waiting(self) -> list[Job]:
        """The jobs that wait, that nothing is planned for, and that no failure holds back, in their order."""
        now_ms = self.driver.view.counted_ms
        waiting = [job for job in self.driver.active() if job.is_queued and job.plan is None]
        ready = [job for job in waiting if job.not_before_counted_ms <= now_ms]
        return sorted(ready, key=lambda job: job.submitted_offset)

    def must_advance(self) -> bool:
        """Whether a waiting job must start soon."""
        free = sum(node.free.cpu_m for node in self.driver.view.nodes) // PLACE_M
        waiting = self.waiting()
        if not any(self.gangs[job.name].places <= free for job in waiting):
            return False
        starving = self.starving()
        if self.rules.starving_ms > 30_000:
            return len(starving) < 2
        if self.rules.head_blocks and starving and starving[0] is waiting[0]:
            return self.gangs[waiting[0].name].fewest <= free + self.surplus()
        return True

    def starving(self) -> list[Job]:
        """Those that have waited so long that others are scaled down for them."""
        return [job for job in self.waiting() if self.waited_ms(job) >= self.rules.starving_ms]

    def waited_ms(self, job: Job) -> int:
        """Since it was submitted or let go after a failure."""
        return self.driver.view.counted_ms - max(job.submitted_counted_ms, job.not_before_counted_ms)

    def surplus(self) -> int:
        """The workers that gangs may give up that train as they were started or scaled."""
        return sum(
            sum(one.alive for one in job.replicas) - self.gangs[job.name].places
            for job in self.driver.active()
            if job.alive and job.plan is None and all(one.alive or one.left for one in job.replicas)
        )


@pytest.mark.parametrize("policy", ["dragon", "dragon-paper-era", "dragon-fixed"])
@given(load=LOADS, crashes=CRASHES)
@settings(max_examples=scaled(15), deadline=None)
def test_no_dead_lock(policy: str, load: list[Gang], crashes: list[tuple[int, int, int]]) -> None:
    """The queue advances when the variant's rule says so, and all that can ever have room end; others are rejected."""
    pool = Pool(policy)
    arrivals = list(load)
    due, stuck = arrivals[0].after, 0
    patience = sum(gang.steps + gang.after for gang in load) + 90 * len(load) + 60 * (1 + len(crashes))
    for step in range(patience):
        while arrivals and step >= due:
            pool.submit(arrivals.pop(0))
            due += arrivals[0].after if arrivals else 0
        for at, which, replica in crashes:
            if at == step:
                pool.crash(which, replica)
        made = pool.step()
        if policy == "dragon" and any(isinstance(one, c.TransitionPlanned) and one.room_for is None for one in made):
            assert not pool.starving(), f"a gang grows while {pool.starving()[0].name} starves"
        advanced = any(isinstance(one, c.PlacementPlanned) for one in made)
        stuck = 0 if advanced or not pool.must_advance() else stuck + 1
        assert stuck <= ADVANCES_IN[policy], f"at step {step}: {[job.name for job in pool.waiting()]}"
        if not arrivals and not pool.driver.active():
            break
    for job in pool.driver.view.jobs:
        has_room = pool.gangs[job.name].places <= POOL
        assert job.phase is Phase.ENDED, job.name
        assert job.outcome is (c.Outcome.FINISHED if has_room else c.Outcome.FAILED), job.name


def test_the_paper_s_era_lets_two_that_starve_take_turns() -> None:
    """Each pass scales others down for the one that was not helped last, and starts nothing: neither starts in the room."""
    pool = Pool("dragon-paper-era")
    for gang in [Gang(1, 2 * POOL - 2, loose=True), Gang(3, steps=1), Gang(3, steps=1)]:
        pool.submit(gang)
        pool.step()
    for _ in range(20 * PASS):
        pool.step()

    first, *waiting = pool.driver.active()
    assert len(first.running_on) == POOL - 3
    assert [job.phase for job in waiting] == [Phase.WAITING] * 2
    pool.finish(first)
    for _ in range(4 * PASS):
        pool.step()
    assert pool.driver.active() == []


@pytest.mark.parametrize(
    ("policy", "goes_on"), [("dragon-paper-era", True), ("dragon", False), ("dragon-fixed", False)]
)
def test_whether_a_gang_shrinks_and_grows_without_new_work(policy: str, *, goes_on: bool) -> None:
    """Two wait for one place more than can be freed, for their servers; the paper's era frees it for them in turn.

    It judges without servers, grows gangs again after 60 s although both starve, and so goes on without end. Version 0.9
    ignores servers too, but grows nothing meanwhile.
    """
    pool = Pool(policy, POOL)
    for gang in [Gang(5), Gang(1, 10, serves=True, loose=True), Gang(4, serves=True), Gang(4, serves=True)]:
        pool.submit(gang)
        pool.step()
    changes = []
    for _ in range(40 * PASS):
        made = [one for one in pool.step() if isinstance(one, c.TransitionPlanned)]
        changes += [len(one.nodes) - len(one.sources) for one in made]

    shrunk, grown = sum(change < 0 for change in changes), sum(change > 0 for change in changes)
    if goes_on:
        assert min(shrunk, grown) > 3
        assert [job.phase for job in pool.driver.active()] == [Phase.RUNNING] * 2 + [Phase.WAITING] * 2
    else:
        assert shrunk <= 1
        assert grown == 0


@given(
    running=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), min_size=1, max_size=4), fewest=st.integers(1, 8)
)
@settings(max_examples=scaled(20), deadline=None)
def test_the_paper_s_era_helps_one_that_starves(running: list[tuple[int, int]], fewest: int) -> None:
    """A gang that waits alone starts within 120 s and two passes where more workers could leave than it needs."""
    pool = Pool("dragon-paper-era")
    for least, more in running:
        pool.submit(Gang(least, more + 1, loose=True))
        pool.step()
    if pool.waiting():
        return
    pool.submit(Gang(fewest, 1))
    for _ in range(pool.rules.starving_ms // STEP_MS - 1):
        pool.step()
    could_leave = pool.surplus()
    for _ in range(2 * PASS + 1):
        pool.step()
    assert not pool.waiting() or could_leave <= fewest
