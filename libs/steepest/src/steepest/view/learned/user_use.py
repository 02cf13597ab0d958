"""What users have used."""

from __future__ import annotations

import msgspec


class UserUse(msgspec.Struct, omit_defaults=True):
    """What a user's jobs have used by a counted time, in core-seconds that count half after each half-life."""

    core_s: float = 0.0
    counted_ms: int = 0
