"""Owns the messages that wait on the device's disk for the broker: oldest first, bounded. It must never know MQTT."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from pathlib import Path
from typing import NamedTuple

CAPACITY = 100_000
"""Maximum number of messages, of a few hundred bytes each: more than a day of one loss per second."""

SLOTS = 64
"""Maximum number of processes of one name that have an outbox in a folder at the same time."""


class Waiting(NamedTuple):
    """A message in the outbox.

    Attributes:
        place: Increases with every message, also across restarts.
    """

    place: int
    topic: str
    payload: bytes


class MessageOutbox:
    """A file of messages. Threads may share it; it excludes other processes.

    Attributes:
        dropped: Number of messages removed unsent since it was opened, because it was full.
    """

    def __init__(self, path: Path, capacity: int = CAPACITY) -> None:
        """Opens the file, or creates it.

        Raises:
            BlockingIOError: Another process has it open.
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
            # Messages survive a crash of the process; a power loss may cost the last ones.
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
        """Stores a message; if the outbox is full, the oldest one is dropped.

        Raises:
            sqlite3.Error: It was not stored.
        """
        with self._mutex:
            self._database.execute("INSERT INTO messages (topic, payload) VALUES (?, ?)", (topic, payload))
            self._count += 1
            if self._count > self._capacity:
                self._database.execute("DELETE FROM messages WHERE place = (SELECT min(place) FROM messages)")
                self._count -= 1
                self.dropped += 1

    def after(self, place: int, most: int) -> list[Waiting]:
        """The oldest messages after a place."""
        with self._mutex:
            rows = self._database.execute(
                "SELECT place, topic, payload FROM messages WHERE place > ? ORDER BY place LIMIT ?", (place, most)
            ).fetchall()
        return [Waiting(*row) for row in rows]

    def remove(self, place: int) -> None:
        """Removes a message that the broker has."""
        with self._mutex:
            self._count -= self._database.execute("DELETE FROM messages WHERE place = ?", (place,)).rowcount

    def __len__(self) -> int:
        return int(self._count)

    def close(self) -> None:
        """Closes the file; its messages stay."""
        with self._mutex:
            self._database.close()
            os.close(self._lock)


def open_first(folder: Path, name: str, capacity: int = CAPACITY) -> MessageOutbox:
    """Opens the first outbox of that name that is free: so a process sends what an earlier one left unsent.

    Raises:
        OSError: None is free.
        sqlite3.Error: It is damaged.
    """
    for slot in range(SLOTS):
        try:
            return MessageOutbox(folder / f"{name}-{slot}.db", capacity)
        except BlockingIOError:
            continue
    raise OSError(f"{SLOTS} processes of {name} already have an outbox in {folder}")
