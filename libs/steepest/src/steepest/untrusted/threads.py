"""Calls that may never come back, because of what others write: each on a thread that nobody has to wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def apart(act: Callable[[], _T], *, timeout_s: float) -> _T:
    """Run a blocking call on a thread of its own, which neither other calls nor the end of the process wait for.

    Raises:
        TimeoutError: It took longer; its thread is left to itself.
    """
    async with asyncio.timeout(timeout_s):
        return await asyncio.get_running_loop().run_in_executor(_Apart(), act)


class _Apart(Executor):
    """A daemon thread for each call; a pool's threads would be waited for at the end of the process."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """See ``Executor.submit``."""
        future: Future[_T] = Future()
        threading.Thread(target=_run, args=(future, lambda: fn(*args, **kwargs)), name="apart", daemon=True).start()
        return future


def _run(future: Future[Any], act: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        given = act()
    except BaseException as error:  # noqa: BLE001 - whoever waits gets it
        future.set_exception(error)
    else:
        future.set_result(given)
