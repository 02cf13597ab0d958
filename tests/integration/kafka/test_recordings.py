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

from steepest.cli.topics import apply_topics
from steepest.events.common import Resources
from steepest.events.registry import TOPICS
from steepest.installation import KafkaPlace, remember_kafka
from steepest.log.base import Record
from steepest.log.file import FileLog
from steepest.log.kafka import KafkaLog
from steepest.log.kafka_settings import KafkaSettings, as_environment
from steepest.runtime.layout import Layout
from steepest.state_folder import Installation, NodeSpec, StateFolder

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka"


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


def test_a_candidate_is_told_apart_job_by_job(state: Path) -> None:
    """A threshold that is never reached asks for no move; the report says so of each job, and changes nothing."""
    before = [path.stat().st_mtime_ns for path in sorted(state.rglob("*.jsonl"))]
    status, jobs = steepest("shadow", "--state", str(state), "--alpha", "1e-12", "--json")

    assert status == 1
    assert [job["differs"] for job in jobs] == [True] * 3
    assert all(job["candidate"]["requests"] < job["live"]["requests"] for job in jobs)
    assert [path.stat().st_mtime_ns for path in sorted(state.rglob("*.jsonl"))] == before


async def test_a_recording_is_fed_to_another_system(kafka: KafkaSettings) -> None:
    """What came from outside arrives with its bytes, in the partition of its key; decisions are not fed."""
    await apply_topics(kafka, Layout())
    _, told = steepest(
        "replay", str(GOLDEN), "--into", kafka.bootstrap, "--speed", "1000", "--json", env=as_environment(kafka)
    )

    log, golden = KafkaLog(kafka, Layout().partitions()), FileLog.open(GOLDEN, read_only=True)
    fed = {topic: await values(log, topic) for topic in TOPICS}
    recorded = {topic: await values(golden, topic) for topic in TOPICS}
    await log.close()
    await golden.close()
    assert told["fed"] == sum(map(len, fed.values()))
    assert fed["loss"] == recorded["loss"]
    assert fed["heartbeats"] == recorded["heartbeats"]
    assert {json.loads(value)["type"] for _, value in fed["cluster"]} == {"PoolConfigured", "JobSubmitted"}


async def test_a_recording_is_made_again_from_the_beginning(kafka: KafkaSettings, state: Path) -> None:
    """All of the topics in the place of what the folder held; once the broker lacks the beginning, that stays."""
    await apply_topics(kafka, Layout())
    steepest("replay", str(GOLDEN), "--into", kafka.bootstrap, "--speed", "1000", "--json", env=as_environment(kafka))
    folder = StateFolder(state)
    remember_kafka(folder, KafkaPlace(kafka.bootstrap, kafka.prefix))
    shutil.copytree(GOLDEN, out := state / "recording")

    assert "is a recording of another log" in says(2, "record", "--state", str(state), "--out", str(out))
    told = says(0, "record", "--state", str(state), "--out", str(out), "--from-beginning")
    log, made = KafkaLog(kafka, Layout().partitions()), FileLog.open(out, read_only=True)
    everything = {topic: await values(log, topic) for topic in TOPICS}
    assert {topic: await values(made, topic) for topic in TOPICS} == everything
    partitions = [at for topic in TOPICS for at in await log.partitions(topic)]
    assert told == f"{sum([await log.end(at) for at in partitions])} records copied to {out}\n"
    await made.close()
    await log.close()

    admin = AIOKafkaAdminClient(**kafka.client())
    await admin.start()
    await admin.delete_records({KafkaPartition(f"{kafka.prefix}heartbeats", 0): RecordsToDelete(before_offset=1)})
    await admin.close()
    told = says(2, "record", "--state", str(state), "--out", str(out), "--from-beginning")
    assert "heartbeats/0 has no offset 0 any more" in told
    again = FileLog.open(out, read_only=True)
    assert {topic: await values(again, topic) for topic in TOPICS} == everything
    await again.close()


def test_the_log_of_an_installation_is_no_recording(state: Path) -> None:
    """It is never replaced, not even by itself."""
    told = says(2, "record", "--state", str(state), "--out", str(StateFolder(state).log), "--from-beginning")
    assert "is the log of an installation" in told


def says(status: int, *arguments: str) -> str:
    """What a command that ends with this status says."""
    done = subprocess.run([sys.executable, "-m", "steepest", *arguments], capture_output=True, check=False)
    assert done.returncode == status, done.stderr.decode()
    return (done.stderr if status else done.stdout).decode()


async def values(log: KafkaLog | FileLog, topic: str) -> list[tuple[str, bytes]]:
    """Keys and values of a topic without the partitions' identities, sorted by key, each key's in order."""
    found: list[Record] = []
    for at in await log.partitions(topic):
        end, reader = await log.end(at), log.reader({at: 0})
        mine: list[Record] = []
        while len(mine) < end:
            mine.extend(await reader.poll())
        await reader.close()
        found.extend(mine[1:])
    return [(one.key, one.value) for one in sorted(found, key=lambda one: one.key)]
