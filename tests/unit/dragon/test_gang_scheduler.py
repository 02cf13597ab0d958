"""DRAGON's rules and quirks: a cluster is drawn, and a pass plans what stands beside it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver
from tests.unit.dragon.drawing import drawn, planned, spell

from steepest.events import cluster as c
from steepest.events.common import (
    LabelOperator,
    LabelRequirement,
    NodeRule,
    Resources,
    Taint,
    Toleration,
    TolerationOperator,
)
from steepest.events.parameters import PoolParameters
from steepest.policies.dragon.gang_scheduler import LOOKED_AT, GangScheduler
from steepest.policies.named import under

ALL = ("dragon", "dragon-paper-era", "dragon-fixed")

PLACEMENT = [
    ("one node that holds all", "w1: . .\n w2: . . . .\n ? b 2-4", ["place b w2 w2 w2 w2"]),
    ("the server is with its workers", "w1: . .\n w2: . . .\n ? b 2 ps", ["place b w2 w2 w2"]),
    ("none of it where not even the fewest fit", "w1: . .\n w2: . .\n ? b 5", []),
    ("a job that does not fit is passed over", "w1: . .\n ? b 3 for 9\n ? d 2 for 8\n w2: x y", ["place d w1 w1"]),
    ("what no node could hold is rejected", "w1: . .\n ? b 3 for 9", ["reject b"]),
    ("first come, first served", "w1: . .\n ? b 2 for 9\n ? d 2 for 8", ["place b w1 w1"]),
]


def test_a_job_that_is_over_is_forgotten_however_it_ends() -> None:
    """How often scaling it has failed; another request of its name changes nothing while it is there."""
    scheduler = GangScheduler()
    pool = DeciderDriver(scheduler, w1=1_000)
    pool.feed(submitted("a"), submitted("b"))
    scheduler.state.failed = {"a": 1, "b": 1}
    for job, request in (("a", pool.job("a").request), ("b", "another")):
        pool.fold(c.JobRejected(job=job, request=request, reason="too large"))

    assert scheduler.state.failed == {"b": 1}


@pytest.mark.parametrize("policy", ALL)
@pytest.mark.parametrize(("drawing", "plans"), [row[1:] for row in PLACEMENT], ids=[row[0] for row in PLACEMENT])
def test_where_gangs_start(policy: str, drawing: str, plans: list[str]) -> None:
    """All variants start gangs whole, in the queue's order."""
    assert planned(drawing, policy) == plans


BY_VARIANT: list[tuple[str, str, dict[str, list[str]]]] = [
    (
        "several nodes, beginning with the one that holds most; the server first",
        "w1: . \n w2: . . .\n w3: . .\n ? b 4 ps",
        {"dragon": ["place b w2 w2 w2 w1 w3"], "dragon-fixed": ["place b w2 w2 w2 w3 w3"]},
    ),
    (
        "between the fewest and the number named: as many as there is room for; the paper's era knows the ends only",
        "w1: . . .\n ? b 2-4",
        {"dragon": ["place b w1 w1 w1"], "dragon-fixed": ["place b w1 w1 w1"], "dragon-paper-era": ["place b w1 w1"]},
    ),
    (
        "the first node by name that holds all, or the emptiest",
        "w1: . .\n w2: . . .\n ? b 2",
        {"dragon": ["place b w1 w1"], "dragon-fixed": ["place b w2 w2"]},
    ),
    (
        "one start a pass, or as many as fit",
        "w1: . . . .\n ? b 2 for 9\n ? d 2 for 8",
        {"dragon": ["place b w1 w1"], "dragon-fixed": ["place b w1 w1", "place d w1 w1"]},
    ),
    (
        "a starving job lets others give up workers, and has what they leave promised to it, or not",
        "w1: a a a a\n ? b 2 for 31",
        {"dragon": ["scale a w1 w1 for b"], "dragon-fixed": ["scale a w1 w1 for b", "place b w1 w1 later"]},
    ),
    (
        "one that has not waited for long does not",
        "w1: a a a a\n ? b 2 for 20",
        {"dragon": [], "dragon-fixed": [], "dragon-paper-era": []},
    ),
    (
        "the paper's era waits for two minutes, and takes the smallest",
        "w1: a a a a\n ? b 3 for 140\n ? d 2 for 130",
        {"dragon-paper-era": ["scale a w1 w1 for d"]},
    ),
    (
        "in the paper's era workers leave only where more could leave than are needed",
        "w1: a a a a\n ? b 3 for 140",
        {"dragon-paper-era": [], "dragon": ["scale a w1 for b"]},
    ),
    (
        "lonely replicas leave first, those beside the server last",
        "w1: A a a . \n w2: a a x\n w3: a x x\n x 3-3\n ? b 2 for 31",
        {
            "dragon": ["scale a w1 w1 w1 w2 w2 for b"],
            "dragon-fixed": ["scale a w1 w1 w1 w2 w2 for b", "place b w1 w3 later"],
        },
    ),
    (
        "never below the fewest, never a server",
        "w1: A a a\n a 2-2\n ? b 1 for 31",
        {"dragon": [], "dragon-fixed": []},
    ),
    (
        "those that started first give first, and no more than needed",
        "w1: a a b b\n ? d 1 for 31",
        {"dragon": ["scale a w1 for d"], "dragon-fixed": ["scale a w1 for d", "place d w1 later"]},
    ),
    (
        "nothing leaves where it does not help",
        "w1: a a b b\n ? d 3 for 31",
        {"dragon": [], "dragon-fixed": []},
    ),
    (
        "a gang that cannot be checkpointed is left alone",
        "w1: a a b b\n a 1-2 fixed\n ? d 1 for 31",
        {"dragon": ["scale b w1 for d"], "dragon-fixed": ["scale b w1 for d", "place d w1 later"]},
    ),
    (
        "quirk: while the first job starves, no other starts",
        "w1: a a . \n a 2-2\n ? b 3 for 40\n ? d 1 for 5",
        {"dragon": [], "dragon-fixed": ["place d w1"], "dragon-paper-era": ["place d w1"]},
    ),
    (
        "quirk: behind a first job that cannot be helped, another one that starves is not helped",
        "w1: a a a\n a 1-3\n ? b 3 for 50\n ? d 2 for 40",
        {"dragon": [], "dragon-fixed": ["scale a w1 for d", "place d w1 w1 later"]},
    ),
    (
        "quirk: the server is ignored when room is judged, so that too little is freed",
        "w1: a a a .\n ? b 2 ps for 31",
        {"dragon": ["scale a w1 w1 for b"], "dragon-fixed": ["scale a w1 for b", "place b w1 w1 w1 later"]},
    ),
]


@pytest.mark.parametrize(
    ("drawing", "policy", "plans"),
    [(drawing, policy, plans) for _, drawing, variants in BY_VARIANT for policy, plans in variants.items()],
    ids=[f"{policy}: {name}" for name, _, variants in BY_VARIANT for policy in variants],
)
def test_where_the_variants_differ(drawing: str, policy: str, plans: list[str]) -> None:
    """Each quirk of the published programs is theirs alone."""
    assert planned(drawing, policy) == plans


GROWTH: list[tuple[str, str, dict[str, list[str]]]] = [
    (
        "idle room is used after a minute",
        "w1: a a . .\n a 1-4",
        {name: ["scale a w1 w1 w1 w1"] for name in ALL},
    ),
    ("up to the most", "w1: a a . .\n a 1-3", {name: ["scale a w1 w1 w1"] for name in ALL}),
    ("not above what is free", "w1: a a . x\n a 1-4\n x 1-1", {name: ["scale a w1 w1 w1"] for name in ALL}),
    (
        "the server's node first",
        "w1: a a a . \n w2: A a . .\n a 1-9",
        {
            "dragon": ["scale a w2 w1 w1 w1 w2 w2 w2 w1"],
            "dragon-fixed": ["scale a w2 w1 w1 w1 w2 w2 w2"],
            "dragon-paper-era": ["scale a w2 w1 w1 w1 w2 w2 w2"],
        },
    ),
    (
        "to other nodes, or not",
        "w1: a a\n w2: . .\n a 1-4",
        {"dragon": ["scale a w1 w1 w2 w2"], "dragon-fixed": [], "dragon-paper-era": []},
    ),
    (
        "one gang after another, or one worker each",
        "w1: a b . .\n a 1-3\n b 1-3",
        {
            "dragon": ["scale a w1 w1 w1"],
            "dragon-fixed": ["scale a w1 w1 w1"],
            "dragon-paper-era": ["scale a w1 w1", "scale b w1 w1"],
        },
    ),
    (
        "quirk: while a job starves, nothing grows",
        "w1: a a . \n a 2-3\n ? b 3 for 40",
        {"dragon": [], "dragon-fixed": ["scale a w1 w1 w1"]},
    ),
    (
        "nothing grows into what a waiting job could have",
        "w1: a a . . x\n a 1-4\n x 1-1\n ? b 3 for 9",
        {"dragon-fixed": []},
    ),
]


@pytest.mark.parametrize(
    ("drawing", "policy", "plans"),
    [(drawing, policy, plans) for _, drawing, variants in GROWTH for policy, plans in variants.items()],
    ids=[f"{policy}: {name}" for name, _, variants in GROWTH for policy in variants],
)
def test_how_gangs_grow(drawing: str, policy: str, plans: list[str]) -> None:
    """After 60 s without an action, and not before."""
    assert planned(drawing, policy, idle_s=60) == plans
    assert not [plan for plan in planned(drawing, policy, idle_s=50) if plan.endswith("w1 w1 w1 w1")]


ABLATION = [
    (
        "without locality each replica goes to the emptiest node",
        "w1: . .\n w2: . .\n ? b 2",
        {"locality": False},
        ["place b w1 w2"],
    ),
    ("without locality none starts below its fewest", "w1: .\n w2: .\n ? b 3", {"locality": False}, []),
    ("without scaling a starving job waits", "w1: a a a a\n ? b 2 for 31", {"scaling": False}, []),
]


@pytest.mark.parametrize(
    ("drawing", "switches", "plans"), [row[1:] for row in ABLATION], ids=[row[0] for row in ABLATION]
)
def test_the_ablations(drawing: str, switches: dict[str, Any], plans: list[str]) -> None:
    """A part of DRAGON can be left out."""
    assert planned(drawing, "dragon-fixed", **switches) == plans


SHEDDING = [
    ("surplus workers leave", "w1: A a a a\n a 1-3 loose\n ? b 2 for 31", "shed a w1 w1 for b"),
    ("lonely ones first", "w1: A a a a\n w2: a\n a 1-4 loose\n ? b 1 for 31", "shed a w1 w1 w1 w1 for b"),
    (
        "none but the workers of asynchronous trainings",
        "w1: A a a a\n a 1-3\n ? b 2 for 31",
        "scale a w1 w1 for b",
    ),
    ("the chief never does", "w1: a x\n w2: a a\n a 1-3 loose\n x 1-1\n ? b 1 for 31", "scale a w2 w2 for b"),
]


@pytest.mark.parametrize("policy", ["dragon", "dragon-fixed"])
@pytest.mark.parametrize(("drawing", "plan"), [row[1:] for row in SHEDDING], ids=[row[0] for row in SHEDDING])
def test_who_leaves_without_a_restart(policy: str, drawing: str, plan: str) -> None:
    """The same workers that would leave by a restart, where their role lets them."""
    plans = planned(drawing, policy)

    assert plans[0] == plan
    if policy == "dragon-fixed":
        assert plans[1].startswith("place b")
        assert plans[1].endswith("later")


def test_the_paper_s_era_lets_workers_leave_too() -> None:
    """Its program deletes the pods of a job that runs."""
    drawing = "w1: A a a a\n w2: B b b b\n a 1-3 loose\n b 1-3 loose\n ? d 2 for 130"

    assert planned(drawing, "dragon-paper-era") == ["shed a w1 w1 for d"]


def test_growth_is_always_a_restart() -> None:
    """There is no way for a worker to join a training that runs."""
    assert planned("w1: A a . .\n a 1-3 loose", "dragon", idle_s=60) == ["scale a w1 w1 w1 w1"]


def test_a_gang_that_shed_workers_is_scaled_again() -> None:
    """Those that have left are no reason to leave it alone: it grows when the room is free again."""
    driver = drawn("w1: A a a a\n a 1-3 loose\n ? b 2 for 31", "dragon-fixed")
    driver.ask(c.Tick(counted_ms=driver.view.counted_ms + 1_000))
    driver.deliver(everything=True)
    for job in ("a", "b"):
        driver.carry_out(job)
    assert driver.job("a").running_sizes == (1, 1)
    for replica in (0, 1):
        driver.fold(driver.stopped("b", 0, replica=replica))
    for _ in range(80):
        driver.tick()

    assert [spell(event) for event in driver.decided][-1] == "scale a w1 w1 w1 w1"


@pytest.mark.parametrize(
    ("taints", "plans"),
    [((), ["place b w1 w1 w1 w1"]), ((Taint(key="owner", effect="NoSchedule"),), ["scale a w2 w2 w2"])],
)
def test_room_on_a_tainted_node_helps_nobody(taints: tuple[Taint, ...], plans: list[str]) -> None:
    """A gang grows beside a waiting job that would have room nowhere but there; without the taint, the job starts there."""
    driver = drawn("w1: . . . . \n w2: a a . \n a 1-3 \n ? b 4 for 9", "dragon-fixed", idle_s=60)
    driver.feed(c.NodeJoined(node="w1", capacity=Resources(cpu_m=400), taints=taints))

    assert [spell(event) for event in driver.decided] == plans


ZONE_A = NodeRule(requires=(LabelRequirement(key="zone", operator=LabelOperator.IN, values=("a",)),))


def choosing(drawing: str, policy: str, zone_a: str, *asks: c.JobSubmitted) -> Any:
    """What is planned in a drawing for jobs that come and then wait for long, once these nodes are labelled."""
    driver = drawn(drawing, policy)
    for node in list(driver.view.nodes):
        zone = {"zone": "a"} if node.name in zone_a.split() else {}
        driver.feed(c.NodeJoined(node=node.name, capacity=node.capacity, labels=zone))
    driver.feed(*asks)
    for _ in range(130):
        driver.tick()
    return [spell(event) for event in driver.decided]


def asking(name: str, workers: int, rule: NodeRule | None = ZONE_A) -> c.JobSubmitted:
    """A gang that waits for so many workers, none fewer."""
    role = c.Role(name="worker", replicas=workers, requests=Resources(cpu_m=100))
    return submitted(name, roles=(role,), node_rule=rule)


CHOOSING = [
    (
        "it starts where it may run, though others hold more",
        "w1: . . . .\n w2: . . .\n w3: .",
        "w2 w3",
        4,
        ["place d w2 w2 w2 w3"],
    ),
    (
        "workers leave where it may run, not those of the gang that started first",
        "w1: a a a\n w2: b b b",
        "w2",
        2,
        ["scale b w2 for d", "place d w2 w2 later"],
    ),
    (
        "of a gang, those leave first that are there, though others are lonely",
        "w1: a \n w2: a a a",
        "w2",
        1,
        ["scale a w1 w2 w2 for d", "place d w2 later"],
    ),
    ("nothing leaves where it does not help", "w1: a a a\n w2: b", "w2", 2, []),
]


@pytest.mark.parametrize(
    ("drawing", "zone_a", "workers", "plans"), [row[1:] for row in CHOOSING], ids=[row[0] for row in CHOOSING]
)
def test_room_for_a_gang_that_says_which_nodes(drawing: str, zone_a: str, workers: int, plans: list[str]) -> None:
    """Only what is free there counts, and only workers that run there leave for it."""
    assert choosing(drawing, "dragon-fixed", zone_a, asking("d", workers)) == plans


def test_the_paper_s_era_counts_workers_where_a_gang_may_run() -> None:
    """More could leave than are needed, and as many leave as the gang lacks."""
    drawing = "w1: a a a a a\n w2: b b b b"

    assert choosing(drawing, "dragon-paper-era", "w2", asking("d", 2))[0] == "scale b w2 w2 for d"
    assert choosing(drawing, "dragon-paper-era", "w2", asking("d", 3)) == []


@pytest.mark.parametrize("policy", ALL)
def test_a_gang_that_no_node_takes_holds_up_nobody(policy: str) -> None:
    """It is the first that waits, and may wait without end; the next one is helped as if it were not there."""
    drawing = "w1: a a a a a"
    plain = asking("e", 2, rule=None)

    alone = choosing(drawing, policy, "", plain)
    assert alone[0] == "scale a w1 w1 w1 for e"
    assert choosing(drawing, policy, "", asking("d", 2), plain) == alone


def test_gangs_that_nothing_helps_keep_no_other_from_starving() -> None:
    """More of them than are looked at stand before it; they would have no room if all gangs were as small as they may be."""
    pool = DeciderDriver(GangScheduler(), w1=4_000)
    pool.fold(c.PoolConfigured(parameters=under("dragon-fixed", PoolParameters())))
    large = [submitted(f"large-{number}", replicas=4, cpu_m=901 + number) for number in range(LOOKED_AT + 20)]
    workers = (c.Role(name="worker", replicas=4, min=2, requests=Resources(cpu_m=1_000)),)
    pool.feed(submitted("a", roles=workers))
    pool.carry_out("a")
    pool.feed(*large, submitted("b", replicas=2, cpu_m=900))
    for _ in range(60):
        pool.tick(2_000)
    assert [one.room_for for one in pool.decided if isinstance(one, c.TransitionPlanned)] == ["b"]


def test_what_gangs_could_give_up_follows_the_nodes() -> None:
    """A gang that cannot be helped is, once a node of its zone joins with what is still missing."""
    driver = drawn("w1: a a \n w2: b b", "dragon-fixed")
    driver.feed(c.NodeJoined(node="w1", capacity=Resources(cpu_m=200), labels={"zone": "a"}), asking("d", 2))
    for _ in range(40):
        driver.tick()
    assert driver.decided == []
    driver.feed(c.NodeJoined(node="w3", capacity=Resources(cpu_m=100), labels={"zone": "a"}))

    assert [spell(event) for event in driver.decided] == ["scale a w1 for d", "place d w1 w3 later"]


def test_a_gang_does_not_grow_on_its_own_node_that_was_tainted_meanwhile() -> None:
    """What runs there goes on; what is added must be allowed there."""
    driver = drawn("w1: a a . \n w2: a . . \n a 1-9", "dragon", idle_s=60)
    driver.feed(c.NodeJoined(node="w2", capacity=Resources(cpu_m=300), taints=(Taint(key="gpu", effect="NoSchedule"),)))

    assert [spell(event) for event in driver.decided] == ["scale a w1 w1 w2 w1"]


def test_a_gang_grows_where_it_may_run() -> None:
    """Also onto a tainted node that it tolerates; one that says nothing does not."""
    driver = DeciderDriver(GangScheduler())
    taint = Taint(key="gpu", effect="NoSchedule")
    tolerant = NodeRule(
        tolerates=(Toleration(key="gpu", operator=TolerationOperator.EXISTS),), requires=ZONE_A.requires
    )
    parameters = under("dragon", PoolParameters())
    driver.feed(c.PoolConfigured(parameters=parameters))
    for node, cpu_m, zone, taints in (("w1", 200, "a", ()), ("w2", 200, "b", ()), ("w3", 100, "a", (taint,))):
        driver.feed(c.NodeJoined(node=node, capacity=Resources(cpu_m), labels={"zone": zone}, taints=taints))
    for name, rule, node in (("g", tolerant, "w1"), ("h", None, "w2")):
        role = c.Role(name="worker", replicas=1, min=1, max=9, requests=Resources(cpu_m=100))
        driver.feed(submitted(name, roles=(role,), first_node=node, node_rule=rule))
        driver.carry_out(name)
    for _ in range(80):
        driver.tick()

    grown = [spell(event) for event in driver.decided if isinstance(event, c.TransitionPlanned)]
    assert grown == ["scale g w1 w1 w3", "scale h w2 w2"]


def test_a_gang_that_ended_while_dragon_was_off_is_scaled_no_more() -> None:
    """Its end is a record that the gang-scheduler is not asked about then."""
    driver = drawn("w1: a a . .\n a 1-3", "dragon", idle_s=0)
    driver.tick()
    on = driver.view.parameters
    off = msgspec.structs.replace(on, dragon=msgspec.structs.replace(on.dragon, on=False))
    driver.feed(c.PoolConfigured(parameters=off))
    driver.feed(*(driver.stopped("a", 0, replica=replica) for replica in (0, 1)))
    driver.feed(c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=0))
    driver.feed(c.PoolConfigured(parameters=on))
    for _ in range(80):
        driver.tick()

    assert [spell(event) for event in driver.decided] == []
