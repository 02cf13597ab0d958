"""The resizer sets planned limits under any engine's answers and crashes, and the log holds the answers."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from tests.harness.scenarios.move_scene import Scene
from tests.harness.system.fake_cluster import Gate, When, hang, refuse, stumble, uncertain
from tests.harness.system.rig import RigProcess
from tests.harness.waiting import until

from steepest.cluster.port import ReplicaId
from steepest.errors import RefusedError
from steepest.events import cluster as c
from steepest.sagas.resizer import LIMIT_S
from steepest.view.progress_state import Limit
from steepest.view.state import Phase

BECAUSE = c.LimitsBecause(rule="a test says so")


@pytest.fixture
async def resizer(scene: Scene) -> RigProcess:
    """A resizer, beside a job that trains on ``n1``."""
    await scene.begin()
    await scene.rig.append(c.PoolConfigured(parameters=scene.others.view.parameters))
    return scene.rig.start("resizer")


async def plan(scene: Scene, cpu_m: int | None, name: str = "limits-1", incarnation: int = 1, node: str = "n1") -> None:
    """Plan a limit, as the limit-planner does."""
    limit = c.JobLimit("a", incarnation, c.GrowthList.COMPLETING, cpu_m)
    await scene.rig.append(c.LimitsPlanned(plan=name, node=node, limits=(limit,), because=BECAUSE))


def limit_of(scene: Scene) -> Limit:
    """What the log holds."""
    limit = scene.job.limit
    assert limit is not None
    return limit


async def in_force(scene: Scene, cpu_m: int | None, plan_name: str = "limits-1") -> None:
    """Wait until the log says that this plan's limit is in force."""

    def is_so() -> bool:
        limit = scene.job.limit
        return limit is not None and (limit.plan, limit.answered, limit.in_force_m) == (plan_name, True, cpu_m)

    await until(is_so, f"{cpu_m} to be in force", within_s=120)


async def test_a_planned_limit_is_set_and_told(scene: Scene, resizer: RigProcess) -> None:
    """The engine has it, and the log says so once, with plan, node and incarnation."""
    assert resizer.view is not None
    await plan(scene, 70)
    await in_force(scene, 70)
    await plan(scene, None, "limits-2")
    await in_force(scene, None, "limits-2")

    assert scene.training.limit_m is None
    assert await scene.rig.of_type(c.LimitsApplied) == [
        c.LimitsApplied(plan="limits-1", node="n1", job="a", incarnation=1, cpu_m=70),
        c.LimitsApplied(plan="limits-2", node="n1", job="a", incarnation=1),
    ]


async def test_the_same_limit_again_is_not_set_again(scene: Scene, resizer: RigProcess) -> None:
    """A plan that only moves a job between lists changes the list, and asks the engine for nothing."""
    await plan(scene, 70)
    await in_force(scene, 70)
    await plan(scene, 70, "limits-2")
    await until(lambda: resizer.view.position == scene.others.view.position)
    await scene.rig.clock.sleep(5)

    assert (limit_of(scene).plan, limit_of(scene).in_force_m) == ("limits-1", 70)
    assert len(await scene.rig.of_type(c.LimitsApplied)) == 1


@pytest.mark.parametrize("trouble", [uncertain, hang, stumble])
@pytest.mark.parametrize("when", When)
async def test_what_nobody_knows_is_asked_for_again(
    scene: Scene, resizer: RigProcess, trouble: object, when: When
) -> None:
    """An answer of unknown effect is reported as such, and the limit is set again until it is surely in force."""
    resizer.cluster.hook("limit", when, trouble, trouble)  # type: ignore[arg-type]
    await plan(scene, 70)
    await in_force(scene, 70)
    refusals = await scene.rig.of_type(c.LimitsRefused)

    assert scene.training.limit_m == 70
    assert [event.definite for event in refusals] == [False, False]
    assert limit_of(scene).refused == ""


async def test_what_hangs_is_given_up_in_time(scene: Scene, resizer: RigProcess) -> None:
    """The resizer waits for an engine for LIMIT_S at most."""
    resizer.cluster.hook("limit", When.BEFORE, hang)
    await plan(scene, 70)
    await until(lambda: scene.job.limit is not None and bool(limit_of(scene).unclear), within_s=LIMIT_S + 5)

    assert limit_of(scene).refused.startswith("timeout: ")


async def test_a_definite_refusal_is_reported_and_left_to_the_planner(scene: Scene, resizer: RigProcess) -> None:
    """A definite refusal is not retried; the same limit in a new plan is."""
    resizer.cluster.hook("limit", When.BEFORE, refuse)
    await plan(scene, 70)
    await until(lambda: scene.job.limit is not None and limit_of(scene).answered)
    await scene.rig.clock.sleep(15)

    assert (limit_of(scene).in_force_m, limit_of(scene).refused) == (None, "refused: a test refuses it")
    assert scene.training.limit_m is None
    await plan(scene, 70, "limits-2")
    await in_force(scene, 70, "limits-2")


async def test_a_resizer_that_starts_sets_every_limit_again(scene: Scene, resizer: RigProcess) -> None:
    """It sets limits planned while no resizer ran, and limits that an engine has lost; an outcome is not written twice."""
    await plan(scene, 70)
    await in_force(scene, 70)
    resizer.kill()
    scene.training.limit_m = None  # its node was restarted, say
    scene.rig.start("resizer")
    await until(lambda: scene.training.limit_m == 70)
    await scene.rig.clock.sleep(5)

    assert len(await scene.rig.of_type(c.LimitsApplied)) == 1


async def test_a_resizer_killed_in_the_act_loses_nothing(scene: Scene, resizer: RigProcess) -> None:
    """It set the limit and died before its report: the next resizer sets it again, and reports it."""

    async def die() -> None:
        resizer.kill()
        await hang()

    resizer.cluster.hook("limit", When.AFTER, die)
    await plan(scene, 70)
    await until(lambda: scene.training.limit_m == 70)
    scene.rig.start("resizer")
    await in_force(scene, 70)


async def test_a_resizer_that_was_held_up_is_overruled(scene: Scene, resizer: RigProcess) -> None:
    """One that sets an older limit after a newer one says so, and the newer one is set again."""
    gate = Gate()
    resizer.cluster.hook("limit", When.BEFORE, gate)
    await plan(scene, 70)
    await gate.reached.wait()
    scene.rig.start("resizer")
    await plan(scene, 90, "limits-2")
    await in_force(scene, 90, "limits-2")
    gate.open()
    await scene.rig.clock.sleep(5)

    assert scene.training.limit_m == 90
    assert limit_of(scene).in_force_m == 90


async def test_limits_end_with_their_process(scene: Scene, resizer: RigProcess) -> None:
    """A job that was moved has no limit where it goes on, and an older incarnation's plan is void."""
    await plan(scene, 70)
    await in_force(scene, 70)
    await scene.move()
    await scene.conclusion()
    await plan(scene, 80, "limits-2")

    assert scene.job.node == "n2"
    assert scene.job.limit is None
    assert scene.training.limit_m is None
    await plan(scene, 60, "limits-3", incarnation=2, node="n2")
    await in_force(scene, 60, "limits-3")
    assert resizer.view.snapshot() == (await scene.rig.view()).snapshot()
    await scene.end()
    await scene.check()


async def test_a_limit_of_a_job_that_ends_meanwhile_harms_nobody(scene: Scene, resizer: RigProcess) -> None:
    """The engine says that it does not run; the job ends as it would have, and nobody is warned."""

    async def end() -> None:
        scene.training.exit(0)

    resizer.cluster.hook("limit", When.BEFORE, end)
    with capture_logs() as entries:
        await plan(scene, 70)
        await until(lambda: scene.job.phase is Phase.ENDED)
    assert entries == []
    with pytest.raises(RefusedError):
        await resizer.cluster.limit(ReplicaId("a"), 1, 70)

    assert scene.job.limit is None
    await scene.check()
