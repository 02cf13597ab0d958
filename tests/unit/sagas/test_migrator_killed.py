"""A migrator that is killed at any point of a move, or sleeps through it: the move ends well, and the job runs once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
from tests.harness.scenarios.move_scene import CALLS, Scene, at_append
from tests.harness.system.fake_cluster import Gate, When, refuse
from tests.harness.system.rig import RigProcess
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.cluster import Step
from steepest.log.base import NewRecord
from steepest.sagas.janitor import FORGET_AFTER_MS
from steepest.sagas.migrator import ACT_WITHIN_S
from steepest.view.state import Phase

STEPS = list(CALLS)
OUTCOMES = {
    Step.CHECKPOINT: b"CheckpointSaved",
    Step.STOP: b"JobStopped",
    Step.START: b"JobPlaced",
    Step.VERIFY: b"JobResumed",
}


def begun(step: Step) -> bytes:
    """What the record of a step's beginning holds."""
    return f'"step":"{step.value}"'.encode()


def before_begun(process: RigProcess, step: Step, action: Callable[[], object]) -> None:
    """Do it before the step's ``StepBegun`` is appended."""
    process.log.hook = at_append(begun(step), When.BEFORE, action)


def after_begun(process: RigProcess, step: Step, action: Callable[[], object]) -> None:
    """Do it after it is appended, and before it can be read back."""
    process.log.hook = at_append(begun(step), When.AFTER, action)


def before_act(process: RigProcess, step: Step, action: Callable[[], object]) -> None:
    """Do it after it was read back, and before the cluster does anything."""
    process.cluster.hook(CALLS[step], When.BEFORE, _as_hook(action))


def after_act(process: RigProcess, step: Step, action: Callable[[], object]) -> None:
    """Do it after the cluster did the step, and before it answers."""
    process.cluster.hook(CALLS[step], When.AFTER, _as_hook(action))


def before_outcome(process: RigProcess, step: Step, action: Callable[[], object]) -> None:
    """Do it before the step's outcome is appended."""
    process.log.hook = at_append(OUTCOMES[step], When.BEFORE, action)


def after_outcome(process: RigProcess, step: Step, action: Callable[[], object]) -> None:
    """Do it after the step's outcome is appended."""
    process.log.hook = at_append(OUTCOMES[step], When.AFTER, action)


Point = Callable[[RigProcess, Step, Callable[[], object]], None]
POINTS: list[Point] = [before_begun, after_begun, before_act, after_act, before_outcome, after_outcome]


def _as_hook(action: Callable[[], object]) -> Callable[[], Awaitable[None]]:
    async def done() -> None:
        action()

    return done


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("step", STEPS)
async def test_a_new_migrator_goes_on_where_a_killed_one_was(scene: Scene, step: Step, point: Point) -> None:
    """Killed at any point of any step, the migrator is followed by one that finishes the move from what the log holds."""
    await scene.begin()
    killed: list[Step] = []

    def kill() -> None:
        scene.migrator.kill()
        killed.append(step)

    point(scene.migrator, step, kill)
    await scene.move()
    await until(lambda: killed)
    scene.start_migrator()
    end = await scene.conclusion()
    await scene.end()

    assert isinstance(end, c.MigrationFinished)
    assert end.steps_lost == 0
    assert scene.rig.nodes.finished("a") == 1
    assert [(moment.incarnation, moment.node) for moment in scene.rig.nodes.history if moment.what == "start"] == [
        (1, "n1"),
        (2, "n2"),
    ]
    await scene.check()


@pytest.mark.parametrize("step", STEPS)
async def test_a_migrator_that_was_there_before_takes_over(scene: Scene, step: Step) -> None:
    """Also one that had caught up before the step was begun takes it over, once its time limit is over."""
    await scene.begin("--steps", "250", "--step-s", "1")
    first = scene.migrator
    scene.start_migrator()
    await until(scene.migrator.runtime.health.is_ready)
    before_act(first, step, first.kill)

    async def be_late(call: str, when: When, _records: Sequence[NewRecord]) -> None:
        # Both begin every step. The one whose beginning stands first acts; it is the one that is killed.
        if (call, when) == ("append", When.BEFORE):
            await scene.rig.clock.sleep(0.05)

    scene.migrator.log.hook = be_late
    await scene.move()
    end = await scene.conclusion()

    assert isinstance(end, c.MigrationFinished)
    assert [moment.incarnation for moment in scene.rig.nodes.history if moment.what == "start"] == [1, 2]
    await scene.check()


async def test_of_two_migrators_one_acts(scene: Scene) -> None:
    """Where two overlap, both begin each step, and only the one whose beginning stands first in the log does it."""
    await scene.begin()
    acted: list[str] = []

    async def note(call: str, when: When) -> None:
        if when is When.BEFORE:
            acted.append(call)

    scene.migrator.cluster._every = note
    scene.rig.start("migrator", every=note)
    await scene.rig.clock.sleep(1)
    await scene.move()
    end = await scene.conclusion()

    assert isinstance(end, c.MigrationFinished)
    # The second migrator looks up the running job when it starts; the one that acts looks it up before the first START.
    assert sorted(acted) == sorted([*CALLS.values(), "lookup", "lookup"])
    await scene.check()


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("step", STEPS)
async def test_a_migrator_that_wakes_up_late_starts_nothing(scene: Scene, step: Step, when: When) -> None:
    """Paused inside a call of the cluster while another one finishes the move, it wakes up and changes nothing."""
    await scene.begin("--steps", "100", "--step-s", "1")
    first, gate = scene.migrator, Gate()
    first.cluster.hook(CALLS[step], when, gate)
    await scene.move()
    await gate.reached.wait()
    first.pause()
    scene.start_migrator()
    end = await scene.conclusion()
    history = list(scene.rig.nodes.history)
    gate.open()
    first.wake()
    await scene.rig.clock.sleep(20)

    assert isinstance(end, c.MigrationFinished)
    assert scene.rig.nodes.history == history
    await scene.end()
    assert scene.rig.nodes.finished("a") == 1
    await scene.check()


async def test_a_stop_that_comes_after_its_move_has_failed_ends_no_job(scene: Scene) -> None:
    """Paused inside the stop while another one's stop is refused, it wakes up and stops what was to run on.

    The call names the incarnation, which is still the newest: it is as if the process had ended by itself. The job resumes
    from its checkpoint, without a charge, and finishes once.
    """
    await scene.begin("--steps", "100", "--step-s", "1")
    first, gate = scene.migrator, Gate()
    first.cluster.hook("stop", When.BEFORE, gate)
    await scene.move()
    await gate.reached.wait()
    first.pause()
    second = scene.start_migrator()
    second.cluster.hook("stop", When.BEFORE, *[refuse] * 20)
    end = await scene.conclusion()
    gate.open()
    first.wake()
    await scene.rig.clock.sleep(20)
    resumed = (scene.job.phase, scene.job.incarnation, scene.job.retries_used)
    await scene.end()

    assert isinstance(end, c.MigrationFailed)
    assert resumed == (Phase.RUNNING, 2, 0)
    assert scene.rig.nodes.finished("a") == 1
    await scene.check()


@pytest.mark.parametrize("step", STEPS)
async def test_a_migrator_paused_before_it_acts_acts_no_more(scene: Scene, step: Step) -> None:
    """What it had read back before it fell asleep is too old to be acted on."""
    await scene.begin("--steps", "100", "--step-s", "1")
    first = scene.migrator
    after_begun(first, step, first.pause)
    await scene.move()
    await until(lambda: first._life.is_awake is False)
    scene.start_migrator()
    await scene.conclusion()
    await scene.rig.clock.sleep(ACT_WITHIN_S)
    history = list(scene.rig.nodes.history)
    acted: list[str] = []

    async def note(call: str, _when: When) -> None:
        acted.append(call)

    first.cluster._every = note
    first.wake()
    await scene.rig.clock.sleep(20)

    assert scene.rig.nodes.history == history
    assert [call for call in acted if call in CALLS.values()] == []
    await scene.check()


async def test_a_process_that_was_started_too_late_is_ended(scene: Scene) -> None:
    """A start that comes through after its job is over and forgotten runs astray, and is ended as soon as it is seen."""
    await scene.begin()
    spec = scene.training.spec
    await scene.end()
    await until(lambda: not scene.rig.nodes.jobs, "the job to be forgotten", within_s=2 * FORGET_AFTER_MS / 1000)
    scene.rig.nodes.start(ReplicaId("a"), 1, "n1", spec, None)
    await until(lambda: not scene.rig.nodes.running("a"), "the stray to be ended")
    await until(lambda: not scene.rig.nodes.jobs, "the stray to be forgotten", within_s=2 * FORGET_AFTER_MS / 1000)

    assert scene.rig.nodes.finished("a") == 1
    assert len(await scene.rig.of_type(c.JobEnded)) == 1
