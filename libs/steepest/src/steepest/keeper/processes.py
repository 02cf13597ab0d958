"""What ``/proc`` says about the processes of this PID namespace. It changes nothing.

It finds what CRIU cannot save, and what it would restore wrongly, so that no job is stopped without effect.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_OPEN_FOR_WRITING = os.O_WRONLY | os.O_RDWR
_MEMORY = ("RssAnon:", "RssShmem:")
_KIB = 1024
_WORDS_MOST = 400
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class CannotBeSaved(Exception):  # noqa: N818 - it is no fault of anybody
    """Why these processes cannot be saved or restored now.

    Attributes:
        code: A word of ``docs/system-checkpoints.md``.
    """

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{code}: {why}"[:_WORDS_MOST])
        self.code = code


def because_of(error: Exception) -> CannotBeSaved:
    """The refusal that an error which is none yet stands for."""
    is_full = isinstance(error, OSError) and error.errno in _NO_ROOM
    return CannotBeSaved("disk-full" if is_full else "other", str(error) if isinstance(error, OSError) else repr(error))


class JobLostError(Exception):
    """The job is gone for no fault of its own.

    The first try to restore its image has failed, so that another node may have what this one lacks; or CRIU was killed in
    the middle of a save, and what it had left in the job has ended it.
    """


class NamespaceProcess(NamedTuple):
    """A process of this namespace."""

    pid: int
    parent: int
    state: str


def others() -> list[NamespaceProcess]:
    """All processes of this PID namespace but this one, zombies included; not those that joined it from outside."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - a Path for each entry would dominate the cost
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
                if words[1] != "0":
                    found.append(NamespaceProcess(int(name), int(words[1]), words[0]))
    return found


def left_tree(root: int, found: Iterable[NamespaceProcess]) -> list[int]:
    """The processes that are no descendants of the job's first one: CRIU saves a tree."""
    parents = {each.pid: each.parent for each in found}
    inside = {root}
    for pid in parents:
        line: list[int] = []
        at: int | None = pid
        while at is not None and at not in inside and len(line) < len(parents):
            line.append(at)
            at = parents.get(at)
        if at in inside:
            inside.update(line)
    return [each.pid for each in found if each.pid not in inside and each.state != "Z"]


def stopped(found: Iterable[NamespaceProcess]) -> list[int]:
    """Those that are stopped already, by a signal or a tracer: they are not to be continued."""
    return [each.pid for each in found if each.state in "Tt"]


def memory_bytes(pids: Iterable[int]) -> int:
    """What an image of these processes has at most, before it is compressed."""
    total = 0
    for pid in pids:
        total += sum(int(line.split()[1]) for line in _lines(f"/proc/{pid}/status") if line.startswith(_MEMORY))
    return total * _KIB


def refuse_unsavable(pids: Iterable[int]) -> None:
    """Look at each process from outside.

    Raises:
        CannotBeSaved: One has something that no image can hold.
    """
    for pid in pids:
        if why := _traced(pid) or _in_other_namespace(pid):
            raise CannotBeSaved(*why)
        for descriptor, link in links(pid):
            for kind, (code, what) in _UNSAVABLE.items():
                if link.startswith(kind):
                    raise CannotBeSaved(code, f"{_name(pid)} has {what}")
            known = _is_savable(link.removeprefix("/dev/"))
            if link.startswith("/dev/") and not known and _is_device(f"/proc/{pid}/fd/{descriptor}"):
                raise CannotBeSaved("device", f"{_name(pid)} has {link} open")


_UNSAVABLE: Mapping[str, tuple[str, str]] = {
    "anon_inode:[io_uring]": ("io-uring", "an io_uring"),
    "anon_inode:[userfaultfd]": ("userfaultfd", "a userfaultfd"),
    "anon_inode:[perf_event]": ("perf-event", "a performance counter of the kernel"),
    "anon_inode:bpf": ("bpf", "a BPF object"),
}

_HARMLESS_DEVICES = (
    "null",
    "zero",
    "full",
    "random",
    "urandom",
    "tty",
    "pts/",
    "ptmx",
    "shm/",
    "mqueue/",
    "hugepages/",
)

CUDA_PLUGIN = Path("/usr/lib/criu/cuda_plugin.so")
"""NVIDIA's plug-in, in the folder where CRIU looks for such: it takes what a GPU holds into the process before the save."""


def _is_savable(device: str) -> bool:
    return device.startswith(_HARMLESS_DEVICES) or (device.startswith("nvidia") and CUDA_PLUGIN.exists())


def _is_device(path: str) -> bool:
    with contextlib.suppress(OSError):
        mode = Path(path).stat().st_mode
        return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    return False


def _traced(pid: int) -> tuple[str, str] | None:
    for line in _lines(f"/proc/{pid}/status"):
        if line.startswith("TracerPid:") and line.split()[1] != "0":
            return "traced", f"{_name(pid)} is traced by process {line.split()[1]}, as by a debugger"
    return None


def _in_other_namespace(pid: int) -> tuple[str, str] | None:
    for kind in ("user", "mnt", "pid_for_children"):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink():
                return "namespace", f"{_name(pid)} has a {kind} namespace of its own, as in a sandbox"
    return None


def links(pid: int) -> Iterator[tuple[int, str]]:
    """The open descriptors of a process, and what each leads to."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - as above
            with contextlib.suppress(OSError):
                yield int(name), str(Path(f"/proc/{pid}/fd/{name}").readlink())


def programs(pids: Iterable[int]) -> list[str]:
    """The files whose code these processes have mapped: programs and libraries."""
    mapped = (line for pid in pids for line in _lines(f"/proc/{pid}/maps") if "/" in line)
    return list(dict.fromkeys("/" + line.partition("/")[2] for line in mapped if "x" in line.split(maxsplit=2)[1]))


def refuse_own_files(pids: Iterable[int], since_s: float) -> None:
    """Refuse what processes use and their container alone has: another one, of the same image, has it not.

    Args:
        pids: The processes.
        since_s: When the container began, in seconds since 1970.

    Raises:
        CannotBeSaved: ``own-file``.
    """
    mounts = [line.split()[1] for line in _lines("/proc/self/mounts")]
    for pid in pids:
        sockets = dict(each.split()[6:8] for each in _lines(f"/proc/{pid}/net/unix") if "/" in each)
        paths = [sockets.get(link[8:-1], link) for _, link in links(pid)]
        paths += ["/" + line.partition("/")[2] for line in _lines(f"/proc/{pid}/maps") if "/" in line]
        for path in dict.fromkeys(path for path in paths if path.startswith("/")):
            inside = max((each for each in mounts if f"{path}/".startswith(each.rstrip("/") + "/")), key=len)
            with contextlib.suppress(OSError):
                is_own = inside == "/" or (inside == SHARED_MEMORY and path.count("/") > inside.count("/") + 1)
                if is_own and os.lstat(path).st_ctime >= since_s:
                    raise CannotBeSaved("own-file", f"{_name(pid)} uses {path}, which only its container has")


SHARED_MEMORY = "/dev/shm"  # noqa: S108 - not for a file of this process
"""Its files, but none in a folder there, are in the image of a container."""


def connections(pids: Iterable[int]) -> dict[str, str]:
    """The TCP connections of these processes: how much each has received and not read, by its own address and its peer's."""
    held = {link[8:-1] for pid in pids for _, link in links(pid) if link.startswith("socket:[")}
    ours = {}
    for line in (line for table in ("tcp", "tcp6") for line in _lines(f"/proc/self/net/{table}")[1:]):
        words = line.split()
        if words[9] in held and words[3] != _LISTENING:
            ours[f"{words[1].removeprefix(_MAPPED)} {words[2].removeprefix(_MAPPED)}"] = words[4].partition(":")[2]
    return ours


def are_connected(found: Collection[str], *, contained: bool = False) -> bool:
    """Whether processes have these connections among themselves; such are restored, and others are closed.

    Raises:
        CannotBeSaved: ``connections``: they have both, and CRIU restores all or none; ``contained``: in a container, none.
    """
    inner = [each for each in found if " ".join(reversed(each.split())) in found]
    if inner and len(inner) != len(found):
        raise CannotBeSaved("connections", "it has TCP connections among its own processes and to others")
    if inner and contained:
        raise CannotBeSaved("connections", "its processes have TCP connections among themselves, in a container")
    return bool(inner)


_LISTENING = "0A"
_MAPPED = "0000000000000000FFFF0000"  # an address of version 4 in the table of version 6


def stand_still(limit_s: float) -> None:
    """Stop all processes of this namespace but this one, those included that they make meanwhile.

    Raises:
        CannotBeSaved: ``busy``: one runs on after ``limit_s`` seconds, for example because it waits for a disk.
    """
    deadline = time.monotonic() + limit_s
    while running := [each.pid for each in others() if each.state not in "TtZX"]:
        if time.monotonic() >= deadline:
            raise CannotBeSaved("busy", f"{names(running)} could not be stopped")
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(0.001)


class WrittenFiles(NamedTuple):
    """The files that stopped processes have open for writing.

    Attributes:
        sizes: Their sizes. What is written behind them after the image, a restored process writes again.
        rewritten: Whether one of them may be changed in place: then only the newest image fits the files.
    """

    sizes: dict[str, int]
    rewritten: bool


def written_files(pids: Iterable[int]) -> WrittenFiles:
    """What these processes, which stand still, write to."""
    sizes: dict[str, int] = {}
    rewritten = False
    for pid in pids:
        for descriptor, path in links(pid):
            flags = int(fields(f"/proc/{pid}/fdinfo/{descriptor}").get("flags", "0"), 8)
            if flags & _OPEN_FOR_WRITING and path.startswith("/") and not path.startswith("/dev/"):
                with contextlib.suppress(OSError):
                    found = os.lstat(path)
                    if stat.S_ISREG(found.st_mode):
                        sizes[path] = found.st_size
                        rewritten = rewritten or bool(flags & os.O_RDWR)
    return WrittenFiles(sizes, rewritten)


def refuse_dead_timer(pids: Iterable[int]) -> None:
    """A periodic timer that has expired and was not read yet would never expire again, and its job would hang silently.

    Raises:
        CannotBeSaved: There is one now; a moment later there may be none.
    """
    for pid in pids:
        for descriptor, link in links(pid):
            if link == "anon_inode:[timerfd]":
                lines = fields(f"/proc/{pid}/fdinfo/{descriptor}")
                if "(0, 0)" in lines.get("it_value", "") and "(0, 0)" not in lines.get("it_interval", "(0, 0)"):
                    raise CannotBeSaved("timer", f"{_name(pid)} has a timer that has just expired")


def _name(pid: int) -> str:
    return f"process {pid} ({next(iter(_lines(f'/proc/{pid}/comm')), 'ended')})"


def names(pids: Iterable[int]) -> str:
    """The processes for people."""
    return ", ".join(_name(pid) for pid in pids)


def fields(path: str) -> dict[str, str]:
    """A file of ``name: value`` lines; of a name that comes again, the last value."""
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in _lines(path))}


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []
