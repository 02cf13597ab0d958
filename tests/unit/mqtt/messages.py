"""Payloads as devices send them, for tests."""

from __future__ import annotations

import json
from typing import Any


def beat(node: str = "edge-1", *, at_ms: int = 1_000, **more: Any) -> dict[str, Any]:
    """A node's heartbeat."""
    return {
        "type": "NodeHeartbeat",
        "node": node,
        "pool": "default",
        "at_ms": at_ms,
        "capacity": {"cpu_m": 1_000},
        **more,
    }


def loss(value: float = 1.0, *, job: str = "job", incarnation: int = 1, **more: Any) -> dict[str, Any]:
    """A reported loss."""
    return {"type": "LossReported", "job": job, "incarnation": incarnation, "value": value, **more}


def envelope(event: Any, seq: int = 1, *, device: str = "edge-1", generation: str = "g1", **more: Any) -> bytes:
    """A payload."""
    return json.dumps({"device": device, "generation": generation, "seq": seq, "event": event, **more}).encode()
