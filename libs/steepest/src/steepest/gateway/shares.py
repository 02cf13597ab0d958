"""Limited things of a gateway, shared out among its callers: streams, looks at the past, unread answers.

It owns who holds how many. It must never know what they are held for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from steepest.errors import SteepestError

AT_ONCE = 2
"""Looks at the past that are worked on at the same time: each folds the log into a view of its own."""

WAITING_MOST = 16


class BusyError(SteepestError):
    """There are as many of something as may be."""

    code = "busy"


class CallerShares:
    """A limited number of things. A caller holds no more of them than are left for all others.

    Attributes:
        held: How many are held.
    """

    def __init__(self, most: int, what: str) -> None:
        """``what`` they are, for the error."""
        self.held = 0
        self._most, self._what = most, what
        self._of: Counter[str] = Counter()

    def take(self, caller: str) -> None:
        """One more.

        Raises:
            BusyError: The caller holds as many as are left, or all are held.
        """
        if self._of[caller] >= self._most - self.held:
            raise BusyError(f"too many {self._what} are open", hint="send the request again later")
        self.held += 1
        self._of[caller] += 1

    def give_back(self, caller: str) -> None:
        """One less."""
        self.held -= 1
        self._of[caller] -= 1
        self._of += Counter()  # forgets who holds none


class LargeAnswer(Response):
    """An answer that counts until its reader has taken it: it is in memory for so long."""

    def __init__(self, shares: CallerShares, caller: str, answer: Response) -> None:
        """Raises :class:`BusyError`: too many are not taken yet."""
        shares.take(caller)
        super().__init__(answer.body, answer.status_code, media_type=answer.media_type)
        self._give_back = partial(shares.give_back, caller)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._give_back()


class _Look(msgspec.Struct):
    task: asyncio.Task[Any]
    caller: str
    awaited: int = 0


class Looks:
    """Looks at the past: a few at a time, equal ones once, each for as long as somebody waits for it."""

    def __init__(self) -> None:
        self._looks: dict[Hashable, _Look] = {}
        self._shares = CallerShares(AT_ONCE + WAITING_MOST, "looks at the past")
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def result(self, request: Request, key: Hashable, look: Callable[[], Awaitable[Any]]) -> Any:
        """The result of a look; ``key`` is the same for those with the same result.

        Raises:
            BusyError: Too many wait.
            ClientDisconnect: The caller has gone.
        """
        found = self._looks.get(key)
        if found is None:
            caller = request.state.caller.name
            self._shares.take(caller)
            found = self._looks[key] = _Look(asyncio.create_task(self._in_turn(look)), caller)
        found.awaited += 1
        gone = asyncio.create_task(_gone(request))
        try:
            await asyncio.wait((found.task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not found.task.done():
                raise ClientDisconnect
            return found.task.result()
        finally:
            gone.cancel()
            found.awaited -= 1
            if not found.awaited:
                del self._looks[key]
                found.task.cancel()
                self._shares.give_back(found.caller)

    async def _in_turn(self, look: Callable[[], Awaitable[Any]]) -> Any:
        async with self._slots:
            return await look()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
