"""Bodies of requests that others send: no more of one is kept than is allowed."""

from __future__ import annotations

from collections.abc import AsyncIterator

from steepest.errors import InputError


async def bounded_body(parts: AsyncIterator[bytes], most: int) -> bytes:
    """A body that comes in parts, of at most this many bytes.

    Raises:
        InputError: It has more; the parts that follow are not read.
    """
    data = bytearray()
    async for part in parts:
        data += part
        if len(data) > most:
            raise InputError(f"the body has more than {most} bytes", code="too-large")
    return bytes(data)
