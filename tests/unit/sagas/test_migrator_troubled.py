"""Moves that are crossed or fail: cancels, ends and failures at every step are honoured, and leave a reason behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.harness.scenarios.move_scene import CALLS, LIMITS, Scene
from tests.harness.system.fake_cluster import Hook, When, hang, refuse, stumble, uncertain
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.cluster import Outcome, Step
from steepest.sagas.janitor import FORGET_AFTER_MS
from steepest.view.state import Phase

STEPS = list(CALLS)
MOMENTS = [(step, when) for step in STEPS for when in When]
ALIVE = [
    (step, when) for step, when in MOMENTS if (step, when) not in {(Step.STOP, When.AFTER), (Step.START, When.BEFORE)}
]
"""The moments at which a process of the job runs."""


def meanwhile(scene: Scene, step: Step, when: When, action: Callable[[], Awaitable[object] | None]) -> None:
    """Do something at that moment of the move."""

    async def do() -> None:
        waits = action()
        if waits is not None:
            await waits

    scene.migrator.cluster.hook(CALLS[step], when, do)


# --- crossed by others ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "when"), MOMENTS)
async def test_a_cancel_is_honoured_at_every_step(scene: Scene, step: Step, when: When) -> None:
    """Whenever in a move a cancel comes, the job ends as cancelled and nothing of it runs or is held."""
    await scene.begin()
    meanwhile(scene, step, when, lambda: scene.rig.cancel("a"))
    await scene.move()
    await scene.end()

    assert scene.job.outcome is Outcome.CANCELLED
    assert scene.rig.nodes.finished("a") == 0
    await scene.check()


@pytest.mark.parametrize(("step", "when"), ALIVE)
async def test_a_training_that_completes_in_a_move_is_not_run_again(scene: Scene, step: Step, when: When) -> None:
    """Whenever in a move the process exits with 0, the job is finished, once."""
    await scene.begin()
    meanwhile(scene, step, when, lambda: scene.training.exit(0))
    await scene.move()
    await scene.end()

    assert scene.job.outcome is Outcome.FINISHED
    assert scene.rig.nodes.finished("a") == 1
    assert not scene.rig.nodes.running("a")
    await scene.check()


@pytest.mark.parametrize(("step", "when"), ALIVE)
async def test_a_training_that_crashes_in_a_move_is_run_again(scene: Scene, step: Step, when: When) -> None:
    """Whenever in a move the process exits with 1, the job goes on from its last checkpoint and is finished, once."""
    await scene.begin(retries=2)
    meanwhile(scene, step, when, lambda: scene.training.exit(1))
    await scene.move()
    await scene.end()

    assert scene.job.outcome is Outcome.FINISHED
    assert scene.rig.nodes.finished("a") == 1
    await scene.check()


async def test_a_full_target_makes_a_plan_void(scene: Scene) -> None:
    """A move to a node without room never begins, and its reason is kept."""
    await scene.begin()
    await scene.rig.submit("b", "--step-s", "1", cpu_m=250, node="n2")
    await until(lambda: "b" in scene.others.view.jobs and scene.others.view.jobs["b"].alive)
    await scene.move()
    await scene.end()
    plan = scene.others.view.plan("move-1")

    assert plan is not None
    assert plan.status == "void"
    assert "not enough free" in plan.reason
    assert [event for event in await scene.rig.of_type(c.StepBegun) if event.plan == "move-1"] == []
    assert scene.rig.nodes.finished("a") == 1
    await scene.check()


# --- failing ----------------------------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[When, Hook]] = {
    "refused": (When.BEFORE, refuse),
    "uncertain, and it did not happen": (When.BEFORE, uncertain),
    "uncertain, and it happened": (When.AFTER, uncertain),
    "no answer, and it did not happen": (When.BEFORE, hang),
    "no answer, and it happened": (When.AFTER, hang),
    "a bug, and it did not happen": (When.BEFORE, stumble),
    "a bug, and it happened": (When.AFTER, stumble),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("step", STEPS)
async def test_a_step_that_fails_once_is_tried_again(scene: Scene, step: Step, fault: tuple[When, Hook]) -> None:
    """One failure of any kind costs time and nothing else: the move is done, or was found to be done already."""
    await scene.begin("--steps", "100", "--step-s", "1")
    scene.migrator.cluster.hook(CALLS[step], *fault)
    await scene.move()
    end = await scene.conclusion()
    await scene.end()

    assert isinstance(end, c.MigrationFinished)
    assert scene.rig.nodes.finished("a") == 1
    await scene.check()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("step", STEPS)
async def test_a_move_that_cannot_be_done_leaves_the_job_running(
    scene: Scene, step: Step, fault: tuple[When, Hook]
) -> None:
    """A step that fails as often as it is tried ends the move with a reason, or was done all the same; the job goes on."""
    await scene.begin("--steps", "120", "--step-s", "1")
    when, hook = fault
    scene.migrator.cluster.hook(CALLS[step], when, *[hook] * LIMITS.tries)
    await scene.move()
    end = await scene.conclusion()
    await until(lambda: scene.job.alive and bool(scene.rig.nodes.running("a")), "the job to run again", within_s=200)

    if isinstance(end, c.MigrationFailed):
        assert end.code in {"refused", "uncertain", "timeout", "bug"}
        assert end.message
    else:
        assert isinstance(end, c.MigrationFinished)
        # A verification changes nothing: the look-up's answer about the job's steps is as good as its own.
        assert step is Step.VERIFY or (when, step) in {(When.AFTER, Step.STOP), (When.AFTER, Step.START)}
    await scene.end()
    assert scene.job.outcome is Outcome.FINISHED
    assert scene.rig.nodes.finished("a") == 1
    await scene.check()


async def test_a_job_that_dies_at_its_target_goes_back(scene: Scene) -> None:
    """Where the process ends before it has reported a step, the job is started where it came from."""
    await scene.begin("--steps", "100", "--step-s", "1")
    meanwhile(scene, Step.VERIFY, When.BEFORE, lambda: scene.training.exit(1))
    await scene.move()
    end = await scene.conclusion()

    assert isinstance(end, c.MigrationFailed)
    assert (end.code, end.node) == ("ended", "n1")
    assert [(moment.incarnation, moment.node) for moment in scene.rig.nodes.history if moment.what == "start"] == [
        (1, "n1"),
        (2, "n2"),
        (3, "n1"),
    ]
    assert scene.training.restored_step
    await scene.end()
    await scene.check()


async def test_a_job_whose_way_back_fails_waits_for_a_place(scene: Scene) -> None:
    """Where neither its target nor its source takes it, the job is placed again like one that waits."""
    await scene.begin("--steps", "100", "--step-s", "1")
    scene.migrator.cluster.hook("start", When.BEFORE, *[refuse] * (2 * LIMITS.tries))
    await scene.move()
    end = await scene.conclusion()

    assert isinstance(end, c.MigrationFailed)
    assert end.node is None
    await scene.end()
    assert scene.job.outcome is Outcome.FINISHED
    assert scene.rig.nodes.finished("a") == 1
    await scene.check()


async def test_a_job_trains_on_as_soon_as_its_move_is_given_up(scene: Scene) -> None:
    """A process that waits after its checkpoint is released, long before its hold is over."""
    await scene.begin("--steps", "100", "--step-s", "1")
    scene.migrator.cluster.hook("stop", When.BEFORE, *[refuse] * LIMITS.tries)
    await scene.move()
    end = await scene.conclusion()
    step = scene.training.step or 0
    began = scene.rig.clock.monotonic()
    await until(lambda: (scene.training.step or 0) >= step + 2)

    assert isinstance(end, c.MigrationFailed)
    assert scene.rig.clock.monotonic() - began < LIMITS.hold_ms / 1000 / 2
    await scene.check()


async def test_a_new_migrator_releases_what_an_older_one_held(scene: Scene) -> None:
    """Also a migrator that did not ask for the checkpoint lets the process train on."""
    await scene.begin("--steps", "100", "--step-s", "1")
    meanwhile(scene, Step.STOP, When.BEFORE, scene.migrator.kill)
    await scene.move()
    await until(lambda: not scene.migrator._life.is_awake)
    scene.start_migrator().cluster.hook("stop", When.BEFORE, *[refuse] * LIMITS.tries)
    await scene.conclusion()
    step = scene.training.step or 0
    began = scene.rig.clock.monotonic()
    await until(lambda: (scene.training.step or 0) >= step + 2)

    assert scene.rig.clock.monotonic() - began < LIMITS.hold_ms / 1000 / 2


async def test_a_lookup_that_fails_settles_nothing(scene: Scene) -> None:
    """As long as it is not known whether a start took effect, it is tried again; then the move goes on."""
    await scene.begin("--steps", "100", "--step-s", "1")

    async def lose_both_answers() -> None:
        scene.migrator.cluster.hook("lookup", When.BEFORE, uncertain)
        await uncertain()

    scene.migrator.cluster.hook("start", When.AFTER, lose_both_answers)
    await scene.move()
    end = await scene.conclusion()
    failed = [event for event in await scene.rig.of_type(c.StepFailed) if event.step is Step.START]

    assert isinstance(end, c.MigrationFinished)
    assert [event.definite for event in failed] == [False]
    await scene.end()
    await scene.check()


# --- tidying up -------------------------------------------------------------------------------------------------------


async def test_a_job_that_is_over_is_forgotten_in_time(scene: Scene) -> None:
    """The cluster keeps ended jobs for a while, for late readers, and then removes them."""
    await scene.begin()
    await scene.end()
    await scene.rig.clock.sleep(FORGET_AFTER_MS / 2000)
    assert scene.rig.nodes.jobs

    await until(lambda: not scene.rig.nodes.jobs, within_s=FORGET_AFTER_MS / 1000)


async def test_what_ended_unseen_is_forgotten_too(scene: Scene) -> None:
    """A job that ended while no migrator was there is forgotten by the next one."""
    await scene.begin()
    scene.migrator.kill()
    await scene.end()
    scene.start_migrator()

    await until(lambda: not scene.rig.nodes.jobs, within_s=2 * FORGET_AFTER_MS / 1000)


@pytest.mark.parametrize("fault", [refuse, hang, stumble])
async def test_tidying_up_ends_nothing(scene: Scene, fault: Hook) -> None:
    """A cluster that cannot forget, or does not answer, leaves the migrator at work."""
    await scene.begin()
    scene.migrator.cluster.hook("forget", When.BEFORE, fault)
    await scene.end()
    await scene.rig.clock.sleep(3 * FORGET_AFTER_MS / 1000)
    await scene.rig.submit("b", "--steps", "3", "--step-s", "1")
    await until(lambda: "b" in scene.others.view.jobs and scene.others.view.jobs["b"].phase is Phase.ENDED)

    assert scene.rig.nodes.finished("b") == 1


async def test_many_moves_go_side_by_side(scene: Scene) -> None:
    """A step that takes long holds up no other plan."""
    await scene.begin("--steps", "100", "--step-s", "1")
    for job in ("b", "c"):
        await scene.rig.submit(job, "--steps", "100", "--step-s", "1", node="n2", cpu_m=50)
    jobs = scene.others.view.jobs
    await until(lambda: all(job in jobs and jobs[job].alive and jobs[job].declared_mode for job in ("b", "c")))
    scene.migrator.cluster.hook("checkpoint", When.BEFORE, lambda: asyncio.sleep(4))
    await scene.move()
    await scene.rig.migrate("b", "n2", "n1", plan="move-2")
    await until(lambda: jobs["b"].moves == 1)

    assert jobs["a"].moves == 0
    assert scene.rig.nodes.newest(ReplicaId("b")) in scene.rig.nodes.on("n1")
    await until(lambda: jobs["a"].moves == 1)
    await scene.check()
