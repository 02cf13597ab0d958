"""The ids of decisions: spelled one way, ordered within their stream, and never guessed from another text."""

from __future__ import annotations

import pytest

from steepest.events.received import DecisionId

ID = DecisionId(decider="placer", epoch="e1", topic="cluster", partition=0, offset=17, index=2)


def test_an_id_is_its_cause_and_number() -> None:
    """The id identifies the record that caused the decision."""
    assert str(ID) == "placer/e1/cluster/0/17/2"
    assert DecisionId.parse(str(ID)) == ID
    assert ID.stream == "placer/e1/cluster/0"
    assert ID.position == (17, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "placer",
        "placer/e1/cluster/0/17",
        "placer/e1/cluster/0/17/2/3",
        "placer/e1/cluster/0/-1/2",
        "placer/e1/cluster/zero/17/2",
        "placer/e1/cluster/0/1.5/2",
        "placer/e1/cluster/0/١٧/2",
        "placer/e1/cluster/0/17/2\n",
        pytest.param("placer/e1/cluster/0//2"),
        pytest.param(f"placer/e1/cluster/0/{'9' * 5000}/2"),
    ],
)
def test_another_text_is_no_id(text: str) -> None:
    """It may come from outside; it is not taken for a decision."""
    assert DecisionId.parse(text) is None
