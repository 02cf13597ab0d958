"""Services as processes over a real broker, driven by the command line alone."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.chaos.system import KafkaSystem

from steepest.events.registry import TOPICS
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.kafka.kafka_settings import KafkaSettings

TRAINING = Path(__file__).parents[2] / "chaos" / "training.py"


@pytest.fixture
def system(tmp_path: Path, kafka: KafkaSettings) -> Iterator[KafkaSystem]:
    """A system that does not run yet."""
    found = KafkaSystem(tmp_path / "state", kafka, "--node", "n1=0.5", "--node", "n2=0.5", "--interval", "1s")
    yield found
    found.end()


@pytest.mark.end_to_end
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_job_is_submitted_run_explained_and_recorded(system: KafkaSystem, tmp_path: Path) -> None:
    """Every command of the embedded system works on Kafka; a service that is killed comes back; the recording replays."""
    await system.start()
    command = (sys.executable, str(TRAINING), str(tmp_path), "120")
    assert system.ask("submit", "--name", "one", "--", *command)["state"] == "admitted"
    pid = next(pid for pid, module in system.services().items() if module == "steepest_services.placer")
    os.kill(pid, signal.SIGKILL)
    endless = (sys.executable, str(TRAINING), str(tmp_path), "100000")
    assert system.ask("submit", "--name", "two", "--", *endless)["state"] == "admitted"
    assert system.ask("cancel", "two")["outcome"] == "cancelled"

    def ended() -> bool:
        jobs = {job["job"]: job["outcome"] for job in system.ask("jobs", "--all")}
        return jobs == {"one": "finished", "two": "cancelled"}

    await system.until(ended, "both jobs to end")
    assert "was killed by signal 9" in system.output()
    assert {node["node"] for node in system.ask("nodes")} == {"n1", "n2"}
    assert "finished" in system.call("explain", "one").stdout
    assert "one finished" in system.call("events").stdout
    assert system.call("down").returncode == 0
    assert system.wait() == 0

    recording = tmp_path / "recording"
    assert system.call("record", "--out", str(recording)).returncode == 0
    assert system.call("record", "--out", str(recording)).stdout.startswith("no record copied")
    for command_name in ("replay", "check"):
        assert system.plain(command_name, str(recording)).returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_unreadable_records_become_letters_and_are_sent_again(system: KafkaSystem) -> None:
    """Wrong bytes on any topic become one dead letter each with their place, the services go on, and resend repeats them."""
    await system.start()
    bad = {
        "no JSON": b"\xff\xfe",
        "no object": b"[1]",
        "an unknown type": b'{"type":"Unheard"}',
        "empty": b"",
        "huge": b"x" * 2_000_000,
    }
    log = system.log()
    topics = [name for name in TOPICS if name != "dead-letters"]
    await log.append(
        [
            NewRecord(to=TopicPartition(topic), key="someone", value=value, at_ms=1)
            for topic in topics
            for value in bad.values()
        ]
    )
    await log.close()

    def listed() -> list[dict[str, str]]:
        lines = system.plain("dead-letters", "list", "--json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    await system.until(lambda: len(listed()) == len(topics) * len(bad), "a letter about each record")
    one = next(letter for letter in listed() if letter["topic"] == "loss" and "Unheard" in letter["reason"])
    sent = json.loads(system.plain("dead-letters", "resend", "--json", one["record"]).stdout)
    assert list(sent) == [one["record"]]
    await system.until(lambda: len(listed()) == len(topics) * len(bad) + 1, "a letter about what was sent again")
    shown = json.loads(system.plain("dead-letters", "show", "--json", sent[one["record"]]).stdout)
    assert shown["value"] == one["value"]
    assert all(
        module in system.services().values()
        for module in ("steepest_services.categorizer", "steepest_services.worker_monitor")
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_services_do_not_outlive_the_system(system: KafkaSystem) -> None:
    """Where `up` is killed its services stop by themselves, so that the next one does not run beside them."""
    await system.start()
    names = sorted(system.services().values())
    services = [psutil.Process(pid) for pid in system.services()]
    assert len(services) == len(set(names)) > 1

    system.kill()

    _, alive = psutil.wait_procs(services, timeout=60)
    assert alive == []
    await system.start()
    assert sorted(system.services().values()) == names


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_pool_that_is_added_meanwhile_runs_jobs(system: KafkaSystem, tmp_path: Path) -> None:
    """Each service takes it over in the process that it is; a job of the first pool runs on, and is the same incarnation."""
    await system.start()
    training = (sys.executable, str(TRAINING), str(tmp_path))
    assert system.ask("submit", "--name", "endless", "--", *training, "100000")["state"] == "admitted"
    await system.until(lambda: system.ask("jobs")[0]["alive"], "the first pool's job to run")
    before = system.services()

    added = system.plain("pool", "add", "vision", "--node", "v1=0.5")
    assert added.returncode == 0, added.stderr
    done = system.call("submit", "--wait", "--pool", "vision", "--name", "seen", "--", *training, "120")
    assert done.returncode == 0, done
    (kept,) = system.ask("jobs")

    assert system.services() == before
    assert [node["node"] for node in system.ask("nodes", "--pool", "vision")] == ["v1"]
    assert (kept["alive"], kept["incarnation"]) == (True, 1)
    assert system.call("down").returncode == 0
    assert system.wait() == 0
