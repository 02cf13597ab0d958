"""The label of a state folder, by which an adapter knows its own containers and Jobs among those of others.

It owns the file that keeps it: random, so that two machines with equal paths differ.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets

from steepest.cluster.folders.adapter_folder import AdapterFolder


def label_of(state: AdapterFolder) -> str:
    """The label of a state folder's containers or Jobs: 12 hexadecimal digits.

    Raises:
        OSError: It cannot be written.
    """
    kept = state.path / "label"
    with contextlib.suppress(FileNotFoundError):
        return kept.read_text()
    state.make()
    # Earlier versions labelled their containers with a hash of the folder's path.
    has_jobs = any(state.jobs.iterdir()) or any(state.ended.iterdir())
    drawn = hashlib.sha256(str(state.path.resolve()).encode()).hexdigest()[:12] if has_jobs else secrets.token_hex(6)
    temporary = kept.with_name(f".label.{secrets.token_hex(4)}")
    temporary.write_text(drawn)
    with contextlib.suppress(FileExistsError):  # another process was faster: use its label
        kept.hardlink_to(temporary)
    temporary.unlink()
    return kept.read_text()
