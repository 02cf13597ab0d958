"""How a call on a state folder that failed is classified."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from steepest.errors import ClusterError


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
