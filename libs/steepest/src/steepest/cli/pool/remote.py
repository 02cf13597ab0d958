"""A gateway as commands ask it: with the token that is set, or with its own where it belongs to the state folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from steepest.app.extras import refuse_without
from steepest.app.settings.tree import Settings
from steepest.client.synchronous import Client


class _Remembered(msgspec.Struct):
    address: str
    token: str


def client_of(settings: Settings) -> Client:
    """The client of the gateway that the settings name.

    Raises:
        InputError: The library that it needs is not installed.
    """
    server = settings.client.server.rstrip("/")
    return Client(server, settings.client.token or _own_token(settings.folder.gateway, server))


def refuse_without_client() -> None:
    """Check that the client's library is installed.

    Raises:
        InputError: It is not.
    """
    refuse_without(("httpx2",), "--server needs", "install steepest[client], or run `make setup`")


def _own_token(file: Path, server: str) -> str:
    """The token of the state folder's own gateway; empty where the server is another one."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_Remembered)
    except (OSError, msgspec.DecodeError):
        return ""
    return found.token if found.address == server else ""
