"""Who may do what: bearer tokens with roles, and what every answer says to a browser.

It owns tokens, roles and headers. It must never know what a route does.

Reading needs no token where the gateway listens on this machine only. What changes a pool always needs one: other users of
the machine reach the same address, and a job runs as the user who started the system.
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steepest.errors import InputError, SteepestError
from steepest.events.common import User, is_name
from steepest.secret_files import read_secret
from steepest.serving.hosts import host_of, is_loopback

TOKEN_LETTERS = 16
"""A shorter one could be guessed."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page is made of this server's files alone; nothing that a job says can add a script."""

OWN_HEADER = "steepest-token"
"""Says the token where something on the way takes ``Authorization`` for itself, as the API server of Kubernetes does."""

FORWARDED = ("forwarded", "via", "x-real-ip")
"""Headers that proxies add, other than ``X-Forwarded-…``."""

SEND_IT = "send `Authorization: Bearer TOKEN`"

HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class AccessRole(enum.IntEnum):
    """The rights of a caller; each includes those before it."""

    NONE = 0
    READ = 1
    SUBMIT = 2
    OPERATE = 3  # also stop jobs, which may be other users'


class AccessRefusedError(SteepestError):
    """A caller may not do what it asks for.

    Attributes:
        known: Whether its token is known.
    """

    def __init__(self, message: str, *, known: bool, hint: str = "") -> None:
        super().__init__(message, code="forbidden" if known else "unauthorized", hint=hint)
        self.known = known


class Caller(msgspec.Struct, frozen=True):
    """Who sends a request.

    Attributes:
        name: Under which its requests are counted together: its token, or its address.
        role: What it may do.
        user: Whose token it is; empty: no name is known.
        has_token: Whether it has sent one.
    """

    name: str
    role: AccessRole
    user: str = ""
    has_token: bool = False

    def refuse_below(self, needed: AccessRole) -> None:
        """Return only if it has a role.

        Raises:
            AccessRefusedError: It has not.
        """
        if self.role >= needed:
            return
        if not self.has_token:
            raise AccessRefusedError("this needs a token", known=False, hint=SEND_IT)
        message = f"the token's role is {self.role.name.lower()}, and this needs {needed.name.lower()}"
        raise AccessRefusedError(message, known=True)


class Grant(NamedTuple):
    """The role of a token, and its user; empty: no name is known."""

    role: AccessRole
    user: str = ""


class Grants(msgspec.Struct, frozen=True):
    """What each token grants, and which role one has without any.

    Attributes:
        priority_most: The highest priority that a role below :attr:`AccessRole.OPERATE` may ask for.
    """

    tokens: Mapping[str, Grant]
    anonymous: AccessRole = AccessRole.NONE
    priority_most: int = 0

    def caller(self, headers: Headers, address: str) -> Caller:
        """The caller who sends these headers from an address.

        A request that a proxy forwards comes from anywhere, though its sender's address is the proxy's: it needs a token.

        Raises:
            AccessRefusedError: It has a token that is not known.
        """
        own = headers.get(OWN_HEADER, "")
        header = f"Bearer {own}" if own else headers.get("authorization", "")
        if not header:
            return Caller(address, AccessRole.NONE if _is_forwarded(headers) else self.anonymous)
        scheme, _, given = header.partition(" ")
        found = Grant(AccessRole.NONE)
        for token, grant in self.tokens.items():  # all of them, so that the time says nothing of which one was close
            if hmac.compare_digest(token.encode(), given.strip().encode("utf-8", "replace")):
                found = grant
        if scheme.lower() != "bearer" or found.role is AccessRole.NONE:
            raise AccessRefusedError("the token is not known", known=False, hint=SEND_IT)
        return Caller(given.strip(), found.role, found.user, has_token=True)

    def refuse_priority(self, priority: int, role: AccessRole) -> None:
        """Return only if a role may ask for a priority.

        Raises:
            AccessRefusedError: It is too high: jobs of others may be suspended for it.
        """
        if priority > self.priority_most and role < AccessRole.OPERATE:
            message = (
                f"the token's role is {role.name.lower()}, whose jobs have at most the priority {self.priority_most}"
            )
            raise AccessRefusedError(message, known=True, hint="ask for less; gateway.priority_most is the bound")


def _is_forwarded(headers: Headers) -> bool:
    return any(name in FORWARDED or name.startswith("x-forwarded-") for name in headers)


def read_tokens(path: Path) -> dict[str, Grant]:
    """The tokens of a file: on each line a role, a token and perhaps the name of its user; ``#`` begins a comment.

    Raises:
        InputError: The file or a line of it cannot be read, or other users may; the message names the line, and no token.
    """
    try:
        lines = read_secret(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read the tokens in {path}: {error}", hint="name a file of lines `ROLE TOKEN [NAME]`"
        ) from error
    found: dict[str, Grant] = {}
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        roles = {role.name.lower(): role for role in AccessRole if role}
        role, token, user = (*words, "", "")[:3]
        if words[3:] or role not in roles or len(token) < TOKEN_LETTERS or not is_name(user, User):
            raise InputError(
                f"{path}:{number}: this is no role and token",
                hint=f"write one of {', '.join(roles)}, a token of {TOKEN_LETTERS} letters or more, and a name or none",
            )
        found[token] = Grant(roles[role], user)
    return found


class Guard:
    """Refuses requests under a foreign name, and adds the headers that a browser obeys."""

    def __init__(self, app: ASGIApp, *, local: bool) -> None:
        """``local``: only names of this machine are served."""
        self._app = app
        self._local = local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        if self._local and not is_loopback(host_of(Headers(scope=scope).get("host", ""))):
            from starlette.responses import PlainTextResponse  # noqa: PLC0415 - for this answer alone

            await PlainTextResponse("this gateway serves names of its own machine only\n", 421)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)
