"""Which process speaks for a node: its agent, which holds a lock on the volume, and no other one while it does.

It owns these locks. The kernel, or the server of the volume, drops a lock when its holder dies.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.errors import UntrustedError
from steepest.events.common import is_name
from steepest.logger import Logger
from steepest.untrusted.files import walk

_log = Logger()
LOOK_S = 2.0
"""How often is looked who has claimed which node, or tried to claim the own one: for so long two may speak for a node."""

_NODES_MOST = 100_000
_PATIENCE_S = 0.1
"""Who asks whether a lock is held takes it for an instant."""


class NodeClaims:
    """The claims of one pool's agents.

    Args:
        state: The pool's state folder.
    """

    def __init__(self, state: AdapterFolder) -> None:
        self._folder = state.path / "agents"
        self._held: dict[str, int] = {}

    def take(self, node: str) -> bool:
        """Claim a node; whether it is this process's now. It blocks.

        Raises:
            OSError: The volume does not let it.
        """
        if node not in self._held:
            self._folder.mkdir(exist_ok=True, mode=0o700)
            path = self._folder / node
            lock = incarnation_locks.take(path, _PATIENCE_S)
            if lock is None:
                return False
            if not _is_at(path, lock):  # it was removed before it was locked
                os.close(lock)
                return False
            self._held[node] = lock
        return True

    def claimed(self) -> frozenset[str]:
        """The nodes that other processes have claimed. It blocks, and removes claims that were left.

        Raises:
            OSError, UntrustedError: The volume does not let it.
        """
        try:
            entries = list(walk(self._folder, below=self._folder, most=_NODES_MOST, deepest=1))
        except FileNotFoundError:
            return frozenset()
        names = [each.name for each in entries if each.is_file and is_name(each.name) and each.name not in self._held]
        return frozenset(name for name in names if not self._is_left(self._folder / name))

    def give_back(self) -> None:
        """Give all claims back."""
        for lock in self._held.values():
            os.close(lock)
        self._held.clear()

    @staticmethod
    def _is_left(path: Path) -> bool:
        lock = incarnation_locks.take(path, 0.0)
        if lock is None:
            return False
        try:
            if _is_at(path, lock):
                path.unlink()
        finally:
            os.close(lock)
        return True


def _is_at(path: Path, lock: int) -> bool:
    """Whether an open file is the one that the path names."""
    try:
        return path.stat().st_ino == os.fstat(lock).st_ino
    except FileNotFoundError:
        return False


class NodeSpeaker:
    """Whose heartbeats a process sends: an agent its own node's, and any other process those of nodes without an agent.

    Args:
        state: The pool's state folder.
        node: The node of the agent that this process is; None: it is none.
    """

    def __init__(self, state: AdapterFolder, node: str | None) -> None:
        self._claims = NodeClaims(state)
        self._node = node
        self._has_claim = False
        self._claimed: frozenset[str] = frozenset()
        self._looked_s: float | None = None

    def speaks_for(self, node: str) -> bool:
        """Whether heartbeats of a node are this process's, as far as it has looked."""
        if self._node is not None:
            return node == self._node and self._has_claim
        return node not in self._claimed

    async def look(self) -> None:
        """Claim the own node, or look who has claimed another one, now and then."""
        now_s = time.monotonic()
        if self._has_claim or (self._looked_s is not None and now_s - self._looked_s < LOOK_S):
            return
        self._looked_s = now_s
        try:
            if self._node is not None:
                self._has_claim = await asyncio.to_thread(self._claims.take, self._node)
                if not self._has_claim:
                    _log.warning("another agent has the node", node=self._node)
            else:
                self._claimed = await asyncio.to_thread(self._claims.claimed)
        except (OSError, UntrustedError) as error:
            _log.warning("agents' claims cannot be read", why=str(error))

    def close(self) -> None:
        """Give the claim back."""
        self._claims.give_back()
