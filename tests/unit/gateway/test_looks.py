"""Looks at the past: a few at a time, shared by those who ask for the same, given up with the last of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from starlette.requests import ClientDisconnect
from tests.harness.waiting import until
from tests.unit.gateway.in_memory import gateway, log_of, served_pool

from steepest.events import cluster as c
from steepest.gateway.access import AccessRole, Caller
from steepest.gateway.pool import folding, past
from steepest.gateway.shares import AT_ONCE, WAITING_MOST, BusyError, Looks


class Fold:
    """Looks that take until they are let go.

    Attributes:
        running: How many are worked on.
        begun: How many ever were.
    """

    def __init__(self) -> None:
        self.running = self.begun = 0
        self.go = asyncio.Event()

    async def __call__(self) -> int:
        """One look; it gives its number."""
        self.begun += 1
        number, self.running = self.begun, self.running + 1
        try:
            await self.go.wait()
            return number
        finally:
            self.running -= 1


class Peer:
    """Who asks, until it leaves."""

    def __init__(self, name: str) -> None:
        self.state = SimpleNamespace(caller=Caller(name, AccessRole.READ))
        self._left = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        """See ``Request.receive``."""
        await self._left.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        """Close the connection."""
        self._left.set()


async def test_a_few_are_worked_on_at_a_time_and_the_rest_is_refused() -> None:
    """A caller alone may not fill what waits; what everybody is refused is open again once a look has ended."""
    looks, fold = Looks(), Fold()
    peers = [Peer(f"{number}") for number in range(AT_ONCE + WAITING_MOST)]
    alone = Peer("alone")
    mine = [asyncio.create_task(looks.result(alone, ("mine", n), fold)) for n in range(20)]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    refused = [task for task in mine if task.done() and isinstance(task.exception(), BusyError)]
    assert len(mine) - len(refused) == (AT_ONCE + WAITING_MOST) // 2
    others = [asyncio.create_task(looks.result(peer, peer, fold)) for peer in peers]  # type: ignore[arg-type]
    await until(lambda: fold.running == AT_ONCE)
    assert sum(not task.done() for task in (*mine, *others)) == AT_ONCE + WAITING_MOST
    fold.go.set()
    found = await asyncio.gather(*mine, *others, return_exceptions=True)
    assert sum(isinstance(one, int) for one in found) == AT_ONCE + WAITING_MOST
    assert await looks.result(alone, "again", fold) == fold.begun  # type: ignore[arg-type]


async def test_equal_looks_are_one_and_end_with_their_last_sender() -> None:
    """Whoever asked first may leave: the others still get what they have asked for."""
    looks, fold = Looks(), Fold()
    peers = [Peer(f"{number}") for number in range(3)]
    tasks = [asyncio.create_task(looks.result(peer, "same", fold)) for peer in peers]  # type: ignore[arg-type]
    await until(lambda: fold.running)
    peers[0].leave()
    with pytest.raises(ClientDisconnect):
        await tasks[0]
    assert (fold.begun, fold.running) == (1, 1)
    fold.go.set()
    assert await asyncio.gather(*tasks[1:]) == [1, 1]

    fold.go.clear()
    peers = [Peer("a"), Peer("b")]
    tasks = [asyncio.create_task(looks.result(peer, "next", fold)) for peer in peers]  # type: ignore[arg-type]
    await until(lambda: fold.running)
    for peer in peers:
        peer.leave()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until(lambda: not fold.running)
    assert fold.begun == 2


@contextlib.contextmanager
def counted(monkeypatch: pytest.MonkeyPatch, counts: dict[str, int]) -> Iterator[None]:
    """Count the folds that a gateway works on at the same time."""
    folded = folding.folded

    async def counting(*arguments: Any) -> Any:
        counts["now"] += 1
        counts["most"] = max(counts["most"], counts["now"])
        try:
            async for one in folded(*arguments):
                await asyncio.sleep(0)
                yield one
        finally:
            counts["now"] -= 1

    with monkeypatch.context() as patched:
        patched.setattr(past, "folded", counting)
        patched.setattr("steepest.gateway.reading.folded", counting)
        yield


async def test_senders_that_leave_at_once_cost_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred who ask for stories and pictures of the past, and go: others are answered, and nothing goes on for them."""
    counts = {"now": 0, "most": 0}
    jobs = [c.JobSubmitted(job=f"j{n}", request=f"r{n}", spec=c.JobSpec(command=("true",))) for n in range(300)]
    async with served_pool(await log_of(*jobs)) as pool, gateway(pool) as here:
        with counted(monkeypatch, counts):
            host, _, port = here.address.removeprefix("http://").partition(":")
            for number in range(100):
                path = f"/api/v1/jobs/j{number}/explain" if number % 2 else f"/api/v1/picture?at={number}"
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                await writer.drain()
                writer.close()
            async with httpx2.AsyncClient() as http:
                assert (await http.get(f"{here.address}/api/v1/jobs?limit=1")).status_code == 200
                await until(lambda: not counts["now"])
                assert 0 < counts["most"] <= AT_ONCE
                asked = [http.get(f"{here.address}/api/v1/jobs/j{n}/explain", timeout=60) for n in range(60)]
                answers = await asyncio.gather(*asked)

    refused = [answer for answer in answers if answer.status_code == 503]
    assert {answer.status_code for answer in answers} == {200, 503}
    assert all(answer.headers["retry-after"] and answer.json()["code"] == "busy" for answer in refused)
    assert counts["most"] <= AT_ONCE
