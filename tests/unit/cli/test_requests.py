"""What a user asks for is on the log so that every reader reads it, or is refused; and who waits for it gets an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.harness.scenarios.folded_pool import submitted
from tests.unit.cli.conftest import Holding

from steepest.app.configurator import Configurator
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.cli.main import main
from steepest.cli.pool import user_requests
from steepest.cli.pool.stored_pool import StoredPool, look
from steepest.cli.pool.user_requests import (
    RequestCursor,
    RequestOutcome,
    admission,
    append,
    asking,
    end_of,
    until_configured,
)
from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.dead_letter import DeadLetter
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.log.base import Log
from steepest.runtime.decode import LARGEST_REQUEST, new_record
from steepest.runtime.layout import DEAD_LETTERS


@pytest.fixture
def folder(holding: Holding) -> StateFolder:
    """An installation on which a system once ran."""
    return holding()


@pytest.mark.parametrize(
    ("options", "command", "names"),
    [
        (("--model", "x" * 3_000), ("true",), "Error: model: "),
        (("--metric", "x" * 3_000), ("true",), "Error: metric: "),
        (("--image", "x" * 3_000), ("true",), "Error: image: "),
        (("--retries", str(10**20)), ("true",), "Error: retries: "),
        (("--device", "Not A Name"), ("true",), "Error: device: "),
        ((), ("echo", "\udcff\udcfe"), "surrogates not allowed; name the file or the value in UTF-8"),
        (("--env", "A=\udcff"), ("true",), "surrogates not allowed"),
        ((), ("true", "x" * LARGEST_REQUEST), f"more than {LARGEST_REQUEST}"),
    ],
)
def test_what_no_reader_could_read_is_refused(
    folder: StateFolder, options: tuple[str, ...], command: tuple[str, ...], names: str
) -> None:
    """In one line that names the field, and nothing is on the log."""
    before = look(read_settings({"state_dir": folder.root})).view.position
    call = ["submit", "--state", str(folder.root), "--name", "job", *options, "--", *command]
    done = CliRunner().invoke(main, call, prog_name="steepest")

    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)
    assert names in done.stderr
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert look(read_settings({"state_dir": folder.root})).view.position == before


async def test_a_system_that_still_starts_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it opens its log late: it is not one that never ran."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000)),)))
    settings = read_settings({"state_dir": folder.root})
    monkeypatch.setattr(user_requests, "READY_S", 0.0)
    monkeypatch.setattr(user_requests, "CONFIGURED_S", 0.0)
    with pytest.raises(InputError, match="no system ever ran"):
        async with asking(settings):
            pass
    with folder.sole(), pytest.raises(InputError, match="has not opened its log yet"):
        async with asking(settings):
            pass


def test_parameters_that_no_reader_could_read_are_refused() -> None:
    """Before a system begins: it would write what ends every reader's wish to read on."""
    parameters = PoolParameters(specon=SpeConParameters(interval_ms=10**20))
    with pytest.raises(InputError, match=r"\$\.parameters\.specon\.interval_ms"):
        Configurator(parameters)
    with pytest.raises(InputError, match="not finite"):
        Configurator(PoolParameters(specon=SpeConParameters(alpha=float("nan"))))


Ask = Callable[[Log, StoredPool, RequestCursor], Awaitable[RequestOutcome]]


async def answered(log: Log, pool: StoredPool, place: RequestCursor) -> RequestOutcome:
    """What ``submit --wait`` waits for."""
    async for news in end_of(log, pool, place, "job"):
        if isinstance(news, RequestOutcome):
            return news
    raise AssertionError


@pytest.mark.parametrize("ask", [admission, answered])
async def test_a_request_that_cannot_be_read_gets_an_answer(folder: StateFolder, ask: Ask) -> None:
    """A dead letter about another record is no answer; one about the request is, from any writer."""
    async with asking(read_settings({"state_dir": folder.root})) as (log, pool):
        place = await append(log, pool, submitted("job"))
        letter = DeadLetter(
            topic="cluster", partition=0, offset=place.offset, key="", reason="an older system", value=b""
        )
        others = msgspec.structs.replace(letter, offset=place.offset - 1)
        await log.append([new_record(DEAD_LETTERS, "cluster", one, 1) for one in (others, letter)])
        async with asyncio.timeout(30):
            answer = await ask(log, pool, place)

    assert answer == RequestOutcome(state="rejected", reason="the system that runs cannot read it: an older system")


@pytest.mark.parametrize("ask", [admission, answered])
async def test_who_waits_under_a_name_that_is_taken_gets_an_answer(folder: StateFolder, ask: Ask) -> None:
    """The rejection changes nothing about the job that has the name, and is an answer all the same."""
    async with asking(read_settings({"state_dir": folder.root})) as (log, pool):
        await append(log, pool, submitted("job", request="first"))
    async with asking(read_settings({"state_dir": folder.root})) as (log, pool):
        place = await append(log, pool, submitted("job", request="second"))
        for about in ("third", "second"):
            rejected = c.JobRejected(job="job", request=about, reason=f"the name of {about} is taken")
            await log.append([new_record(pool.at, "default", rejected, 1)])
        async with asyncio.timeout(30):
            answer = await ask(log, pool, place)

    assert answer == RequestOutcome(state="rejected", reason="the name of second is taken")


async def test_who_waits_for_several_jobs_learns_of_one_that_ended_before_another(folder: StateFolder) -> None:
    """``submit --wait --array 2``: the second job ends first, and the log is read once."""
    async with asking(read_settings({"state_dir": folder.root})) as (log, pool):
        first, second = [await append(log, pool, submitted(name, request=name)) for name in ("other", "job")]
        for name in ("job", "other"):
            ended = c.JobEnded(job=name, outcome=c.Outcome.CANCELLED, reason="enough")
            await log.append([new_record(pool.at, "default", ended, 1)])
        async with asyncio.timeout(30):
            async for news in end_of(log, pool, first, "other"):
                if isinstance(news, RequestOutcome):
                    break
            answer = await answered(log, pool, second)

    assert answer == RequestOutcome(state="ended", outcome=c.Outcome.CANCELLED, reason="enough")


async def test_a_submission_to_a_new_system_waits_until_it_is_configured(opened: StateFolder) -> None:
    """It counts by the flags in force where it stands."""
    settings = read_settings({"state_dir": opened.root})
    async with asking(settings) as (log, pool):
        waiting = asyncio.create_task(until_configured(settings, log, pool))
        await append(log, pool, c.PoolConfigured())
        configured = await waiting
        assert not pool.view.state.reads
        assert configured.view.state.reads


async def test_a_pool_that_no_system_configures_takes_no_jobs(
    opened: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to start."""
    monkeypatch.setattr(user_requests, "CONFIGURED_S", 0.1)
    settings = read_settings({"state_dir": opened.root})
    async with asking(settings) as (log, pool):
        with pytest.raises(InputError, match="no system has configured pool default yet"):
            await until_configured(settings, log, pool)
