"""When a job had learned: exact as long as its intervals are few, and close to that however many there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steepest.pool_metrics.learning_course import POINTS, LearningCourse

MEANS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=POINTS)


def course_of(means: list[float]) -> LearningCourse:
    """A course with an interval a second."""
    course = LearningCourse()
    for second, mean in enumerate(means):
        course.add(1000 * second, mean)
    return course


@given(MEANS)
def test_it_is_the_first_interval_that_reaches_the_share(means: list[float]) -> None:
    """As the definition says, word by word."""
    reduction = means[0] - means[-1]
    reached = [second for second, mean in enumerate(means) if mean <= means[0] - 0.9 * reduction]

    assert course_of(means).done_ms() == (1000 * reached[0] if reduction > 0 else None)


@given(st.integers(POINTS, 3_000))
def test_a_long_course_is_thinned_and_stays_close(count: int) -> None:
    """A line reaches 90 % of its fall after 90 % of its time."""
    done_ms = course_of([1 - second / count for second in range(count)]).done_ms()

    assert done_ms is not None
    assert abs(done_ms / 1000 - 0.9 * count) <= 0.1 * count
