"""Runs calls on untrusted input that may never return, each on a thread that is never joined."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def run_detached(act: Callable[[], _T], *, timeout_s: float) -> _T:
    """Run a blocking call on its own thread; neither other calls nor the end of the process wait for it.

    Raises:
        TimeoutError: It took longer; its thread keeps running.
    """
    async with asyncio.timeout(timeout_s):
        return await asyncio.get_running_loop().run_in_executor(_DetachedThreads(), act)


class _DetachedThreads(Executor):
    """A daemon thread for each call; at the end of the process, Python would wait for a pool's threads."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """See ``Executor.submit``."""
        future: Future[_T] = Future()
        threading.Thread(target=_run, args=(future, lambda: fn(*args, **kwargs)), name="detached", daemon=True).start()
        return future


def _run(future: Future[Any], act: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = act()
    except BaseException as error:  # noqa: BLE001 - it is raised in the caller
        future.set_exception(error)
    else:
        future.set_result(result)
