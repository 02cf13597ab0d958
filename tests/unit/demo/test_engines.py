"""Where the demo's own engines run."""

from __future__ import annotations

from steepest_lab.demo.engines import cores_of
from steepest_lab.demo.workload import CAPACITIES_M


def test_engines_share_cores_on_which_each_has_all_of_its_cpu() -> None:
    """The largest ones apart."""
    assert cores_of(CAPACITIES_M, [2, 5]) == [2, 5, 5, 2]
    assert cores_of(CAPACITIES_M, range(8)) == [0, 1, 2, 3]


def test_an_engine_that_fits_no_core_is_not_pinned() -> None:
    """It is larger than a core, or the others have taken most of it."""
    assert cores_of([1200, 800, 800, 200], [0, 1]) == [None, 0, 1, 0]
    assert cores_of([600, 600], [3]) == [3, None]
