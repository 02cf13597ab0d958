"""What is remembered of a job does not grow with its length."""

from __future__ import annotations

import random

import msgspec

from steepest.policies.watch.loss_course import LossWatch
from steepest.policies.watch.pace import GangPace, Pace
from steepest.policies.watch.rhythm import JobRhythm

MOST_BYTES = 20_000


def remembered(steps: int) -> int:
    """Bytes in a snapshot of what is known of a job after so many steps, with gaps and losses of every size."""
    rng = random.Random(steps)
    course, gang = LossWatch(), GangPace()
    rhythm = JobRhythm(incarnation=1, at_ms=0, busy_ms=0)
    pace = Pace(node="n1")
    now_ms = 0
    for step in range(steps):
        course.add(float(step), rng.choice([1.0, -1.0]) * 10 ** rng.uniform(-300, 280), None)
        now_ms += int(10 ** rng.uniform(0, 7))
        rhythm.use(900, None, now_ms, now_ms)
        rhythm.hear(step, (None, None))
        pace.add(10 ** rng.uniform(-6, 6), f"n{rng.randrange(3)}", {"a": pace})
        for replica in range(8):
            gang.hear(replica, step, step * 100 + replica)
        gang.compare(dict.fromkeys(range(8), 1.0), dict.fromkeys(range(8), 0))
    return sum(len(msgspec.json.encode(one)) for one in (course, rhythm, pace, gang))


def test_a_job_takes_twenty_kilobytes_at_most_however_long_it_is() -> None:
    """Also a hostile one, whose gaps and losses are of every size."""
    assert max(remembered(steps) for steps in (200, 1_000, 5_000)) <= MOST_BYTES
