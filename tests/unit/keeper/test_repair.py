"""TCP connections that CRIU has left in repair mode."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest

from steepest.keeper.kernel import leave_repair

TCP_REPAIR = 19


def test_a_port_is_free_once_its_connections_have_left_repair_and_are_closed() -> None:
    """A server listens again at once, as one does that was never saved."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address), server.accept()[0] as accepted:
            try:
                accepted.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            except PermissionError:
                pytest.skip("only who may administer the network repairs connections")
            leave_repair(os.getpid(), [accepted.fileno()])
            assert not accepted.getsockopt(socket.IPPROTO_TCP, TCP_REPAIR)
            accepted.shutdown(socket.SHUT_WR)  # the first to close keeps the port for a minute
    with contextlib.closing(socket.create_server(address)) as again:
        assert again.getsockname() == address
