"""Joins emulated nodes by links of a limited rate: a network namespace for each node, all on one switch in another one.

It owns the namespaces of a state folder and what is in them; it must never know jobs. Each node has one address and one link
to the switch, which is as fast in each direction; processes of one node reach each other without it. Nothing leads out of
the switch: the machine's own network stays as it is, and installations side by side may have the same addresses.

The namespaces outlive the adapter as the processes in them do. Its calls block, for some tens of milliseconds a node.

Sources: ip-netns(8), veth(4), bridge(8), tc-tbf(8).
"""

from __future__ import annotations

import hashlib
import ipaddress
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from steepest.errors import ClusterError
from steepest.logger import Logger

_log = Logger()
_NETWORK = ipaddress.IPv4Network("10.231.0.0/16")
_FOLDER = Path("/run/netns")
_SYSTEM = "/usr/sbin:/sbin"
_TOOLS = ("ip", "tc", "nsenter")
_BURST_KBIT_LEAST, _BURST_S = 32, 0.0026  # a bucket that a timer of 250 Hz can fill at the full rate
_LATENCY = "50ms"
_COMMAND_S = 30.0
_LEFT_S = 2.0


class NodeLinks:
    """The links of one state folder.

    Args:
        state_dir: Determines the namespaces' names, so that those of different state folders do not collide.
        nodes: All nodes, always in the same order: it determines their addresses.
        mbit: The rate of each link in each direction, in Mbit/s.

    Raises:
        ClusterError: ``no-links``: there are more nodes than addresses.
    """

    def __init__(self, state_dir: Path, nodes: Sequence[str], mbit: int) -> None:
        digest = hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:12]
        self._switch = f"steepest-{digest}-switch"
        self._spaces = {node: f"steepest-{digest}-{number}" for number, node in enumerate(nodes, 1)}
        if len(nodes) > _NETWORK.num_addresses - 2:
            raise ClusterError(f"{len(nodes)} nodes are more than {_NETWORK} has addresses for", code="no-links")
        self._addresses = {node: str(_NETWORK[number]) for number, node in enumerate(nodes, 1)}
        self._mbit = mbit

    def address(self, node: str) -> str:
        """The node's address."""
        return self._addresses[node]

    def entering(self, node: str) -> tuple[str, ...]:
        """The prefix with which a command runs on the node's network."""
        return (_tool("nsenter"), f"--net={_FOLDER / self._spaces[node]}", "--")

    def make(self) -> None:
        """Make the missing namespaces and links.

        Raises:
            ClusterError: ``no-links``: it cannot be made here, and nothing is left of it.
        """
        try:
            self._make_missing()
        except ClusterError:
            self.close()
            raise

    def _make_missing(self) -> None:
        if not (_FOLDER / self._switch).exists():
            _ip("netns", "add", self._switch)
            _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
            _ip("-n", self._switch, "link", "set", "bridge", "up")
        for number, (node, space) in enumerate(self._spaces.items(), 1):
            if not (_FOLDER / space).exists():
                self._join(node, space, f"port{number}")

    def _join(self, node: str, space: str, port: str) -> None:
        _ip("netns", "add", space)
        _ip("-n", space, "link", "add", "name", "uplink", "type", "veth", "peer", "name", port, "netns", self._switch)
        _ip("-n", space, "address", "add", f"{self._addresses[node]}/{_NETWORK.prefixlen}", "dev", "uplink")
        _ip("-n", self._switch, "link", "set", port, "master", "bridge", "up")
        for device in ("uplink", "lo"):
            _ip("-n", space, "link", "set", device, "up")
        self._shape(space, "uplink")
        self._shape(self._switch, port)

    def _shape(self, space: str, device: str) -> None:
        burst_kbit = max(_BURST_KBIT_LEAST, round(1000 * self._mbit * _BURST_S))
        bucket = ("tbf", "rate", f"{self._mbit}mbit", "burst", f"{burst_kbit}kbit", "latency", _LATENCY)
        _run("tc", "-n", space, "qdisc", "add", "dev", device, "root", *bucket)

    def close(self, busy: Collection[str] = ()) -> None:
        """Remove the namespaces of all nodes but the busy ones, and the switch after the last of them.

        One in which something runs stays. A supervisor leaves shortly after its job has ended.
        """
        idle = [space for node, space in self._spaces.items() if node not in busy]
        deadline = time.monotonic() + _LEFT_S
        while not all(map(_removed, idle)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not any((_FOLDER / space).exists() for space in self._spaces.values()):
            _removed(self._switch)


def why_not() -> str:
    """Why links cannot be made here, which is proven by trying; empty if they can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if missing := [tool for tool in _TOOLS if _found(tool) is None]:
        return f"there is no {', '.join(missing)} (iproute2, util-linux)"
    with tempfile.TemporaryDirectory(prefix="steepest-links-") as folder:
        links = NodeLinks(Path(folder), ["probe"], 100)
        try:
            links.make()
            _command(*links.entering("probe"), "true")
        except ClusterError as error:
            return str(error)
        finally:
            links.close()
    return ""


def _removed(space: str) -> bool:
    """Remove a namespace, unless something runs in it; return whether it is gone."""
    if not (_FOLDER / space).exists():
        return True
    try:
        if _ip("netns", "pids", space).strip():
            return False
        _ip("netns", "delete", space)
    except ClusterError as error:
        _log.warning("a network namespace is left", space=space, why=str(error))
        return False
    return True


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(tool: str, *arguments: str) -> str:
    return _command(_tool(tool), *arguments)


def _tool(name: str) -> str:
    found = _found(name)
    if found is None:
        raise ClusterError(f"there is no program {name}", code="no-links", hint="install iproute2 and util-linux")
    return found


def _found(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_SYSTEM)


def _command(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMMAND_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{' '.join(command)}: {error}", code="no-links") from error
    if done.returncode:
        raise ClusterError(f"{' '.join(command)}: {done.stderr.strip()[:200]}", code="no-links")
    return done.stdout
