"""The settings of commands that ask a gateway instead of reading a state folder."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

KUBE = "kube:"
"""``kube:CONTEXT/NAMESPACE``, of which each part may be missing: the gateway there, through the API server."""


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The gateway that commands ask, where they are not on the machine of the state folder."""

    server: Annotated[
        str,
        Meta(
            description="Ask this gateway instead of reading a state folder; kube:CONTEXT/NAMESPACE is a kube context's.",
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

    @property
    def is_in_cluster(self) -> bool:
        """Whether the gateway is that of a kube context."""
        return self.server.startswith(KUBE)

    def __repr__(self) -> str:
        return f"gateway at {self.server or 'no address'}"
