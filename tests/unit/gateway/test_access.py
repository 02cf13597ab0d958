"""Who a caller is, and what no caller is shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from starlette.datastructures import Headers
from tests.unit.gateway.in_memory import gateway, log_of, served_pool

from steepest.app.settings.gateway import GatewaySettings
from steepest.errors import SteepestError
from steepest.events import cluster as c
from steepest.gateway.access import AccessRole, Grant, Grants, read_tokens
from steepest.gateway.api import LARGE_MOST
from steepest.gateway.openapi import OPERATIONS
from steepest.gateway.reading import PAGE_BYTES

TOKEN = "r" * 20
SECRETS = ("of-a-variable", "of-an-option", "of-an-assignment", "of-a-url", "of-a-header")
COMMAND = (
    "train",
    *("--wandb-api-key", "of-an-option"),
    "HF_TOKEN=of-an-assignment",
    *("--data", "https://me:of-a-url@data/set"),
    *("sh", "-c", "curl -H 'Authorization: Bearer of-a-header' data"),
)


@pytest.mark.parametrize("name", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Via", "via"])
def test_who_comes_through_a_proxy_needs_a_token(name: str) -> None:
    """The proxy's address says nothing about who is behind it."""
    grants = Grants({TOKEN: Grant(AccessRole.READ)}, AccessRole.READ)
    forwarded = Headers({name: "203.0.113.9"})
    known = Headers({name: "203.0.113.9", "authorization": f"Bearer {TOKEN}"})

    assert grants.caller(Headers({}), "127.0.0.1").role is AccessRole.READ
    assert grants.caller(forwarded, "127.0.0.1").role is AccessRole.NONE
    with pytest.raises(SteepestError, match="this needs a token"):
        grants.caller(forwarded, "127.0.0.1").refuse_below(AccessRole.READ)
    assert grants.caller(known, "127.0.0.1").role is AccessRole.READ


def test_the_user_is_whom_the_file_of_tokens_names(tmp_path: Path) -> None:
    """Beside the role; a token without a name has none, and a line with more is refused without the token."""
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(f"submit {TOKEN} alice  # hers\nread {TOKEN[::-1]}x\n")
    grants = Grants(read_tokens(path))
    alice = grants.caller(Headers({"steepest-token": TOKEN, "user": "bob"}), "127.0.0.1")
    assert (alice.user, alice.role) == ("alice", AccessRole.SUBMIT)
    assert grants.caller(Headers({"steepest-token": f"{TOKEN[::-1]}x"}), "127.0.0.1").user == ""
    for more in ("alice bob", "al/ice", "*"):
        path.write_text(f"submit {TOKEN} {more}\n")
        with pytest.raises(SteepestError, match="no role and token") as refused:
            read_tokens(path)
        assert TOKEN not in f"{refused.value}{refused.value.hint}"


def test_callers_are_told_apart_by_their_tokens_or_addresses() -> None:
    """So that one of them gets no more than its share, whatever it says about where it comes from."""
    grants = Grants({TOKEN: Grant(AccessRole.READ)}, AccessRole.READ)
    spellings = [
        {"authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer  {TOKEN} "},
        {"steepest-token": TOKEN},
    ]
    names = {grants.caller(Headers(one), f"10.0.0.{number}").name for number, one in enumerate(spellings)}

    assert names == {TOKEN}
    assert grants.caller(Headers({"x-forwarded-for": "10.0.0.9"}), "127.0.0.1").name == "127.0.0.1"


def submitted() -> list[c.ClusterEvent]:
    """A job whose variables and command hold secrets, and that runs."""
    spec = c.JobSpec(command=COMMAND, env={"WANDB_API_KEY": "of-a-variable"})
    return [
        c.JobSubmitted(job="a", request="r", spec=spec),
        c.JobAdmitted(job="a", request="r"),
        c.PlacementPlanned(plan="p", job="a", incarnation=0, nodes=("n1",), because=c.Because(rule="spread")),
        c.StepBegun(plan="p", step=c.Step.START, attempt=1, job="a", incarnation=1, node="n1"),
        c.JobPlaced(plan="p", attempt=1, job="a", incarnation=1, node="n1"),
    ]


async def test_no_route_shows_a_secret_to_who_may_only_read(tmp_path: Path) -> None:
    """Every operation that there is, now, at an earlier position, and as a stream."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {TOKEN}\n")
    tokens.chmod(0o600)
    walked = []
    async with (
        served_pool(await log_of(*submitted())) as pool,
        gateway(pool, GatewaySettings(port=0, tokens=str(tokens))) as here,
        httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as http,
    ):
        for one in OPERATIONS:
            url = f"{here.address}/api/v1{one.path.replace('{job}', 'a')}"
            body: Any = {"job": "b", "spec": {"command": ["a"]}} if one.body is not None else None
            for query in ({}, {"at": "5"}):
                answer = await http.request(one.method.upper(), url, json=body, params=query) if one.answer else None
                if answer is not None:
                    assert answer.status_code == (
                        403 if one.role > AccessRole.READ else 400 if query and not _has_past(one) else 200
                    )
                    walked.append(answer.text)
            if one.streams:
                walked.append(await _streamed(http, url))

    assert [text for text in walked if any(secret in text for secret in SECRETS)] == []
    assert sum("--wandb-api-key" in text for text in walked) >= 5
    assert sum("WANDB_API_KEY" in text for text in walked) >= 2


def _has_past(one: Any) -> bool:
    return one.query is not None and "at" in one.query.__struct_fields__


async def _streamed(http: httpx2.AsyncClient, url: str) -> str:
    """The first part of a stream, or why there is none."""
    async with http.stream("GET", url, headers={"accept": "text/event-stream"}) as answer:
        text = ""
        async with asyncio.timeout(30):
            async for part in answer.aiter_text():
                text += part
                if "JobPlaced" in text or '"whole":true' in text or answer.status_code != 200:
                    break
        return text


async def test_a_page_has_so_many_bytes() -> None:
    """The one after it begins where it ends; a record or a job that has more by itself is a page."""
    large = "x" * (PAGE_BYTES // 3)
    jobs = [c.JobSubmitted(job=f"j{n}", request=f"r{n}", spec=c.JobSpec(command=("a", large))) for n in range(8)]
    async with served_pool(await log_of(*jobs)) as pool, gateway(pool) as here, httpx2.AsyncClient() as http:
        offsets: list[int] = []
        names: list[str] = []
        since, after = 0, cast("str | None", "")
        while True:
            page = (await http.get(f"{here.address}/api/v1/events", params={"since": since, "limit": 1_000})).json()
            if not page["events"]:
                break
            assert len(str(page)) < 2 * PAGE_BYTES
            offsets += [row["offset"] for row in page["events"]]
            since = page["next"]
        while after is not None:
            query = {"limit": 1_000} | ({"after": after} if after else {})
            answer = await http.get(f"{here.address}/api/v1/jobs", params=query)
            assert len(answer.content) < 2 * PAGE_BYTES
            names += [row["job"] for row in answer.json()["jobs"]]
            after = answer.json()["next"]

    assert offsets == list(range(11))
    assert names == [f"j{n}" for n in range(8)]


async def test_answers_that_are_not_read_leave_room_for_those_of_others() -> None:
    """Each is in memory until its reader takes it: one who never does holds some, and is refused more until it has gone."""
    jobs = [
        c.JobSubmitted(job=f"j{n}", request=f"r{n}", spec=c.JobSpec(command=("a", "x" * 100_000))) for n in range(40)
    ]
    async with served_pool(await log_of(*jobs)) as pool, gateway(pool) as here, httpx2.AsyncClient() as http:
        host, _, port = here.address.removeprefix("http://").partition(":")
        asked = f"GET /api/v1/events?limit=1000 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        held: list[tuple[bytes, asyncio.StreamWriter]] = []
        while not held or held[-1][0].startswith(b"HTTP/1.1 200"):
            reader, writer = await asyncio.open_connection(host, int(port), limit=1)
            writer.write(asked)
            held.append((await reader.read(12), writer))
        refused = await http.get(f"{here.address}/api/v1/events", params={"limit": 1_000})
        known = await http.get(f"{here.address}/api/v1/events", headers={"authorization": f"Bearer {here.token}"})
        small = await http.get(f"{here.address}/api/v1/pools")
        for _, writer in held:
            writer.transport.abort()
        again = refused
        while again.status_code == 503:
            await asyncio.sleep(0.05)
            again = await http.get(f"{here.address}/api/v1/events", params={"limit": 1_000})

    assert len(held) == LARGE_MOST // 2 + 1
    assert (refused.status_code, known.status_code, small.status_code, again.status_code) == (503, 200, 200, 200)
