"""Several categorizers on one topic: members join, leave and are killed, and the decisions are those of a single one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.chaos.load import Load

from steepest.app.installation import apply_topics, open_log
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, KafkaPlace, NodeSpec, StateFolder
from steepest.events.common import Resources
from steepest.log.base import Log, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.replay.compare import Report
from steepest.replay.record import record
from steepest.replay.replay import Replay
from steepest.runtime.decision_stream import Found
from steepest.runtime.recovery.decision_scan import note

CLUSTER = TopicPartition("cluster")
PATIENCE_S = 60.0


class Categorizers:
    """Processes of one service on one installation."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start one more process."""
        env = {**os.environ, "STEEPEST_STATE_DIR": str(self._folder.root)}
        output = (self._folder.root / "categorizers.log").open("ab")
        self.running.append(
            subprocess.Popen([sys.executable, "-m", "steepest_categorizer"], env=env, stdout=output, stderr=output)
        )
        output.close()

    def send(self, number: int) -> None:
        """Send the oldest a signal, and wait until it is gone."""
        process = self.running.pop(0)
        process.send_signal(number)
        status = process.wait(PATIENCE_S)
        assert status == (0 if number == signal.SIGTERM else -number)


@pytest.fixture
def categorizers(tmp_path: Path, kafka: KafkaSettings) -> Iterator[Categorizers]:
    """A new installation without a categorizer."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1000)),)))
    folder.remember_kafka(KafkaPlace(kafka.bootstrap, kafka.prefix))
    found = Categorizers(folder)
    yield found
    for process in found.running:
        process.kill()
        process.wait()


@pytest.mark.slow
async def test_members_come_and_go_without_a_trace(
    categorizers: Categorizers, kafka: KafkaSettings, tmp_path: Path
) -> None:
    """Under load, members join, one leaves, one is killed: replayed, every decision is there once, byte for byte."""
    layout = Installation(nodes=()).layout
    await apply_topics(kafka, layout)
    folder = StateFolder(tmp_path / "state")
    log = open_log(read_settings({"state_dir": folder.root}), folder.read())
    stop = asyncio.Event()
    load = Load(log, layout, "default")
    loading = asyncio.create_task(load.run(stop))

    categorizers.start()
    await until_it_works(log)
    for act in (
        categorizers.start,
        categorizers.start,
        lambda: categorizers.send(signal.SIGKILL),
        categorizers.start,
        lambda: categorizers.send(signal.SIGTERM),
        lambda: categorizers.send(signal.SIGKILL),
    ):
        await asyncio.to_thread(act)
        await until_it_works(log)
    stop.set()
    await loading

    report = await until_all_is_decided(log, tmp_path / "recording", layout.partitions())
    await log.close()
    assert report.decisions > 100
    assert report.first_difference is None
    assert set(report.by_decider) == {"categorizer"}


async def until_it_works(log: Log) -> None:
    """Wait until something has been decided about every partition from now on."""
    position = await log.end(CLUSTER)
    found: Found = {}
    reader = log.reader({CLUSTER: position})
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < 4:
            for one in await reader.poll():
                note(found, one)
    await reader.close()


async def until_all_is_decided(log: Log, folder: Path, partitions: Mapping[str, int]) -> Report:
    """Record what is there until a replay decides nothing more than was recorded."""
    into = FileLog(folder, partitions)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async for _ in record(log, into):
                pass
            report = await Replay(into).run()
            if not report.not_yet_recorded:
                await into.close()
                return report
            await asyncio.sleep(0.5)
