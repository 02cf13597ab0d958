"""Counts requests in an audit log of the API server: what each user has really sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Object(msgspec.Struct, frozen=True):
    resource: str = ""
    subresource: str = ""
    name: str = ""


class _AuditEvent(msgspec.Struct, frozen=True, rename="camel"):
    verb: str = ""
    audit_id: str = msgspec.field(default="", name="auditID")
    user: _User = _User()
    object_ref: _Object = _Object()


def requests_by_kind(audit: Path) -> Counter[tuple[str, str]]:
    """Requests by user and kind, such as ``patch pods/status``. One that was answered piece by piece counts once."""
    found: Counter[tuple[str, str]] = Counter()
    open_ones: dict[str, None] = {}
    decoder = msgspec.json.Decoder(_AuditEvent)
    with audit.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break  # it is being written
            event = decoder.decode(line)
            if event.audit_id in open_ones:
                continue
            open_ones[event.audit_id] = None
            about = event.object_ref
            resource = f"{about.resource}/{about.subresource}" if about.subresource else about.resource
            found[event.user.username, f"{event.verb} {resource}".rstrip()] += 1
    return found
