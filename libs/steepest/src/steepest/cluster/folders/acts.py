"""Helpers of calls on a state folder: classify a failure, and finish a step that must not stop half way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from steepest.errors import ClusterError

_T = TypeVar("_T")


@contextlib.contextmanager
def definite(consequence: str) -> Iterator[None]:
    """Turn a failed file operation (a full disk, for example) into an error which says that nothing happened.

    Raises:
        ClusterError: In place of OSError.
    """
    try:
        yield
    except OSError as error:
        raise ClusterError(f"{consequence}: {error}", code="io-failed") from error


async def uncancelled(act: Coroutine[Any, Any, _T]) -> _T:
    """Run ``act`` to its end even if the caller is cancelled; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(act)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
