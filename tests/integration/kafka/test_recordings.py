"""Recordings of a real run on Kafka: made again, shadowed by a candidate, and fed to another system."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from steepest.app.installation import apply_topics
from steepest.app.settings.rows import as_environment
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation, KafkaPlace, NodeSpec, StateFolder
from steepest.events.common import Resources
from steepest.events.registry import TOPICS
from steepest.log.base import Record, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.log.kafka.kafka_topics import KafkaTopics
from steepest.replay.record import as_new
from steepest.runtime.layout import Layout

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka"


def variables(kafka: KafkaSettings) -> dict[str, str]:
    """Environment variables that name the log."""
    return as_environment(Settings(kafka=kafka))


def steepest(*arguments: str, env: dict[str, str] | None = None) -> tuple[int, Any]:
    """A command's exit status and JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "steepest", *arguments],
        capture_output=True,
        check=False,
        env={**os.environ, **(env or {})},
    )
    assert done.stdout, done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder whose log is the golden recording."""
    folder = StateFolder(tmp_path)
    folder.create(Installation(nodes=(NodeSpec("a", Resources(400)),)))
    shutil.copytree(GOLDEN, folder.log)
    return tmp_path


def test_a_candidate_that_is_the_live_policy_never_differs(state: Path) -> None:
    """With the same parameters, every passage and request comes at the same time as it did live."""
    status, jobs = steepest("shadow", "--state", str(state), "--json")

    assert status == 0
    assert len(jobs) == 3
    assert all(job["live"] == job["candidate"] and job["live"]["requests"] for job in jobs)


def test_a_candidate_is_compared_job_by_job(state: Path) -> None:
    """A threshold that is never reached asks for no move; the report says so of each job, and changes nothing."""
    before = [path.stat().st_mtime_ns for path in sorted(state.rglob("*.jsonl"))]
    status, jobs = steepest("shadow", "--state", str(state), "--alpha", "1e-12", "--json")

    assert status == 1
    assert [job["differs"] for job in jobs] == [True] * 3
    assert all(job["candidate"]["requests"] < job["live"]["requests"] for job in jobs)
    assert [path.stat().st_mtime_ns for path in sorted(state.rglob("*.jsonl"))] == before


@pytest.mark.parametrize(
    ("arguments", "kinds"), [(["--policy", "spread"], {"limit", "move"}), (["--placement", "flowcon2"], {"place"})]
)
async def test_plans_are_shadowed_as_they_stand_on_the_broker(
    kafka: KafkaSettings, tmp_path: Path, arguments: list[str], kinds: set[str]
) -> None:
    """Where a candidate would have placed, moved and limited otherwise, job by job, over live topics; none is written."""
    folder = StateFolder(tmp_path)
    folder.create(Installation(nodes=(NodeSpec("a", Resources(400)),)))
    shutil.copytree(GOLDEN.parent / "limits", folder.log)
    status, in_files = steepest("shadow", "--state", str(tmp_path), *arguments, "--json")
    assert status == 1
    assert {plan["kind"] for job in in_files for plan in job["plans"]} == kinds

    await KafkaTopics(kafka, Layout().partitions()).apply()
    log, golden = KafkaLog(kafka, Layout().partitions()), FileLog.open(folder.log, read_only=True)
    for at in [at for topic in TOPICS for at in await golden.partitions(topic)]:
        await log.append([as_new(one) for one in await read(golden, at)])
    ends = await ends_of(log)
    folder.remember_kafka(KafkaPlace(kafka.bootstrap, kafka.prefix))
    shutil.rmtree(folder.log)

    assert steepest("shadow", "--state", str(tmp_path), *arguments, "--json") == (1, in_files)
    assert await ends_of(log) == ends
    await log.close()
    await golden.close()


async def test_a_recording_is_fed_to_another_system(kafka: KafkaSettings) -> None:
    """What came from outside arrives with its bytes, in the partition of its key; decisions are not fed."""
    await apply_topics(kafka, Layout())
    _, counts = steepest(
        "replay",
        str(GOLDEN),
        "--into",
        kafka.bootstrap,
        "--speed",
        "1000",
        "--json",
        env=variables(kafka),
    )

    log, golden = KafkaLog(kafka, Layout().partitions()), FileLog.open(GOLDEN, read_only=True)
    fed = {topic: await values(log, topic) for topic in TOPICS}
    recorded = {topic: await values(golden, topic) for topic in TOPICS}
    await log.close()
    await golden.close()
    assert counts["fed"] == sum(map(len, fed.values()))
    assert fed["loss"] == recorded["loss"]
    assert fed["heartbeats"] == recorded["heartbeats"]
    assert {json.loads(value)["type"] for _, value in fed["cluster"]} == {"PoolConfigured", "JobSubmitted"}


async def test_a_recording_is_made_again_from_the_beginning(kafka: KafkaSettings, state: Path) -> None:
    """All of the topics in the place of what the folder held; once the broker lacks the beginning, that stays."""
    await apply_topics(kafka, Layout())
    steepest(
        "replay",
        str(GOLDEN),
        "--into",
        kafka.bootstrap,
        "--speed",
        "1000",
        "--json",
        env=variables(kafka),
    )
    folder = StateFolder(state)
    folder.remember_kafka(KafkaPlace(kafka.bootstrap, kafka.prefix))
    shutil.copytree(GOLDEN, out := state / "recording")

    assert "is a recording of another log" in says(2, "record", "--state", str(state), "--out", str(out))
    message = says(0, "record", "--state", str(state), "--out", str(out), "--from-beginning")
    log, made = KafkaLog(kafka, Layout().partitions()), FileLog.open(out, read_only=True)
    everything = {topic: await values(log, topic) for topic in TOPICS}
    assert {topic: await values(made, topic) for topic in TOPICS} == everything
    assert message == f"{sum((await ends_of(log)).values())} records copied to {out}\n"
    await made.close()
    await log.close()

    admin = AIOKafkaAdminClient(**kafka.client())
    await admin.start()
    await admin.delete_records({KafkaPartition(f"{kafka.prefix}heartbeats", 0): RecordsToDelete(before_offset=1)})
    await admin.close()
    message = says(2, "record", "--state", str(state), "--out", str(out), "--from-beginning")
    assert "heartbeats/0 no longer has offset 0" in message
    again = FileLog.open(out, read_only=True)
    assert {topic: await values(again, topic) for topic in TOPICS} == everything
    await again.close()


def test_the_log_of_an_installation_is_no_recording(state: Path) -> None:
    """It is never replaced, not even by itself."""
    message = says(2, "record", "--state", str(state), "--out", str(StateFolder(state).log), "--from-beginning")
    assert "is the log of an installation" in message


def says(status: int, *arguments: str) -> str:
    """The output of a command that must exit with this status."""
    done = subprocess.run([sys.executable, "-m", "steepest", *arguments], capture_output=True, check=False)
    assert done.returncode == status, done.stderr.decode()
    return (done.stderr if status else done.stdout).decode()


async def ends_of(log: KafkaLog) -> dict[TopicPartition, int]:
    """How many records each partition has."""
    return {at: await log.end(at) for topic in TOPICS for at in await log.partitions(topic)}


async def read(log: KafkaLog | FileLog, at: TopicPartition) -> list[Record]:
    """All of a partition."""
    end, reader = await log.end(at), log.reader({at: 0})
    found: list[Record] = []
    while len(found) < end:
        found.extend(await reader.poll())
    await reader.close()
    return found


async def values(log: KafkaLog | FileLog, topic: str) -> list[tuple[str, bytes]]:
    """Keys and values of a topic without the partitions' identities, sorted by key, each key's in order."""
    found = [one for at in await log.partitions(topic) for one in (await read(log, at))[1:]]
    return [(one.key, one.value) for one in sorted(found, key=lambda one: one.key)]
