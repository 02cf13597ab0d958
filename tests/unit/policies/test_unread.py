"""What a decider waits to read back, and what it is to reconsider once the log holds something of its stream."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.policies.unread import AwaitsDecisions, Unread


def lost(node: str) -> c.NodeLost:
    """A decision, whichever."""
    return c.NodeLost(node=node, silent_ms=1)


def awaiting(*nodes: str) -> AwaitsDecisions:
    """A decider that has decided so about records 1, 2, 3 and so on."""
    return AwaitsDecisions(unread=[Unread((number, 0), lost(node)) for number, node in enumerate(nodes, 1)])


def test_its_own_decision_is_read_back_and_nothing_is_reconsidered() -> None:
    """Where one logic decides, each decision comes back as it was made, in order."""
    state = awaiting("a", "b")
    assert state.read_own((1, 0), lost("a")) == []
    assert state.read_own((2, 0), lost("b")) == []
    assert state.unread == []


def test_what_is_overtaken_is_reconsidered() -> None:
    """Ids rise in the log: what is behind one that stands there will never count. What is beyond it may still come."""
    state = awaiting("a", "b", "c")
    assert state.read_own((2, 0), lost("b")) == [lost("a")]
    assert state.unread == awaiting("a", "b", "c").unread[2:]


def test_another_decision_under_its_id_makes_both_be_reconsidered() -> None:
    """Its own will never count, and what counts it has not decided."""
    state = awaiting("a", "b")
    assert state.read_own((1, 0), lost("x")) == [lost("a"), lost("x")]
    assert state.read_own((1, 1), lost("y")) == [lost("y")]
    assert state.unread == awaiting("a", "b").unread[1:]
