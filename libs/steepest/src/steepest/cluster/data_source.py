"""Where jobs read their data: the storage server of a pool, and the variable in which a job finds it.

It owns the form of the address. It must never know how the bytes that a job reads are counted.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from steepest.errors import InputError

VARIABLE = "STEEPEST_DATA_URL"
"""The job's environment variable with the address at which it reads its data."""

_HTTP_PORT = 80


class DataSource(msgspec.Struct, frozen=True):
    """A storage server.

    Attributes:
        path: What all paths on the server begin with; empty, or with a slash at its beginning and none at its end.
    """

    host: str
    port: int = _HTTP_PORT
    path: str = ""

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{self.host}:{self.port}{self.path}"

    def at(self, host: str, port: int) -> DataSource:
        """The same data behind another address."""
        return msgspec.structs.replace(self, host=host, port=port)


def data_source(url: str) -> DataSource:
    """The server at ``http://HOST[:PORT][/PATH]``.

    Raises:
        InputError: It is no such address.
    """
    wrong = InputError(f"{url!r} is no address of a storage server", hint="write it like http://storage:8080/data")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise wrong from error
    if parts.scheme != "http" or not parts.hostname or parts.username or parts.query or parts.fragment or port == 0:
        raise wrong
    return DataSource(parts.hostname, port or _HTTP_PORT, parts.path.rstrip("/"))
