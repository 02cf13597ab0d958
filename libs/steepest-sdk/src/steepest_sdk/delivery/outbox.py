"""Owns messages that wait on the device's disk until the broker has them: oldest first, bounded; knows nothing of MQTT."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from pathlib import Path
from typing import NamedTuple

CAPACITY = 100_000
"""Messages, of a few hundred bytes each; a report of one loss a second waits for more than a day."""

SLOTS = 64
"""Processes of one name that may have an outbox in a folder at once."""


class Waiting(NamedTuple):
    """A message in the outbox.

    Attributes:
        place: Rises from message to message, also over restarts.
    """

    place: int
    topic: str
    payload: bytes


class Outbox:
    """A file of messages; threads may share it, and no other process does.

    Attributes:
        dropped: Messages that were removed unsent since it was opened, because it was full.
    """

    def __init__(self, path: Path, capacity: int = CAPACITY) -> None:
        """Opens the file, or makes it.

        Raises:
            BlockingIOError: Another process has it.
            OSError: It cannot be written.
            sqlite3.Error: It is damaged.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self.dropped = 0
        self._capacity = capacity
        self._mutex = threading.Lock()
        self._lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            # Each message is there after a crash of the process; a loss of power may cost the last ones.
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS messages"
                " (place INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, payload BLOB NOT NULL)"
            )
            (self._count,) = self._database.execute("SELECT count(*) FROM messages").fetchone()
        except BaseException:
            os.close(self._lock)
            raise

    def append(self, topic: str, payload: bytes) -> None:
        """Keeps a message; where it is full, the oldest one gives way.

        Raises:
            sqlite3.Error: It is not kept.
        """
        with self._mutex:
            self._database.execute("INSERT INTO messages (topic, payload) VALUES (?, ?)", (topic, payload))
            self._count += 1
            if self._count > self._capacity:
                self._database.execute("DELETE FROM messages WHERE place = (SELECT min(place) FROM messages)")
                self._count -= 1
                self.dropped += 1

    def after(self, place: int, most: int) -> list[Waiting]:
        """The oldest messages beyond a place."""
        with self._mutex:
            rows = self._database.execute(
                "SELECT place, topic, payload FROM messages WHERE place > ? ORDER BY place LIMIT ?", (place, most)
            ).fetchall()
        return [Waiting(*row) for row in rows]

    def remove(self, place: int) -> None:
        """The broker has it."""
        with self._mutex:
            self._count -= self._database.execute("DELETE FROM messages WHERE place = ?", (place,)).rowcount

    def __len__(self) -> int:
        return int(self._count)

    def close(self) -> None:
        """Lets go of the file; what is in it stays."""
        with self._mutex:
            self._database.close()
            os.close(self._lock)


def open_first(folder: Path, name: str, capacity: int = CAPACITY) -> Outbox:
    """The first outbox of that name that no other process has: what a process left unsent is sent by the next one.

    Raises:
        OSError: There is none to be had.
        sqlite3.Error: It is damaged.
    """
    for slot in range(SLOTS):
        try:
            return Outbox(folder / f"{name}-{slot}.db", capacity)
        except BlockingIOError:
            continue
    raise OSError(f"{SLOTS} processes of {name} have an outbox in {folder} already")
