"""The gang among the demo jobs: as many processes as there are train the same model, and a lost one is noticed."""

from __future__ import annotations

import functools
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.unit.demo_jobs.conftest import PATIENCE_S
from tests.unit.demo_jobs.gang_processes import Gangs, ends, free_ports, wait_for

from steepest_lab.jobs.all_reduce import connected
from steepest_lab.jobs.gangs.star import PeerLost
from steepest_sdk import EXIT_STOPPED


@pytest.fixture
def gangs(tmp_path: Path) -> Iterator[Gangs]:
    """Starts gangs; all that is left of them is killed."""
    made = Gangs(tmp_path)
    yield made
    made.kill()


SIZE = ("--steps", "20", "--work", "0.5", "--seed", "3")


def test_any_number_of_processes_has_the_same_losses(gangs: Gangs) -> None:
    """One, two and three processes train the same model: each loss is the same to 1e-6, and only the chief reports it."""
    for world_size in (1, 2, 3):
        assert ends(gangs.start(world_size, *SIZE)) == [0] * world_size

    assert len(gangs.losses(1)) == 20
    assert gangs.losses(1)[-1] < gangs.losses(1)[0] * 0.9
    np.testing.assert_allclose(gangs.losses(2), gangs.losses(1), rtol=0, atol=1e-6)
    np.testing.assert_allclose(gangs.losses(3), gangs.losses(1), rtol=0, atol=1e-6)
    assert [report["metrics"] for report in gangs.reports(3, 2)] == [{}] * 20


@pytest.mark.long
def test_a_gang_goes_on_with_fewer_processes(gangs: Gangs) -> None:
    """Saved by three and resumed by two: the losses go on as those of a single process without a stop."""
    assert ends(gangs.start(1, *SIZE)) == [0]
    three = gangs.start(3, *SIZE, asked=True)
    checkpoint = gangs.saved(2)
    for process in reversed(three):
        process.terminate()
    assert ends(three) == [EXIT_STOPPED] * 3
    assert ends(gangs.start(2, *SIZE, restore=checkpoint)) == [0, 0]

    together = gangs.losses(2) + gangs.losses(3)
    assert gangs.losses(2)
    assert gangs.losses(3)
    np.testing.assert_allclose(together, gangs.losses(1), rtol=0, atol=1e-6)


def test_a_killed_process_ends_the_others_and_costs_no_step(gangs: Gangs) -> None:
    """When a peer is killed in mid-step the others say so and fail; the chief has saved its last complete step."""
    three = gangs.start(3, "--steps", "100000")
    wait_for(lambda: len(gangs.reports(1)) >= 3)
    three[1].kill()
    said = [process.communicate(timeout=PATIENCE_S)[0] for process in (three[0], three[2])]

    assert ends(three) == [1, -signal.SIGKILL, 1]
    assert "rank 0 of 3 has lost a peer after step" in said[0]
    assert "rank 2 of 3 has lost a peer after step" in said[1]
    last = gangs.reports(1)[-1]["step"]
    assert (gangs.root / "checkpoints" / f"step-{last:08d}-i0001").is_dir()


def test_a_stopped_gang_leaves_with_the_status_of_a_stop(gangs: Gangs) -> None:
    """SIGTERM to one after the other is a stop for all: the chief saves, though its peers have left before it."""
    two = gangs.start(2, "--steps", "100000")
    wait_for(lambda: gangs.reports(1))
    two[1].terminate()
    assert two[1].wait(PATIENCE_S) == EXIT_STOPPED
    two[0].terminate()

    assert two[0].wait(PATIENCE_S) == EXIT_STOPPED
    assert list((gangs.root / "checkpoints").glob("step-*"))


def test_a_chief_whose_peers_never_come_can_be_stopped(gangs: Gangs) -> None:
    """A gang that started in part is taken back: its chief leaves on SIGTERM though it waits for the others."""
    chief, worker = gangs.start(2, *SIZE)
    worker.kill()
    wait_for((gangs.control(1, 0) / "hello.json").exists)
    chief.terminate()

    assert chief.wait(PATIENCE_S) == EXIT_STOPPED


def test_a_stranger_is_no_peer() -> None:
    """What connects to rank 0 and does not greet as a peer of this gang is sent away; the peer is waited for."""
    peers = [("127.0.0.1", port) for port in free_ports(2)]
    sums: list[float] = []

    def chief() -> None:
        with connected(0, peers, patience_s=PATIENCE_S) as gang:
            sums.append(float(gang.sum(1, np.ones(3))[0]))

    serving = threading.Thread(target=chief)
    serving.start()
    for greeting in (b"GET / HTTP/1.1\r\n", b""):
        wait_for(functools.partial(_greets, peers[0], greeting))
    with connected(1, peers, patience_s=PATIENCE_S) as gang:
        assert float(gang.sum(1, np.ones(3))[0]) == 2.0
    serving.join()
    assert sums == [2.0]


def _greets(address: tuple[str, int], greeting: bytes) -> bool:
    try:
        with socket.create_connection(address, timeout=1.0) as stranger:
            stranger.sendall(greeting)
    except OSError:
        return False
    return True


def test_peers_of_different_steps_do_not_add_up() -> None:
    """Two processes that are not at the same step do not sum their gradients: both know that something is wrong."""
    peers = [("127.0.0.1", port) for port in free_ports(2)]
    failures: list[str] = []

    def chief() -> None:
        try:
            with connected(0, peers, patience_s=PATIENCE_S) as gang:
                gang.sum(5, np.ones(3))
        except PeerLost as error:
            failures.append(str(error))

    serving = threading.Thread(target=chief)
    serving.start()
    with pytest.raises(PeerLost), connected(1, peers, patience_s=PATIENCE_S) as gang:
        gang.sum(4, np.ones(3))
    serving.join()

    assert failures == ["step 5: rank 1 sent (1, 2, 4, 3), not (1, 2, 5, 3)"]


def test_a_peer_that_never_comes_is_named() -> None:
    """Rank 0 says which ranks it has missed."""
    peers = [("127.0.0.1", port) for port in free_ports(3)]

    with pytest.raises(PeerLost, match=r"ranks \[1, 2\] have not called"), connected(0, peers, patience_s=0.1):
        pass
