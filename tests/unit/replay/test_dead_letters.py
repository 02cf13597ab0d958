"""Dead letters in a recording: what live readers passed over, the replay passes over as well."""

from __future__ import annotations

import pytest
from tests.harness.memory_log import MemoryLog

from steepest.events.cluster import JobSpec, JobSubmitted, LogOpened
from steepest.events.dead_letter import DeadLetter
from steepest.events.registry import encode
from steepest.replay.replay import Replay
from steepest.runtime.decode import new_record
from steepest.runtime.layout import DEAD_LETTERS, Layout

LAYOUT = Layout(pools=("default",))
SUBMITTED = JobSubmitted(job="a", request="r", spec=JobSpec(command=("train",)))


@pytest.mark.parametrize(("value", "is_known"), [(b"a record that was lost", True), (encode(SUBMITTED), False)])
async def test_a_letter_is_about_the_record_with_its_bytes(*, value: bytes, is_known: bool) -> None:
    """After a loss of the newest records, another one has the offset of what could not be read."""
    log, at = MemoryLog(LAYOUT.partitions()), LAYOUT.of_pool("default")
    letter = DeadLetter(topic=at.topic, partition=at.partition, offset=1, reason="it is no JSON", value=value)
    await log.append(
        [
            new_record(at, "default", LogOpened(epoch="e"), 0),
            new_record(at, "default", SUBMITTED, 0),
            new_record(DEAD_LETTERS, at.topic, letter, 0),
        ]
    )
    replay = Replay(log)
    await replay.run()
    await log.close()

    assert [job.name for job in replay.views[at].jobs] == (["a"] if is_known else [])
