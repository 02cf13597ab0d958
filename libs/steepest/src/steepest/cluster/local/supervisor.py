"""The parent process of one incarnation: starts it, throttles it, stops it, and records how it ended.

It owns the incarnation's process group from fork to exit status, and outlives the process that started it. It must never
know plans, nodes or checkpoints, and imports nothing outside the standard library: it is run by its path with ``-I -S``, so
that it starts fast and stays small.

* It inherits the ``lock`` file locked, and the job ``job.lock``: while a lock is held, its holder lives.
* The job waits on a pipe until ``start.json`` is written: what ran one instruction is recorded, what did not never runs.
* ``exit.json`` is written after the last descendant is dead; with ``place`` where a SIGTERM came too, as in a shutdown.
* The job's output comes through a pipe, and is kept in ``output.log`` and ``output.log.1``: a job that prints endlessly is
  slowed down and does not fill the disk, and a job continues when the disk is full.
* Orders come through the pipe ``orders``, one per line: ``stop <grace in seconds>`` and
  ``share <‰ of the wall clock>``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

ON_LINUX = bool(sys.platform == "linux")
PERIOD_S = 0.1  # the kernel's own bandwidth control uses 100 ms as well (CFS bandwidth control, cpu.cfs_period_us)
MAX_PAUSE_S = 1.0  # after the machine hangs for seconds, the job must not be paused for minutes
MIN_SLICE_S = 0.005  # in shorter slices the scheduler's latency would distort the share
FULL_SHARE = 1000
SHUTDOWN_GRACE_S = 10.0  # after a SIGTERM to the supervisor itself, as when the machine shuts down
SHUTDOWN_HEARD_S = 0.5  # a shutdown sends all processes a SIGTERM, and the job may have got its own one first
SHUT_DOWN = "its supervisor was asked to end, as when the machine shuts down"
KILLED = "it did not leave within its grace and was killed"
OUTPUT_BYTES_MOST = 64 << 20  # of each of two files
OUTPUT_BYTES_S = 2 << 20  # far more than useful output; a job that prints faster blocks
OUTPUT_BURST_BYTES = 16 << 20
NO_EXEC_STATUS = 127  # as a shell reports a program that cannot be run
NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG, errno.ELOOP)
_CHUNK_BYTES = 1 << 16
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def start_mark(pid: int) -> str | None:
    """Distinguishes two processes with the same pid: the start time (proc_pid_stat(5), field 22); None: none."""
    if ON_LINUX:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        return stat.rpartition(")")[2].split()[19]
    completed = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return completed.stdout.strip() or None


class Throttle:
    """Lets a process group run for a share of the time. Times are in seconds of the monotonic clock.

    A stop that comes late lengthens the pause after it, and a late start shortens the next one, so the share holds on a
    busy machine too.
    """

    def __init__(self, group: int, share: int) -> None:
        self._group = group
        self._share = FULL_SHARE
        self._paused = False
        self._since = 0.0
        self._late = 0.0
        self.until = float("inf")
        self.set(share)

    def set(self, share: int) -> None:
        """Change the share, in ‰ of the time. Time run under the previous share is not charged."""
        share = min(max(share, 1), FULL_SHARE)
        if share == self._share:
            return
        self._share = share
        if share == FULL_SHARE:
            self.resume()
        else:
            self._late = 0.0
            self._run(time.monotonic())

    def resume(self) -> None:
        """Let it run without pauses until the share is set again."""
        self._signal(signal.SIGCONT)
        self._paused = False
        self.until = float("inf")

    def tick(self, now: float) -> None:
        """Pause or continue if that is due."""
        if now >= self.until and self._paused:
            self._late = min(now - self.until, PERIOD_S)
            self._run(now)
        elif now >= self.until:
            self._pause(now)

    def _run(self, now: float) -> None:
        self._signal(signal.SIGCONT)
        self._paused = False
        self._since = now
        self.until = now + max(PERIOD_S * self._share / FULL_SHARE, MIN_SLICE_S)

    def _pause(self, now: float) -> None:
        self._signal(signal.SIGSTOP)
        self._paused = True
        owed = (now - self._since) * (FULL_SHARE - self._share) / self._share
        self.until = now + min(max(owed - self._late, 0.0), MAX_PAUSE_S)

    def _signal(self, signum: int) -> None:
        # macOS returns EPERM for a group that contains only zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, signum)


class OutputCapture:
    """Keeps the job's newest output. It opens the folder before the job runs, so the job cannot redirect its writes."""

    def __init__(self, folder: Path, pipe: int) -> None:
        self.pipe = pipe
        self.is_over = False
        os.set_blocking(pipe, False)
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._file, self._size, self._lost = -1, 0, 0
        self._begin()
        self._room, self._since = float(OUTPUT_BURST_BYTES), time.monotonic()

    def wait_s(self, now: float) -> float:
        """For how many seconds the job's output must stay in the pipe, to keep to the rate."""
        self._room = min(self._room + (now - self._since) * OUTPUT_BYTES_S, OUTPUT_BURST_BYTES)
        self._since = now
        return max(-self._room / OUTPUT_BYTES_S, 0.0)

    def copy(self) -> None:
        """Copy one chunk from the pipe to the file."""
        with contextlib.suppress(OSError):  # the pipe is empty, or the disk is full: lost bytes are counted
            chunk = os.read(self.pipe, _CHUNK_BYTES)
            self._room -= len(chunk)
            self.is_over = not chunk
            self._keep(chunk)

    def close(self) -> None:
        """Copy the rest of the pipe, but not until its end: an escaped process may hold the other end open."""
        for _ in range(2 * _PIPE_BYTES // _CHUNK_BYTES):
            self.copy()

    def _keep(self, chunk: bytes) -> None:
        if self._lost and chunk:
            os.write(self._file, b"\n[steepest: %d bytes were not written]\n" % self._lost)
        self._lost += len(chunk)
        if self._size + len(chunk) > OUTPUT_BYTES_MOST:
            with contextlib.suppress(FileNotFoundError):
                os.rename("output.log", "output.log.1", src_dir_fd=self._folder, dst_dir_fd=self._folder)
            full = self._file
            self._begin()
            os.close(full)
        while chunk:
            written = os.write(self._file, chunk)
            chunk, self._size = chunk[written:], self._size + written
        self._lost = 0

    def _begin(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._file = os.open("output.log", flags, 0o644, dir_fd=self._folder)
        self._size = os.fstat(self._file).st_size


class Supervisor:
    """The loop that supervises one running job until all of its processes are dead."""

    def __init__(self, pid: int, orders: int, wake: int, output: OutputCapture, share: int) -> None:
        self._output = output
        self._pid = pid
        self._orders = orders
        self._wake = wake
        self._throttle = Throttle(pid, share)
        self._pending = b""
        self._kill_at: float | None = None
        self._killed = False
        self._shut_down = False

    def run(self) -> tuple[int, str, str]:
        """Supervise to the end; return the exit status, a reason if that is not enough, and how its place ended, if so."""
        while (status := self._reap()) is None:
            now = time.monotonic()
            if self._kill_at is None:
                self._throttle.tick(now)
            elif now >= self._kill_at:
                self._kill()
            self._wait()
        self._kill_rest()
        self._output.close()
        self._hear(within_s=SHUTDOWN_HEARD_S if status != 0 and self._kill_at is None else 0.0)
        return status, KILLED if self._killed else "", SHUT_DOWN if self._shut_down else ""

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM once, and set the time of SIGKILL; a second order can only make it earlier."""
        deadline = time.monotonic() + max(grace_s, 0.0)
        if self._kill_at is None:
            # It saves at full speed: throttled, a save might not finish within the grace.
            self._throttle.resume()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)
            self._kill_at = deadline
        self._kill_at = min(self._kill_at, deadline)

    def _wait(self) -> None:
        until = self._throttle.until if self._kill_at is None else self._kill_at
        now = time.monotonic()
        descriptors = [self._orders, self._wake]
        if pause_s := self._output.wait_s(now):
            until = min(until, now + pause_s)
        elif not self._output.is_over:
            descriptors.append(self._output.pipe)
        timeout = None if until == float("inf") else max(until - now, 0.0)
        ready, _, _ = select.select(descriptors, [], [], timeout)
        if self._output.pipe in ready:
            self._output.copy()
        if self._wake in ready:
            self._hear()
            if self._shut_down:
                self.stop(SHUTDOWN_GRACE_S)
        if self._orders in ready:
            self._pending += os.read(self._orders, 4096)
            *lines, self._pending = self._pending.split(b"\n")
            for line in lines:
                self._obey(line)

    def _hear(self, within_s: float = 0.0) -> None:
        """Read which signals came: SIGTERM is that of a shutdown."""
        deadline = time.monotonic() + within_s
        while not self._shut_down and select.select([self._wake], [], [], max(deadline - time.monotonic(), 0.0))[0]:
            self._shut_down = signal.SIGTERM in os.read(self._wake, 4096)

    def _obey(self, line: bytes) -> None:
        try:
            word, number = line.split()
            if word == b"stop":
                self.stop(float(number))
            elif word == b"share" and self._kill_at is None:
                self._throttle.set(int(number))
        except ValueError:
            sys.stderr.write(f"not an order: {line[:200]!r}\n")

    def _reap(self) -> int | None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError as error:
                raise RuntimeError("the job's exit status was already collected") from error
            if pid == 0:
                return None
            if pid == self._pid:
                return os.waitstatus_to_exitcode(status)

    def _kill(self) -> None:
        self._killed = True
        self._kill_at = float("inf")
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)

    def _kill_rest(self) -> None:
        """The job ends with its first process: kill its other processes, and wait until they are dead."""
        while _descendants_left(self._pid):
            time.sleep(0.005)


def _descendants_left(group: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    for child in _own_children():
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return not ON_LINUX and _group_lives(group)
    return True


def _own_children() -> list[int]:
    """Processes that left the process group and lost their parent: a subreaper becomes their parent (Linux only)."""
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


def _group_lives(group: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, 0)
        return True
    return False


def _prctl(option: int, value: int) -> None:
    if ON_LINUX:
        import ctypes  # noqa: PLC0415 - 2 MB that only Linux needs

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _become_job(order: dict[str, Any], folder: Path, gate: int, failure: int, output: int) -> NoReturn:
    """The child's side of the fork: wait for the gate, then execute the job's program. It never returns."""
    try:
        os.setsid()
        # Without its supervisor nothing would throttle the job, stop it or record its end.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        lock = os.open(folder / "job.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.set_inheritable(lock, True)  # noqa: FBT003 - it takes no keyword
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for signum in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if not os.read(gate, 1):
            os._exit(NO_EXEC_STATUS)
        os.chdir(order["working_dir"])
        os.execve(order["program"], order["command"], os.environ)  # noqa: S606 - no shell on purpose
    except OSError as error:
        os.write(failure, json.dumps({"errno": error.errno, "why": str(error)}).encode())
    finally:
        os._exit(NO_EXEC_STATUS)


def _start_job(order: dict[str, Any], folder: Path, output: int) -> tuple[int, bytes]:
    """Fork, record the start, open the gate; return the pid and the failure (empty: it runs). ``output``: for the job."""
    gate_out, gate_in = os.pipe()
    failure_out, failure_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate_in)
        os.close(failure_out)
        _become_job(order, folder, gate_out, failure_in, output)
    # Only the child may hold these ends: else the reads below would not end when it dies or executes its program.
    os.close(gate_out)
    os.close(failure_in)
    os.close(output)
    try:
        if order["cgroup"]:
            Path(order["cgroup"], "cgroup.procs").write_text(str(pid))
        asked = {name: order[name] for name in ("incarnation", "lock", "boot", "cgroup")}
        start = {"pid": pid, "mark": start_mark(pid), "supervisor": os.getpid(), **asked}
        (folder / ".start.json").write_text(json.dumps(start))
        (folder / ".start.json").replace(folder / "start.json")  # readers see all of it or none
        with contextlib.suppress(BrokenPipeError):  # it has failed, and the other pipe has the reason
            os.write(gate_in, b"g")
        failure = os.read(failure_out, 4096)
    except OSError as error:
        failure = json.dumps({"errno": error.errno, "why": str(error)}).encode()
    os.close(gate_in)
    os.close(failure_out)
    return pid, failure


def _record(folder: Path, status: int, reason: str, place: str = "") -> None:
    """Write the end into the space that was reserved for it, and rename the file into place."""
    reserved = folder / ".exit.json"
    with reserved.open("r+b") as file:
        file.write(json.dumps({"status": status, "reason": reason[:400], "place": place}).encode())
    reserved.replace(folder / "exit.json")


def _wake_pipe() -> int:
    """A descriptor that becomes readable when a child changes state or SIGTERM arrives."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(signum, lambda *_: None)
    for signum in (signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, signal.SIG_IGN)
    return out


def _terminal() -> tuple[int, int]:
    """A pseudo-terminal: our end, and the job's. We keep that too: a terminal without one is readable for ever."""
    import pty  # noqa: PLC0415 - few jobs ask for it
    import termios  # noqa: PLC0415 - as above
    import tty  # noqa: PLC0415 - as above

    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    termios.tcsetwinsize(theirs, (50, 200))  # lines and columns: bars are as wide
    return ours, os.dup(theirs)


def _reply(answer: dict[str, Any]) -> None:
    """Reply to the starting process, which may be dead, and close the pipes to it."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(answer).encode())
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)


def supervise(folder: Path, order: dict[str, Any]) -> None:
    """Run one incarnation, in whose folder is the named pipe ``orders``, to its end. This process' environment is the job's.

    ``order``: ``program``, ``command``, ``working_dir``, ``incarnation``, ``boot``, ``cgroup`` (a folder or None), ``tty``
    (whether it prints to a terminal), ``share`` (‰) and ``lock`` (the inode of the lock that is held).
    """
    wake = _wake_pipe()
    # Open for writing too, so that reading never hits the end of the pipe when a writer closes it.
    orders = os.open(folder / "orders", os.O_RDWR | os.O_NONBLOCK)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    (folder / ".exit.json").write_bytes(b" " * 1024)  # so a full disk does not hide how a job ended
    pipe, output = _terminal() if order.get("tty") else os.pipe()
    with contextlib.suppress(OSError):  # a larger one lets a job print in bursts
        fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)
    kept = OutputCapture(folder, pipe)
    pid, failure = _start_job(order, folder, output)
    if failure:
        os.waitpid(pid, 0)
        _record(folder, NO_EXEC_STATUS, json.loads(failure)["why"])
        _reply(json.loads(failure))
        return
    _reply({"pid": pid})
    _record(folder, *Supervisor(pid, orders, wake, kept, order["share"]).run())


def main() -> None:
    """Read the order from standard input, leave the caller's process tree, and supervise.

    Arguments: the incarnation's folder, and the numbers of the descriptors of the lock and, if any, of its relay's pipe.
    """
    folder = Path(sys.argv[1])
    for inherited in sys.argv[2:]:  # the job must not have them: they show that the supervisor lives
        os.set_inheritable(int(inherited), False)  # noqa: FBT003 - it takes no keyword
    order = json.loads(sys.stdin.buffer.read()) | {"lock": os.fstat(int(sys.argv[2])).st_ino}
    if os.fork() == 0:  # the caller waits for the first process only; the second outlives the caller
        supervise(folder, order)


if __name__ == "__main__":
    main()
