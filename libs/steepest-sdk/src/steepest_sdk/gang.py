"""Owns the place of a process among those that train the same model together, as its environment describes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_PEER = re.compile(r"(?P<host>[^\s,]{1,255}):(?P<port>[0-9]{1,5})")
_NUMBER = re.compile("[0-9]{1,9}")
_PORT_MOST = 65_535


@dataclass(frozen=True)
class Gang:
    """The place of a process in its gang; by default it trains alone.

    Attributes:
        role: The name of what it does.
        rank: Its index in the gang, from 0; rank 0 is the chief.
        world_size: The number of processes.
        peers: Host and port of each rank, its own included; empty if it trains alone.
    """

    role: str = "worker"
    rank: int = 0
    world_size: int = 1
    peers: tuple[tuple[str, int], ...] = ()


def read(variables: Mapping[str, str]) -> Gang:
    """Reads ``STEEPEST_ROLE``, ``STEEPEST_RANK``, ``STEEPEST_WORLD_SIZE`` and ``STEEPEST_PEERS``.

    Raises:
        ValueError: A variable is invalid or contradicts another one; the message names it.
    """
    if "STEEPEST_WORLD_SIZE" not in variables:
        return Gang()
    world_size = _number(variables, "STEEPEST_WORLD_SIZE")
    rank = _number(variables, "STEEPEST_RANK")
    if rank >= world_size:
        raise ValueError(f"STEEPEST_RANK is {rank}; it must be below STEEPEST_WORLD_SIZE, {world_size}")
    peers = tuple(_peer(text) for text in variables.get("STEEPEST_PEERS", "").split(",") if text)
    if len(peers) != world_size:
        raise ValueError(f"STEEPEST_PEERS names {len(peers)} peers; STEEPEST_WORLD_SIZE is {world_size}")
    return Gang(variables.get("STEEPEST_ROLE") or "worker", rank, world_size, peers)


def _peer(text: str) -> tuple[str, int]:
    match = _PEER.fullmatch(text)
    if match is None or not 0 < int(match["port"]) <= _PORT_MOST:
        raise ValueError(f"STEEPEST_PEERS holds {text[:50]!r}; each peer must be host:port")
    return match["host"], int(match["port"])


def _number(variables: Mapping[str, str], name: str) -> int:
    text = variables.get(name, "")
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{name} is {text[:20]!r}; it must be a whole number of at most 9 digits")
    return int(text)
