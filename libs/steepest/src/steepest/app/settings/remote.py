"""The settings of commands that ask a gateway instead of reading a state folder."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The gateway that commands ask, where they are not on the machine of the state folder."""

    server: Annotated[
        str,
        Meta(
            description="Ask this gateway instead of reading a state folder.",
            examples=["http://127.0.0.1:8080"],
        ),
    ] = ""
    token: Annotated[
        str,
        Meta(
            description="The token that it knows us by; of a gateway of the state folder, its own.",
            extra={"secret": True},
        ),
    ] = ""

    def __repr__(self) -> str:
        return f"gateway at {self.server or 'no address'}"
