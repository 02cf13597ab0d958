"""Retention during a chaos run: topics lose recorded records that all readers have passed.

It owns the removal. It must never remove a record that no snapshot covers.
"""

from __future__ import annotations

import asyncio

from tests.chaos.system import KafkaSystem

from steepest.app.installation import open_snapshots
from steepest.app.settings.reading import read_settings
from steepest.log.base import Log, NewRecord
from steepest.log.files.file_log import FileLog
from steepest.log.kafka.kafka_snapshots import SeenSnapshots
from steepest.log.kafka.kafka_topics import KafkaTopics
from steepest.policies.deciders import STREAM_DECIDERS
from steepest.replay.record import record
from steepest.runtime.layout import DEAD_LETTERS, Layout
from steepest.runtime.outbox import patiently
from steepest.runtime.recovery.loop_snapshots import read_stream_snapshot

UNREADABLE = b"{"
"""It becomes a dead letter, so that there are some to be removed."""


class Retention:
    """Removes the heads of topics.

    Attributes:
        removed: By partition, the records that were removed.
    """

    def __init__(self, system: KafkaSystem, log: Log, layout: Layout, recording: FileLog) -> None:
        self.removed: dict[str, int] = {}
        self._system = system
        self._log = log
        self._layout = layout
        self._recording = recording

    async def work(self) -> None:
        """Record everything, and then remove the records that every reader has passed."""
        async for attempt in patiently():  # the broker may have come back just now
            with attempt:
                await self._work()

    async def _work(self) -> None:
        partitions = self._layout.of_topic("loss")
        await self._log.append([NewRecord(to=at, key="", value=UNREADABLE, at_ms=0) for at in partitions])
        async for _ in record(self._log, self._recording):
            pass
        # The last recorded record stays: it identifies the log when the recording continues.
        before = {DEAD_LETTERS: await self._recording.end(DEAD_LETTERS) - 1}
        seen = SeenSnapshots()
        for kind in STREAM_DECIDERS.values():
            store = open_snapshots(read_settings({"state_dir": self._system.folder.root}), self._log, kind.name, seen)
            for at in self._layout.of_topic(kind.topic):
                snapshot = await read_stream_snapshot(store, self._log, kind.name, at)
                if snapshot is not None:
                    before[at] = min(snapshot.position, await self._recording.end(at) - 1)
        await KafkaTopics(self._system.kafka, self._layout.partitions()).trim(before)
        done = await asyncio.to_thread(self._system.plain, "topics", "trim", "--keep", "1ms")
        assert done.returncode == 0, done.stderr
        for at in (*before, *self._layout.of_topic("cluster")):
            self.removed[str(at)] = await self._log.begin(at)
