"""A state folder has one log: it is not left for another one with jobs in it, and commands say where it cannot be read."""

from __future__ import annotations

import asyncio

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.conftest import Holding

from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import KafkaPlace, StateFolder
from steepest.cli.commands.up import refuse_jobs_in_files
from steepest.cli.main import main
from steepest.events import cluster as c
from steepest.log.files.file_log import FileLog

JOBS = (
    c.JobSubmitted(job="one", request="r1", spec=c.JobSpec(command=("true",))),
    c.JobSubmitted(job="two", request="r2", spec=c.JobSpec(command=("true",))),
)


def steepest(*call: str, **variables: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(main, call, prog_name="steepest", env=variables)


@pytest.mark.parametrize("kafka", ["auto", "nowhere.invalid:9092"])
def test_jobs_in_files_are_not_left_for_a_log_on_kafka(holding: Holding, kafka: str) -> None:
    """Their number is said and what to do, and nothing changes: a broker is not even started."""
    folder = holding(*JOBS)
    root = str(folder.root)
    before = sorted(path for path in folder.root.rglob("*"))

    by_flag, by_variable = (
        steepest("up", "--state", root, "--kafka", kafka),
        steepest("up", "--state", root, STEEPEST_KAFKA=kafka),
    )

    assert (by_flag.exit_code, by_variable.exit_code) == (2, 2)
    assert by_flag.stderr == by_variable.stderr
    assert by_flag.stderr == (
        f"Error: the log of {root} is in files and holds 2 jobs (2 unfinished), which would not be there on Kafka; "
        "go on with it by `steepest up` without Kafka, or name another folder with --state\n"
    )
    assert sorted(path for path in folder.root.rglob("*")) == before


def test_a_log_without_jobs_may_be_left(holding: Holding) -> None:
    """Nothing is lost, and no name is taken."""
    folder = holding()

    refuse_jobs_in_files(read_settings({"state_dir": folder.root, "kafka.bootstrap": "host:9092"}, environ={}))


def test_a_folder_on_kafka_stays_there(holding: Holding) -> None:
    """The remembered log is used without a check of the log in files."""
    folder = holding(*JOBS)
    folder.remember_kafka(KafkaPlace("host:9092"))

    refuse_jobs_in_files(read_settings({"state_dir": folder.root}, environ={}))


@pytest.mark.parametrize(
    "call", [["jobs"], ["nodes"], ["events"], ["explain", "one"], ["cancel", "one"], ["submit", "true"]]
)
def test_a_log_whose_own_broker_is_down_says_so(holding: Holding, call: list[str]) -> None:
    """In one line, with what starts it; and not by the name of an error of Kafka's client."""
    folder: StateFolder = holding()
    folder.remember_kafka(KafkaPlace("127.0.0.1:1", own=True))

    done = steepest(call[0], "--state", str(folder.root), *call[1:])

    assert done.exit_code == 2
    assert done.stderr == (
        f"Error: the log of {folder.root} is on a Kafka broker of its own, which runs only while the system does, "
        f"and now does not; start both with `steepest up --state {folder.root}`\n"
    )


def test_the_log_in_files_is_as_it_was(holding: Holding) -> None:
    """A refused start has written nothing to it."""
    folder = holding(*JOBS)
    steepest("up", "--state", str(folder.root), "--kafka", "auto")

    async def end() -> int:
        log = FileLog.open(folder.log, read_only=True)
        try:
            return await log.end(folder.read().layout.of_pool("default"))
        finally:
            await log.close()

    assert asyncio.run(end()) == 2 + len(JOBS)
