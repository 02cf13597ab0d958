"""SpeCon Algorithm 4, case by case; the thesis's worked example number by number."""

from __future__ import annotations

import pytest
from tests.harness.scenarios.folded_pool import cancelled, category, requested, used
from tests.harness.scenarios.scenario import check
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.policies.specon.node_scorer import NODES_NAMED, NodeScorer

CC, WC, PC = c.Category.CONVERGED, c.Category.WATCHED, c.Category.PROGRESSING

THESIS = """
    node w1 1000
    node w2 1000
    node w3 1000
    node w4 1000
    run a1 w1 PC                # Worker-1: 2 + 2 + 2
    run a2 w1 PC
    run a3 w1 PC
    run b1 w2 PC                # Worker-2: 2 + 1.5
    run b2 w2 WC
    run c1 w3 PC                # Worker-3: 2 + 2
    run c2 w3 PC
    run d1 w4 PC                # Worker-4: 5 · 2 + 1, with Job-1 itself
    run d2 w4 PC
    run d3 w4 PC
    run d4 w4 PC
    run d5 w4 PC
    run job-1 w4 CC
    request job-1                           -> move job-1 w4->w2
"""

SCENARIOS = {
    "the thesis's example (§6.2.3): scores 6, 3.5, 4 and 11, and Job-1 goes to Worker-2": THESIS,
    "its own node is among those with the lowest score, own weight included, so it stays": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC               # w1: 5
        run d w2 PC
        run e w2 PC
        run f w2 CC                 # w2: 5
        request job                             -> stay job
    """,
    "it stays also where another node with the lowest score uses less, and has the first name": """
        node w1 1000
        node w2 1000
        run a w2 PC
        run b w2 PC
        run job w2 CC
        run d w1 PC
        run e w1 PC
        run f w1 CC
        use w2 900
        request job                             -> stay job
    """,
    "a score that is lower by half a point is enough to move": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC               # w1: 5
        run d w2 PC
        run e w2 WC
        run f w2 CC                 # w2: 4.5
        request job                             -> move job w1->w2
    """,
    "of nodes with the same lowest score the one that uses least gets the job": """
        node w1 1000
        node w2 1000
        node w3 1000
        node w4 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC
        use w2 300
        use w3 100
        use w4 200
        request job                             -> move job w1->w3
    """,
    "use is compared as a share of the node, and the name breaks the last tie": """
        node w1 1000
        node w2 1000
        node w3 4000
        node w4 4000
        run a w1 PC
        run b w1 PC
        run job w1 CC
        use w2 300                  # 30 %
        use w3 800                  # 20 %
        use w4 800
        request job                             -> move job w1->w3
    """,
    "a node without room is out of the question, however low its score": """
        node w1 1000
        node w2 100
        node w3 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC cpu=200
        run d w3 PC
        request job                             -> move job w1->w3
    """,
    "where no other node has room, the job stays": """
        node w1 1000
        node w2 100
        run a w1 PC
        run b w1 PC
        run job w1 CC cpu=200
        request job                             -> stay job
    """,
    "a lost node is out of the question": """
        node w1 1000
        node w2 1000
        node w3 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC
        run d w3 CC
        lost w2
        request job                             -> move job w1->w3
    """,
    "nothing is decided about a job whose own node is lost: no agent there would save and stop it": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC
        lost w1
        request job                             ->
        use w1 0
        request job                             -> move job w1->w2
    """,
    "the guard (Algorithm 3 line 15): with one growing job left nothing is decided, and it may ask again": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run job w1 CC
        request job                             ->
        run b w1 WC
        request job                             -> move job w1->w2
    """,
    "a job of which no growth was measured for four intervals is no growing one for the guard": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run mute w1
        run job w1 CC
        tick 119999
        request job                             -> move job w1->w2
    """,
    "… it would be moved for the sake of a job whose growth is unknown": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run mute w1
        run job w1 CC
        tick 119000
        grow a
        grow job
        tick 1000
        request job                             ->
        grow mute
        request job                             -> move job w1->w2
    """,
    "an unknown job counts in the score as a watched one: 2 + 1.5 + 1 on w1 is as good as w2's": """
        node w1 1000
        node w2 1000
        set guard=false
        run a w1 PC
        run mute w1
        run job w1 CC
        run b w2 PC
        run d w2 WC
        run e w2 CC
        tick 119000
        grow a
        grow job
        grow b
        grow d
        grow e
        tick 1000
        request job                             -> stay job
    """,
    "without the guard a job moves from a node where no job grows": """
        node w1 1000
        node w2 1000
        set guard=false
        run a w1 CC
        run job w1 CC
        request job                             -> move job w1->w2
    """,
    "a job is decided once: after a stay it is not asked about any more": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC
        run d w2 PC
        run e w2 PC
        run f w2 PC
        request job                             -> stay job
        exit f
        request job                             ->
    """,
    "a job is decided once: after a move it is not moved by Algorithm 4 again": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC
        request job                             -> move job w1->w2
        request job                             ->
        carry job
        run d w2 PC
        run e w2 PC
        run f w2 PC
        request job                             ->
    """,
    "a move that failed is undone, and the job may ask once more, but not without end": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC
        request job                             -> move job w1->w2
        fail job refused
        fail job refused
        carry job
        request job                             -> move job w1->w2
        fail job refused
        fail job refused
        carry job
        request job                             ->
    """,
    "a job that cannot be checkpointed stays for good": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC mode=none
        request job                             -> stay job
        request job                             ->
    """,
    "a job that saves when it is stopped is decided only once it has proven that it can": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC mode=on-stop
        request job                             ->
        save job 100
        request job                             -> move job w1->w2
    """,
    "without SpeCon's moves nothing is decided": """
        node w1 1000
        node w2 1000
        set moves=false
        run a w1 PC
        run b w1 PC
        run job w1 CC
        request job                             ->
    """,
    "nothing is decided about a job that waits, is cancelled or unknown": """
        node w1 1000
        node w2 1000
        run a w1 PC
        run b w1 PC
        run job w1 CC
        cancel job
        request job                             ->
        submit next
        request next                            ->
        request unknown                         ->
    """,
    "other weights, other moves": """
        node w1 1000
        node w2 1000
        set weight_cc=5
        run a w1 PC
        run b w1 PC
        run job w1 CC               # w1: 9
        run d w2 CC
        run e w2 CC                 # w2: 10
        request job                             -> stay job
        set weight_cc=1
        run job-2 w1 CC             # w1: 6, w2: 2
        request job-2                           -> move job-2 w1->w2
    """,
}


@pytest.mark.parametrize("text", SCENARIOS.values(), ids=SCENARIOS)
@pytest.mark.parametrize("delay", [0, 1])
def test_scenario(text: str, delay: int) -> None:
    """What each scenario says, also where a decision comes back only after the next record."""
    check(text, NodeScorer(), delay=delay)


def test_a_decision_tells_the_scores_that_it_was_made_from() -> None:
    """The thesis's scores 3.5, 4, 6 and 11 stand in the plan, best first."""
    driver = check(THESIS, NodeScorer())
    (plan,) = driver.decided
    assert isinstance(plan, c.MigrationPlanned)
    assert [(node.node, node.score, node.replicas) for node in plan.because.nodes] == [
        ("w2", 3.5, 2),
        ("w3", 4.0, 2),
        ("w1", 6.0, 3),
        ("w4", 11.0, 6),
    ]
    assert plan.because.growing == 5


def test_a_decision_names_why_a_better_node_was_passed_over() -> None:
    """A node with a lower score and no room is among the inputs, with its reason."""
    driver = DeciderDriver(NodeScorer(), w1=1_000, w2=50, w3=1_000)
    for name in ("a", "b"):
        driver.run(name, "w1")
    driver.run("job", "w1", CC)
    (plan,) = driver.ask(requested("job"))
    assert isinstance(plan, c.MigrationPlanned)
    assert {node.node: node.rejected for node in plan.because.nodes} == {
        "w1": "",
        "w2": "node w2 has not enough free: 50m CPU, and 100m CPU is asked for",
        "w3": "",
    }


def test_a_decision_lists_a_bounded_number_of_nodes_and_always_its_own() -> None:
    """In a large pool the best nodes are listed, and the job's own in its order."""
    driver = DeciderDriver(NodeScorer(), **{f"n{number:03}": 1_000 for number in range(100)})
    for name in ("a", "b"):
        driver.run(name, "n050")
    driver.run("job", "n050", CC)
    (plan,) = driver.ask(requested("job"))
    assert isinstance(plan, c.MigrationPlanned)
    assert len(plan.because.nodes) == NODES_NAMED
    assert plan.because.nodes[0].node == plan.target == "n000"
    assert plan.because.nodes[-1].node == "n050"


def test_two_requests_at_neighbouring_positions_do_not_take_the_same_hole() -> None:
    """While the first plan is under way the second request sees its place taken, and its load."""
    driver = DeciderDriver(NodeScorer(), delay=10, w1=1_000, w2=100, w3=1_000)
    for name in ("a", "b", "d"):
        driver.run(name, "w1")
    driver.run("one", "w1", CC)
    driver.run("two", "w1", CC)
    driver.run("e", "w3", PC)
    driver.run("f", "w3", PC)  # with one on its way to w2 its score is 1, and w3's 4
    made = driver.ask(requested("one"), requested("two"))
    assert [event.target for event in made if isinstance(event, c.MigrationPlanned)] == ["w2", "w3"]


def test_plans_under_way_count_in_the_scores() -> None:
    """A node to which a job is on its way weighs more already, so the next goes elsewhere; its old one weighs less."""
    driver = DeciderDriver(NodeScorer(), delay=10, w1=1_000, w2=1_000, w3=1_000)
    for name in ("a", "b", "d"):
        driver.run(name, "w1")
    for name in ("one", "two", "three"):
        driver.run(name, "w1", CC)
    driver.run("e", "w2", CC)
    driver.run("f", "w2", CC)  # w1: 9, w2: 2, w3: 0
    made = driver.ask(requested("one"), requested("two"), requested("three"))
    assert [event.target for event in made if isinstance(event, c.MigrationPlanned)] == ["w3", "w3", "w2"]


def test_a_job_that_has_ended_since_its_plan_is_not_taken_off_its_node_twice() -> None:
    """Nothing that a decision says of a node is less than nothing: it could not be read."""
    driver = DeciderDriver(NodeScorer(), delay=10, w1=1_000, w2=1_000, w3=1_000)
    for name, node in (("a", "w1"), ("b", "w1"), ("d", "w1"), ("e", "w2"), ("f", "w2"), ("g", "w2")):
        driver.run(name, node)
    driver.run("one", "w1", CC)
    driver.run("two", "w2", CC)
    (move,) = driver.ask(requested("one"))
    assert isinstance(move, c.MigrationPlanned)
    for name in ("one", "a", "b", "d"):
        driver.end(name)
    (decided,) = driver.ask(requested("two"))
    assert isinstance(decided, c.MigrationPlanned)
    assert {node.node: (node.replicas, node.score) for node in decided.because.nodes}["w1"] == (0, 0.0)


def test_plans_under_way_do_not_break_the_tie_by_use() -> None:
    """Among nodes whose scores are equal once a plan under way is counted, the one that uses least is still taken."""
    driver = DeciderDriver(NodeScorer(), delay=10, w1=1_000, w2=1_000, w3=1_000)
    for name in ("a", "b", "d"):
        driver.run(name, "w1")
    driver.run("one", "w1", CC)
    driver.run("two", "w1", CC)
    driver.run("e", "w3", CC)
    driver.feed(used("w2", 900), used("w3", 100))
    made = driver.ask(requested("one"), requested("two"))  # then w2 and w3 both weigh 1
    assert [event.target for event in made if isinstance(event, c.MigrationPlanned)] == ["w2", "w3"]


def test_a_plan_that_turns_out_void_is_forgotten_and_asked_again() -> None:
    """Another job takes the room before the plan is on the log; the next request gets a new answer."""
    driver = DeciderDriver(NodeScorer(), delay=4, w1=1_000, w2=100, w3=1_000)
    for name in ("a", "b"):
        driver.run(name, "w1")
    driver.run("job", "w1", CC)
    (plan,) = driver.ask(requested("job"))
    assert isinstance(plan, c.MigrationPlanned)
    driver.run("thief", "w2")
    driver.deliver(everything=True)
    void = driver.view.plan(plan.plan)
    assert void is not None
    assert void.reason == "node w2 has not enough free: 0m CPU, and 100m CPU is asked for"
    assert not driver.job("job").migrated
    (again,) = driver.ask(requested("job"))
    assert isinstance(again, c.MigrationPlanned)
    assert again.target == "w3"


def test_a_job_that_a_plan_is_under_way_for_is_not_asked_about_again() -> None:
    """A second request before the plan is read back yields nothing."""
    driver = DeciderDriver(NodeScorer(), delay=10, w1=1_000, w2=1_000)
    for name in ("a", "b"):
        driver.run(name, "w1")
    driver.run("job", "w1", CC)
    assert len(driver.ask(requested("job"))) == 1
    assert driver.ask(requested("job")) == []


def test_a_decided_job_keeps_its_category() -> None:
    """Algorithm 3 loops over jobs that are not migrated: after a stay the category does not change any more."""
    driver = DeciderDriver(NodeScorer(), w1=1_000, w2=1_000)
    for name in ("a", "b"):
        driver.run(name, "w1")
    driver.run("job", "w1", CC, mode=None)
    driver.ask(requested("job"))
    assert driver.job("job").migrated
    assert driver.fold(category("job", PC)) is False
    assert driver.counts() == {"w1": [2, 0, 1]}


def test_a_cancel_before_the_plan_is_read_back_wins() -> None:
    """The log's order settles who was first: the plan is void, and the job is stopped where it is."""
    driver = DeciderDriver(NodeScorer(), delay=3, w1=1_000, w2=1_000)
    for name in ("a", "b"):
        driver.run(name, "w1")
    driver.run("job", "w1", CC)
    driver.ask(requested("job"))
    driver.fold(cancelled("job"))
    driver.deliver(everything=True)
    assert driver.plan_of("job").kind == "cancel"
    assert driver.allocated() == {"w1": 300}
