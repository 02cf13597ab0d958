"""A link between the lab's two nodes: the second one as a machine of its own, which reaches the volume over it.

That node gets a network namespace, joined to this machine by one pair of devices whose rate ``tc``'s token bucket
filter limits in both directions, and a mount namespace in which the volume is mounted over the link: SFTP over plain
TCP, from this machine, where the other node is. So what a job on the second node reads and writes crosses the link, as
it would with a volume that a file server in the first node's rack serves. Only that node's own address may connect,
because the server acts as root.

It owns the namespaces, the link, and the daemons of the volume; it must never know what the node runs. There is no
delay, only a rate. No kube-proxy runs in the namespace: its pods reach pods of both nodes, DNS and the API server's own
address, and no Service.

Sources: ip-netns(8), veth(4), tc-tbf(8), nsenter(1), unshare(1), sshfs(1), bindfs(1).
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from steepest.errors import ClusterError
from tools.kubernetes_lab.daemons import Daemons
from tools.kubernetes_lab.layout import NODES, LabFolder, daemon_environment, search_path

MEMBER = NODES[1]
"""The node behind the link."""

NEAR, FAR = "10.89.0.1", "10.89.0.2"
"""The link's addresses: this machine's, and the node's."""

DEVICE = "steepest-link"
PORT = 8445
SPACE = "steepest-node-b"
SERVER, MOUNT, OWNERS = "volume-server", "volume-mount", "volume-owners"
"""The daemons: what serves the volume; what mounts it, and keeps the mount namespace; and what makes new files their user's
own, because the server makes all of them as root."""

_UPLINK = "uplink"
_SFTP_SERVER = Path("/usr/lib/openssh/sftp-server")
_TOOLS = ("ip", "tc", "nsenter", "unshare", "socat", "sshfs", "bindfs")
_BURST_S, _BURST_KBIT_LEAST = 0.0026, 32  # a bucket that a timer of 250 Hz can fill at the full rate
_LATENCY = "50ms"
_READY_S = 30.0

_AT_ONCE = "auto_cache,attr_timeout=0,entry_timeout=0,negative_timeout=0"
"""What one machine writes the other one sees at its next look; what has not changed is not read again."""

_SSHFS = ("-o", _AT_ONCE, "-o", "allow_other,default_permissions,idmap=none,dir_cache=no", "-o", f"directport={PORT}")


class NodeLink:
    """The link of a lab.

    Args:
        folder: The lab's.
        daemons: The lab's.
    """

    def __init__(self, folder: LabFolder, daemons: Daemons) -> None:
        self._folder = folder
        self._daemons = daemons
        self._mounted = folder.run / "far-volume"

    @property
    def is_made(self) -> bool:
        """Whether it is there."""
        return Path("/sys/class/net", DEVICE).exists()

    def make(self) -> None:
        """Make it, at no limited rate, with the volume at its far end.

        Raises:
            ClusterError: A daemon ends, or the volume is not mounted in time.
        """
        self.close()  # what one that failed has left
        try:
            self._join()
            self._mount()
        except ClusterError:
            self.close()
            raise

    def _join(self) -> None:
        inside = ("-n", SPACE)
        _run("ip", "netns", "add", SPACE)
        _run("ip", "link", "add", DEVICE, "type", "veth", "peer", "name", _UPLINK, "netns", SPACE)
        _run("ip", "address", "add", f"{NEAR}/30", "dev", DEVICE)
        _run("ip", *inside, "address", "add", f"{FAR}/30", "dev", _UPLINK)
        _run("ip", "link", "set", DEVICE, "up")
        for device in ("lo", _UPLINK):
            _run("ip", *inside, "link", "set", device, "up")
        _run("ip", "route", "add", f"{MEMBER.subnet}.0/24", "via", FAR)
        _run("ip", *inside, "route", "add", "default", "via", NEAR)

    def _mount(self) -> None:
        self._folder.volume.mkdir(parents=True, exist_ok=True)
        env = daemon_environment(self._folder)
        listen = f"TCP-LISTEN:{PORT},bind={NEAR},range={FAR}/32,fork,reuseaddr,nodelay"
        self._daemons.start(SERVER, [_tool("socat"), listen, f"EXEC:{_SFTP_SERVER}"], env=env)
        self._wait(SERVER, _listens, "the volume's server does not listen")
        self._mounted.mkdir(exist_ok=True)
        mount = [_tool("sshfs"), "-f", *_SSHFS, f"{NEAR}:{self._folder.volume}", str(self._mounted)]
        alone = [_tool("unshare"), "--mount", "--propagation", "private"]
        self._daemons.start(MOUNT, [_tool("nsenter"), f"--net=/run/netns/{SPACE}", *alone, *mount], env=env)
        self._wait(MOUNT, partial(self._is_mounted, self._mounted), "the volume is not mounted")
        # Nothing is mounted over a folder that is not empty, and this one is this machine's volume.
        _run(*self.entering(), _tool("mount"), "-t", "tmpfs", "none", str(self._folder.volume))
        bind = [_tool("bindfs"), "-f", "--multithreaded", "-o", _AT_ONCE]
        self._daemons.start(OWNERS, [*self.entering(), *bind, str(self._mounted), str(self._folder.volume)], env=env)
        self._wait(OWNERS, partial(self._is_mounted, self._folder.volume), "the volume is not mounted again")

    def entering(self) -> Sequence[str]:
        """What to put before a command, by its absolute path, so that it runs on the far node.

        Raises:
            ClusterError: The volume's daemon, which keeps the namespace, has ended.
        """
        self._daemons.refuse_unless_runs(MOUNT)
        process = self._daemons.process(MOUNT)
        assert process is not None  # noqa: S101 - it has just been seen to run
        return (_tool("nsenter"), f"--target={process.pid}", "--net", "--mount", "--")

    def shape(self, mbit: int | None) -> None:
        """Limit its rate in each direction, in Mbit/s; None: to nothing."""
        for where, device in (((), DEVICE), (("-n", SPACE), _UPLINK)):
            tc = [_tool("tc"), *where, "qdisc"]
            subprocess.run([*tc, "delete", "dev", device, "root"], check=False, capture_output=True)
            if mbit is not None:
                burst = f"{max(_BURST_KBIT_LEAST, round(1000 * mbit * _BURST_S))}kbit"
                bucket = ("tbf", "rate", f"{mbit}mbit", "burst", burst, "latency", _LATENCY)
                _run("tc", *where, "qdisc", "add", "dev", device, "root", *bucket)

    def crossed_bytes(self) -> tuple[int, int]:
        """Bytes that have crossed it so far: to the far node, and from it."""
        counts = Path("/sys/class/net", DEVICE, "statistics")
        return int((counts / "tx_bytes").read_text()), int((counts / "rx_bytes").read_text())

    def close(self) -> None:
        """Remove it, once nothing of the far node runs."""
        for name in (OWNERS, MOUNT, SERVER):
            self._daemons.stop(name)
        for order in (("link", "delete", DEVICE), ("netns", "delete", SPACE)):
            subprocess.run([_tool("ip"), *order], check=False, capture_output=True)

    def _wait(self, daemon: str, is_there: Callable[[], bool], why_not: str) -> None:
        deadline = time.monotonic() + _READY_S
        while not is_there():
            self._daemons.refuse_unless_runs(daemon)
            if time.monotonic() > deadline:
                raise ClusterError(f"{why_not} after {_READY_S:g} s", code="lab-failed")
            time.sleep(0.05)

    def _is_mounted(self, folder: Path) -> bool:
        seen = [*self.entering(), "/usr/bin/stat", "--file-system", "--format=%T", str(folder)]
        return "fuse" in subprocess.run(seen, check=False, capture_output=True, text=True).stdout


def _listens() -> bool:
    """Whether the server takes connections; it closes those that do not come from the node."""
    try:
        socket.create_connection((NEAR, PORT), timeout=_READY_S).close()
    except ConnectionRefusedError:
        return False
    return True


def missing() -> str:
    """Why there can be no link here; empty where there can."""
    if absent := [name for name in _TOOLS if shutil.which(name, path=search_path()) is None]:
        return f"there is no {absent[0]} on this machine"
    if not _SFTP_SERVER.exists():
        return f"there is no {_SFTP_SERVER}"
    return "" if Path("/dev/fuse").exists() else "this machine's kernel has no FUSE"


def _tool(name: str) -> str:
    return shutil.which(name, path=search_path()) or name


def _run(tool: str, *arguments: str) -> None:
    done = subprocess.run([_tool(tool), *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"{tool} {' '.join(arguments)}: {done.stderr.strip()}", code="lab-failed")
