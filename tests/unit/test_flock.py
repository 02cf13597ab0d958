"""Locks on open files."""

from __future__ import annotations

from pathlib import Path

from steepest import flock


def test_another_open_file_cannot_take_the_lock_until_it_is_released(tmp_path: Path) -> None:
    """Closing a file releases its lock."""
    path = tmp_path / "lock"
    with path.open("w") as second:
        with path.open("w") as first:
            assert flock.try_lock(first.fileno())
            assert not flock.try_lock(second.fileno())
        assert flock.try_lock(second.fileno())


def test_probing_does_not_keep_the_lock(tmp_path: Path) -> None:
    """After the probe, the lock is free."""
    path = tmp_path / "lock"
    with path.open("w") as holder:
        with path.open() as probe:
            assert not flock.is_locked(probe.fileno())
        flock.lock(holder.fileno())
        with path.open() as probe:
            assert flock.is_locked(probe.fileno())
