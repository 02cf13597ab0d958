"""The settings of the gateway: where it listens, and who may do what."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from steepest.events.common import Priority


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the gateway serves the live page and the HTTP API, and who may do what."""

    port: Annotated[
        Annotated[int, Meta(ge=0, le=65535)] | None,
        Meta(description="Serve the page and the API there; 0 takes any free port.", extra={"flag": "--gateway"}),
    ] = None
    host: Annotated[str, Meta(description="On which of the machine's addresses.", extra={"flag": "--gateway"})] = (
        "127.0.0.1"
    )
    tokens: Annotated[
        str,
        Meta(
            description="A file of lines `ROLE TOKEN [NAME]` (roles: read, submit, operate); needed off this machine."
        ),
    ] = ""
    priority_most: Annotated[
        Priority, Meta(description="The highest priority of jobs that a token of the role submit may ask for.")
    ] = 0
