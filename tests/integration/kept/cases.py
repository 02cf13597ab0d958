"""What a process may hold, one feature each: ``cases.py NAME``.

A case is a generator: what it has set up before its ``yield`` must work after it. In between it prints ``ready``, and waits
until the file ``go`` is in its folder. Then it prints ``OK``, or the error that it met.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import mmap
import multiprocessing
import os
import resource
import select
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

Case = Iterator[None]
libc = ctypes.CDLL(None, use_errno=True)


def read_file() -> Case:
    Path("data").write_bytes(bytes(range(256)) * 100)
    with Path("data").open("rb", buffering=0) as file:
        file.read(1000)
        yield
        assert file.read(4) == bytes(range(1000 % 256, 1000 % 256 + 4))


def mapped_file() -> Case:
    Path("mapped").write_bytes(bytes(1 << 16))
    with Path("mapped").open("r+b") as file:
        shared, private = mmap.mmap(file.fileno(), 0), mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        shared[1], private[1] = 7, 8
        yield
        shared[2] = 9
        assert (shared[1], private[1], Path("mapped").read_bytes()[2]) == (7, 8, 9)


def unlinked_file() -> Case:
    with tempfile.TemporaryFile(dir=".") as file:
        file.write(b"kept" * 100_000)
        file.flush()
        yield
        file.seek(0)
        assert file.read() == b"kept" * 100_000


def name_that_is_gone() -> Case:
    Path("first").write_text("x")
    os.link("first", "second")
    with Path("first").open() as file:
        Path("first").unlink()
        yield
        assert file.read() == "x"


def folder_that_is_gone() -> Case:
    Path("gone").mkdir()
    os.chdir("gone")
    Path("../gone").rmdir()
    yield


def shared_memory_block() -> Case:
    block = shared_memory.SharedMemory(create=True, size=4096)
    assert block.buf is not None
    block.buf[5] = 9
    yield
    again = shared_memory.SharedMemory(block.name)
    assert again.buf is not None
    assert again.buf[5] == 9
    again.close()
    block.close()
    block.unlink()


def memory_file() -> Case:
    descriptor = os.memfd_create("x")
    os.write(descriptor, b"hello")
    yield
    assert os.pread(descriptor, 5, 0) == b"hello"


def _square(numbers: Any, answers: Any) -> None:
    for number in iter(numbers.get, None):
        answers.put(number * number)


def _worker(context: Any) -> Case:
    numbers, answers = context.Queue(), context.Queue()
    process = context.Process(target=_square, args=(numbers, answers))
    process.start()
    numbers.put(2)
    assert answers.get(timeout=30) == 4
    yield
    numbers.put(3)
    assert answers.get(timeout=30) == 9
    numbers.put(None)
    process.join(30)
    assert process.exitcode == 0


def forked_worker() -> Case:
    yield from _worker(multiprocessing.get_context("fork"))


def spawned_worker() -> Case:
    yield from _worker(multiprocessing.get_context("spawn"))


def fork_server() -> Case:
    yield from _worker(multiprocessing.get_context("forkserver"))


def pool() -> Case:
    with multiprocessing.Pool(2) as workers:
        assert workers.map(abs, (-1, -2)) == [1, 2]
        yield
        assert workers.map(abs, (-3, -4)) == [3, 4]


def child_with_pipes() -> Case:
    command = ["sh", "-c", "while read x; do echo got $x; done"]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, bufsize=1) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        yield
        child.stdin.write("1\n")
        assert child.stdout.readline() == "got 1\n"
        child.stdin.close()


def zombie() -> Case:
    pid = os.fork()
    if pid == 0:
        os._exit(5)
    yield
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5


def stopped_child() -> Case:
    pid = os.fork()
    if pid == 0:
        time.sleep(1000)
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    yield
    assert Path(f"/proc/{pid}/stat").read_text().split()[2] == "T"
    os.kill(pid, signal.SIGKILL)


def new_processes() -> Case:
    yield
    for _ in range(5):
        subprocess.run(["true"], check=True)


def pair_of_sockets() -> Case:
    one, other = socket.socketpair()
    one.send(b"a")
    yield
    other.send(b"b")
    assert (other.recv(1), one.recv(1)) == (b"a", b"b")


def unix_listener() -> Case:
    server = socket.socket(socket.AF_UNIX)
    server.bind("socket")
    server.listen()
    yield
    client = socket.socket(socket.AF_UNIX)
    client.connect("socket")
    server.accept()[0].send(b"x")
    assert client.recv(1) == b"x"


def tcp_listener() -> Case:
    server = socket.create_server(("127.0.0.1", 0))
    yield
    client = socket.create_connection(server.getsockname())
    server.accept()[0].send(b"x")
    assert client.recv(1) == b"x"


def own_connection() -> Case:
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    other = server.accept()[0]
    client.sendall(b"sent before")
    yield
    assert other.recv(11, socket.MSG_WAITALL) == b"sent before"
    other.sendall(b"x" * 100_000)
    assert len(client.recv(100_000, socket.MSG_WAITALL)) == 100_000


def connection_of_two_versions() -> Case:
    server = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    pid = os.fork()
    if pid == 0:
        with socket.create_connection(("127.0.0.1", server.getsockname()[1])) as client:
            client.sendall(client.recv(1))
        os._exit(0)
    other = server.accept()[0]
    yield
    other.sendall(b"x")
    assert other.recv(1) == b"x"
    os.waitpid(pid, 0)


def datagrams() -> Case:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("127.0.0.1", 0))
    yield
    one.sendto(b"x", one.getsockname())
    assert one.recv(1) == b"x"


def polled_pipe() -> Case:
    out, into = os.pipe()
    poll = select.epoll()
    poll.register(out, select.EPOLLIN)
    yield
    os.write(into, b"x")
    assert poll.poll(10) == [(out, select.EPOLLIN)]


def event_counter() -> Case:
    counter = os.eventfd(3)
    yield
    assert os.eventfd_read(counter) == 3


def watched_folder() -> Case:
    Path("watched").mkdir()
    watch = libc.inotify_init()
    libc.inotify_add_watch(watch, b"watched", 0x100)
    yield
    Path("watched/new").touch()
    assert len(os.read(watch, 4096)) > 0


def event_loop() -> Case:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(asyncio.sleep(0))
    yield
    process = loop.run_until_complete(asyncio.create_subprocess_exec("true"))
    assert loop.run_until_complete(process.wait()) == 0


def many_threads() -> Case:
    lock, counted, over = threading.Lock(), [0], threading.Event()

    def count() -> None:
        while not over.wait(0.001):
            with lock:
                counted[0] += 1

    threads = [threading.Thread(target=count) for _ in range(20)]
    for each in threads:
        each.start()
    yield
    before = counted[0]
    time.sleep(0.2)
    over.set()
    assert counted[0] > before


def repeated_alarm() -> Case:
    rung: list[int] = []
    signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    yield
    before = len(rung)
    time.sleep(0.5)
    assert len(rung) > before


def monotonic_clock() -> Case:
    before = time.monotonic()
    yield
    assert 0 <= time.monotonic() - before < 120


def limits() -> Case:
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
    nice = os.nice(3)
    yield
    assert (resource.getrlimit(resource.RLIMIT_NOFILE), os.nice(0)) == ((200, 300), nice)


def locked_files() -> Case:
    with Path("one").open("w") as one, Path("two").open("w") as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        fcntl.lockf(two, fcntl.LOCK_EX)
        yield
        with Path("one").open("w") as again:
            try:
                fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            raise AssertionError("the lock is lost")


def database() -> Case:
    data = sqlite3.connect("x.db", isolation_level=None)
    data.execute("pragma journal_mode=wal")
    data.execute("create table t(i)")
    data.execute("insert into t values(1)")
    yield
    data.execute("insert into t values(2)")
    assert data.execute("select count(*) from t").fetchone() == (2,)


def own_terminal() -> Case:
    ours, theirs = os.openpty()
    child = subprocess.Popen(["cat"], stdin=theirs, stdout=theirs, start_new_session=True)
    yield
    os.write(ours, b"hi\n")
    assert os.read(ours, 2) == b"hi"
    child.kill()
    child.wait()


def random_device() -> Case:
    with Path("/dev/urandom").open("rb", buffering=0) as file:
        yield
        assert len(file.read(8)) == 8


def handle_of_a_process() -> Case:
    pid = os.fork()
    if pid == 0:
        time.sleep(1000)
    handle = os.pidfd_open(pid)
    yield
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    os.waitpid(pid, 0)


def huge_pages() -> Case:
    block = mmap.mmap(-1, 8 << 20)
    block.madvise(mmap.MADV_HUGEPAGE)
    block.write(b"x" * (8 << 20))
    yield
    assert block[:10] == b"x" * 10


def slow_timer() -> Case:
    timer = _timer(0.4)
    os.read(timer, 8)
    yield
    assert len(os.read(timer, 8)) == 8


def _timer(every_s: float) -> int:
    timer: int = libc.timerfd_create(1, 0)
    every = int(every_s * 1e9)
    libc.timerfd_settime(timer, 0, struct.pack("qqqq", 0, every, 0, every), None)
    return timer


def connection_out() -> Case:
    client = socket.create_connection(("127.0.0.1", int(os.environ["OUTSIDE_PORT"])))
    yield
    try:
        client.sendall(b"x")
        assert client.recv(1) == b""
    except OSError:
        return


# --- what cannot be saved ---------------------------------------------------------------------------------------------


def ring() -> Case:
    assert libc.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0
    yield


def page_faults() -> Case:
    assert libc.syscall(323, 1) >= 0
    yield


def counter_of_the_kernel() -> Case:
    attributes = ctypes.create_string_buffer(struct.pack("IIQ", 1, 120, 0) + b"\0" * 104)
    assert libc.syscall(298, attributes, 0, -1, -1, 0) >= 0
    yield


def kernel_map() -> Case:
    attributes = ctypes.create_string_buffer(struct.pack("IIIII", 2, 4, 8, 16, 0) + b"\0" * 100)
    assert libc.syscall(321, 0, attributes, 120) >= 0
    yield


def foreign_device() -> Case:
    os.open("/dev/kmsg", os.O_RDONLY)
    yield


def socket_out() -> Case:
    client = socket.socket(socket.AF_UNIX)
    client.connect(os.environ["OUTSIDE_SOCKET"])
    yield
    client.send(b"x")


def old_shared_memory() -> Case:
    number = libc.shmget(0, 4096, 0o1600)
    libc.shmat.restype = ctypes.c_void_p
    assert libc.shmat(number, None, 0)
    libc.shmctl(number, 0, None)
    yield


def traced_child() -> Case:
    pid = os.fork()
    if pid == 0:
        libc.ptrace(0, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(pid, 0)
    yield
    os.kill(pid, signal.SIGKILL)


def sandbox() -> Case:
    assert libc.unshare(0x20000) == 0
    yield


def connections_in_and_out() -> Case:
    server = socket.create_server(("127.0.0.1", 0))
    held = [socket.create_connection(server.getsockname()), server.accept()[0]]
    held.append(socket.create_connection(("127.0.0.1", int(os.environ["OUTSIDE_PORT"]))))
    yield
    held[0].sendall(b"x")
    assert held[1].recv(1) == b"x"


def daemon() -> Case:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    os.wait()
    yield


def expired_timer() -> Case:
    timer = _timer(0.01)
    time.sleep(0.1)
    yield
    os.read(timer, 8)
    assert len(os.read(timer, 8)) == 8


def main() -> None:
    """Run a case in its own folder."""
    case: Case = globals()[sys.argv[1]]()
    home = Path.cwd()
    next(case)
    print("ready", flush=True)  # noqa: T201 - what it has to say
    while not (home / "go").exists():
        time.sleep(0.02)
    try:
        next(case, None)
    except BaseException as error:
        print(repr(error), flush=True)  # noqa: T201 - as above
        raise
    print("OK", flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    main()
