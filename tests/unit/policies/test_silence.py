"""Nodes that are silent for too long, in counted time."""

from __future__ import annotations

from tests.harness.scenarios.folded_pool import used
from tests.harness.scenarios.scenario import check, spell
from tests.harness.system.driver import DeciderDriver

from steepest.policies.monitor.silence import Silence


def test_a_node_is_lost_after_fifteen_silent_seconds() -> None:
    """And is back with the next word of it, to be lost again in its time."""
    check(
        """
        node w1 1000
        tick 14999          ->
        use w1 10           ->
        tick 14999          ->
        tick 1              -> lost w1
        tick 60000          ->
        use w1 10           ->
        tick 15000          -> lost w1
        """,
        Silence(),
    )


def test_other_limits_other_losses() -> None:
    """The pool's parameters say how long is too long."""
    check(
        """
        set node_lost_ms=3000
        node w1 1000
        tick 2999           ->
        tick 1              -> lost w1
        """,
        Silence(),
    )


def test_nodes_are_lost_one_a_tick_and_the_longest_silent_first() -> None:
    """The nodes of a rack that falls silent are reported one by one."""
    check(
        """
        node w1 1000
        node w2 1000
        node w3 1000
        use w1 10
        tick 15000          -> lost w2
        tick 1000           -> lost w3
        tick 1000           -> lost w1
        tick 1000           ->
        """,
        Silence(),
    )


def test_only_ticks_make_nodes_silent() -> None:
    """An outage in which nothing is counted expires nothing."""
    driver = DeciderDriver(Silence(), w1=1_000)
    driver.now_ms += 3_600_000
    driver.feed(used("w1", 10))
    assert driver.decided == []


def test_a_loss_is_told_once_until_it_is_read_back() -> None:
    """However many ticks come before it stands in the log."""
    driver = DeciderDriver(Silence(), delay=3, w1=1_000)
    for _ in range(4):
        driver.tick(15_000)
    assert [spell(event) for event in driver.decided] == ["lost w1"]
    driver.deliver(everything=True)
    assert driver.node("w1").lost


def test_a_loss_that_does_not_count_is_forgotten_all_the_same() -> None:
    """The node is lost by another's word already; later it may be lost again."""
    driver = DeciderDriver(Silence(), delay=2, w1=1_000)
    driver.tick(15_000)
    driver.view.nodes.lose(driver.node("w1"))
    driver.deliver(everything=True)
    driver.feed(used("w1", 10))
    driver.tick(15_000)
    driver.deliver(everything=True)
    assert [spell(event) for event in driver.decided] == ["lost w1", "lost w1"]
