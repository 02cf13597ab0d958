"""A table of what a process may hold: what moves with it, and what is refused with a reason while the job runs on."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.kept_job import kept
from tests.integration.kept import cases

from steepest.errors import RefusedError
from steepest.events.common import CheckpointMode

REFUSED = {
    "ring": "io-uring",
    "page_faults": "userfaultfd",
    "counter_of_the_kernel": "perf-event",
    "kernel_map": "bpf",
    "foreign_device": "device",
    "socket_out": "outside-socket",
    "old_shared_memory": "shared-memory",
    "traced_child": "traced",
    "sandbox": "namespace",
    "connections_in_and_out": "connections",
    "daemon": "left-tree",
    "expired_timer": "timer",
}
"""What cannot be saved, and the code of the reason."""

HELPERS = {"main", "_worker", "_square", "_timer"}
MOVES = [
    name
    for name, value in vars(cases).items()
    if callable(value) and value.__module__ == cases.__name__ and name not in HELPERS | REFUSED.keys()
]
FEW = {
    "unlinked_file",
    "spawned_worker",
    "many_threads",
    "database",
    "connection_out",
    "own_connection",
    "connection_of_two_versions",
}
"""Those that every form of a run moves."""


@contextlib.contextmanager
def outside(folder: Path) -> Iterator[dict[str, str]]:
    """A process outside the job to which it may connect: a Unix socket, and a port."""
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as tcp:
        unix.bind(str(folder / "outside"))
        unix.listen()
        held: list[socket.socket] = []
        for server in (unix, tcp):
            threading.Thread(target=_accept, args=(server, held), daemon=True).start()
        yield {"OUTSIDE_SOCKET": str(folder / "outside"), "OUTSIDE_PORT": str(tcp.getsockname()[1])}
        for each in held:
            each.close()


def _accept(server: socket.socket, held: list[socket.socket]) -> None:
    with contextlib.suppress(OSError):
        held.append(server.accept()[0])


def _command(name: str) -> tuple[str, ...]:
    return (sys.executable, str(Path(str(cases.__file__))), name)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.end_to_end] if name in FEW else []) for name in sorted(MOVES)]
)
async def test_what_a_process_holds_moves_with_it(tmp_path: Path, name: str) -> None:
    """After a move, what the process has set up before still works."""
    with outside(tmp_path) as env:
        async with kept(tmp_path / "state", _command(name), CheckpointMode.AUTO, **env) as job:
            await job.printed(1)
            assert job.output == "ready\n"
            await job.move()
            (tmp_path / "go").touch()
            assert await job.end() == 0, job.output
            assert job.output == "ready\nOK\n"


@pytest.mark.end_to_end
@pytest.mark.parametrize("name", sorted(REFUSED))
async def test_what_cannot_be_saved_runs_on_with_the_reason(tmp_path: Path, name: str) -> None:
    """A save is refused with a code, the job is not harmed by it, and it counts as unmovable with that reason."""
    with outside(tmp_path) as env:
        async with kept(tmp_path / "state", _command(name), CheckpointMode.AUTO, **env) as job:
            await job.printed(1)
            assert job.output == "ready\n"
            with pytest.raises(RefusedError, match=REFUSED[name]) as refused:
                await job.save()
            assert refused.value.code == "checkpoint-refused"
            if REFUSED[name] != "timer":
                report = await job.declared(CheckpointMode.NONE)
                assert report.mode_reason.startswith(f"{REFUSED[name]}: ")
            (tmp_path / "go").touch()
            assert await job.end() == 0, job.output
            assert job.output == "ready\nOK\n"
