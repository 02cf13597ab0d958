"""Starts an incarnation: checks, the fence, the supervisor.

It owns the order of these steps and what a failure between two of them leaves. It must never know how CPU is shared.
Its calls block; the caller holds the job's lock.

The incarnation's folder is the fence: one rename creates it completely, and only once. If the caller dies after that,
either no supervisor was started, and the next start of the same incarnation starts it; or one runs, which holds the lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from steepest.cluster import fence, keepers
from steepest.cluster.data_source import VARIABLE, DataSource
from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.gang_variables import GangAddresses
from steepest.cluster.keepers import KeeperPlace
from steepest.cluster.local import data_relay, supervisor
from steepest.cluster.local.phases import observe
from steepest.cluster.observation import Observation
from steepest.cluster.port import ReplicaPhase, ReplicaSpec
from steepest.errors import ClusterError, RefusedError, UncertainError
from steepest.events.common import CheckpointRef

_LOOPBACK = "127.0.0.1"
_REPLY_S = 20.0  # a supervisor answers in 50 ms; a machine that swaps takes longer
_SETTLED_S = 5.0


class ProcessLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a start.

    Attributes:
        boot: The id of the machine's current boot.
        cgroup: The existing control group to run in; None: none.
        share: The initial share of the time in which it may run, in ‰.
        addresses: Where its gang listens; None: it has none.
        gpus: The GPUs that it may use, by their ids; None: its node has none.
        data: Where it reads its data; None: the pool has no storage.
        entering: What to put before the supervisor's command, so that it runs on its node's network.
        keeper: Where it is kept; None: it runs without a keeper.
    """

    node: str
    spec: ReplicaSpec
    restore: CheckpointRef | None
    boot: str
    share: int
    cgroup: Path | None = None
    addresses: GangAddresses | None = None
    gpus: tuple[int, ...] | None = None
    data: DataSource | None = None
    entering: tuple[str, ...] = ()
    keeper: KeeperPlace | None = None


def is_known(state: AdapterFolder, folder: IncarnationFolder, node: str, boot: str) -> bool:
    """Whether the incarnation was started (it runs or has ended); False: it may be started now.

    Raises:
        RefusedError: ``stale-incarnation``, ``wrong-node`` or ``still-running``.
        UncertainError: An earlier start of it does not finish.
    """
    if not fence.is_made(state, folder, node, lambda older: observe(older, boot)):
        return False
    return _settled(folder, boot).began


def _settled(folder: IncarnationFolder, boot: str) -> Observation:
    """Wait for a start whose caller died: its supervisor either got the order and starts the job, or ends."""
    deadline = time.monotonic() + _SETTLED_S
    while (seen := observe(folder, boot)).phase == ReplicaPhase.STARTING and seen.began:
        if time.monotonic() >= deadline:
            raise UncertainError(f"the supervisor of {folder} neither starts it nor ends")
        time.sleep(0.01)
    return seen


def launch(state: AdapterFolder, folder: IncarnationFolder, order: ProcessLaunch) -> None:
    """Create the folder and start the supervisor; returns once the job's program is executed.

    Raises:
        RefusedError: ``no-such-program``.
        ClusterError: It did not start for another reason.
        OSError: It did not start because a file could not be written or a process not be created.
        UncertainError: It may have started.
    """
    with contextlib.ExitStack() as stack:
        relay = None if order.data is None else stack.enter_context(socket.create_server((_LOOPBACK, 0)))
        env = environment(state, folder, order, relay)
        # Before the fence is made: a refusal leaves nothing behind.
        program = find_program(order.spec, env)
        fence.make(state, folder, order.node, order.spec)
        lock = incarnation_locks.take(folder.lock, patience_s=1.0)
        if lock is not None:  # otherwise the supervisor of an earlier, interrupted start is alive
            inherited = [lock]
            try:
                if relay is not None and order.data is not None:
                    inherited.append(_start_relay(folder, order.data, relay))
                reply = _spawn(folder, order, _message(state, folder, order, program), env, *inherited)
            finally:
                for number in inherited:
                    os.close(number)
            _judge(folder, reply)


def environment(
    state: AdapterFolder, folder: IncarnationFolder, order: ProcessLaunch, relay: socket.socket | None
) -> dict[str, str]:
    """The job's environment: the inherited variables, and those that every job gets.

    ``relay`` is the socket at which the job's own relay to its data listens.
    """
    data = {} if relay is None or order.data is None else {VARIABLE: order.data.at(*relay.getsockname()).url}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STEEPEST_")}
    return {
        **inherited,
        **fence.environment(folder, order.spec, order.restore, addresses=order.addresses, gpus=order.gpus),
        "STEEPEST_CONTROL": str(folder.control),
        "STEEPEST_CHECKPOINTS": str(state.checkpoints(folder.replica.job)),
        **data,
    }


def find_program(spec: ReplicaSpec, env: Mapping[str, str]) -> str:
    """The absolute path of the program.

    Raises:
        RefusedError: ``no-such-program``: the program or the working folder is missing, or it may not be executed.
    """
    if not spec.command or any("\0" in word for word in (*spec.command, *env, *env.values())):
        raise RefusedError("the command is empty, or it or its environment contains a NUL byte", code="no-such-program")
    if spec.working_dir is not None and not Path(spec.working_dir).is_dir():
        raise RefusedError(f"the working folder {spec.working_dir} does not exist", code="no-such-program")
    name = spec.command[0]
    if os.sep in name:
        name = str(Path(spec.working_dir or os.sep, name))
    found = shutil.which(name, path=env.get("PATH"))
    if found is None and os.sep in name and Path(name).is_file():
        raise RefusedError(
            f"{spec.command[0]!r} may not be executed", code="no-such-program", hint="run `chmod +x` on it"
        )
    if found is None:
        raise RefusedError(f"there is no program {spec.command[0]!r}", code="no-such-program", hint="use its full path")
    return str(Path(found).absolute())


def _start_relay(folder: IncarnationFolder, data: DataSource, listening: socket.socket) -> int:
    """Start the relay of the job's data; return the pipe that keeps it alive, which the caller gives to the supervisor."""
    out, into = os.pipe()
    number = listening.fileno()
    place = [str(number), data.host, str(data.port), str(folder.traffic)]
    try:
        with folder.supervisor_log.open("ab") as log:
            subprocess.run(
                [sys.executable, "-I", "-S", data_relay.__file__, *place],
                stdin=out,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(number,),
                cwd=os.sep,
                check=True,  # it has left its parent behind, and listens
            )
    except BaseException:
        os.close(into)
        raise
    finally:
        os.close(out)
    return into


def _message(state: AdapterFolder, folder: IncarnationFolder, order: ProcessLaunch, program: str) -> dict[str, Any]:
    """The message to the supervisor. Of a job that is kept, it starts the keeper."""
    spec, words = order.spec, list(order.spec.command)
    working_dir = spec.working_dir or str(folder.work)
    if order.keeper is not None and order.cgroup is not None and spec.checkpoint_mode is not None:
        words, working_dir = keepers.write_order(
            state,
            folder,
            order.keeper,
            program=program,
            words=spec.command,
            working_dir=spec.working_dir,
            mode=spec.checkpoint_mode,
            restore=order.restore,
            cgroup=order.cgroup,
            gang=spec.gang,
        )
        program = words[0]
    return {
        "program": program,
        "command": words,
        "working_dir": working_dir,
        "incarnation": folder.incarnation,
        "boot": order.boot,
        "cgroup": str(order.cgroup) if order.cgroup else None,
        "share": order.share,
        "tty": spec.tty and order.keeper is None,
    }


def _spawn(
    folder: IncarnationFolder, order: ProcessLaunch, message: Mapping[str, Any], env: Mapping[str, str], *inherited: int
) -> bytes:
    """Start the supervisor and return its reply.

    It inherits the lock, the first of the descriptors, so that the lock is held at every moment.
    """
    with folder.supervisor_log.open("ab") as log:
        child = subprocess.Popen(
            [*order.entering, sys.executable, "-I", "-S", supervisor.__file__, str(folder.path), *map(str, inherited)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=inherited,
            env=dict(env),
            cwd=os.sep,
            start_new_session=True,
        )
    with child:
        try:
            return child.communicate(json.dumps(message).encode(), timeout=_REPLY_S)[0]
        except subprocess.TimeoutExpired as error:
            child.kill()
            raise UncertainError(f"the supervisor of {folder} did not answer in {_REPLY_S:g} s") from error


def _judge(folder: IncarnationFolder, reply: bytes) -> None:
    if not reply:
        error = UncertainError if folder.start.exists() else ClusterError
        raise error(f"the supervisor of {folder} died while it started", hint=f"read {folder.supervisor_log}")
    answer = json.loads(reply)
    if "pid" in answer:
        return
    # Nothing ran, so remove the folder: the same incarnation may be started again with a corrected command.
    shutil.rmtree(folder.path, ignore_errors=True)
    if answer["errno"] in supervisor.NO_PROGRAM:
        raise RefusedError(f"{folder} cannot be executed: {answer['why']}", code="no-such-program")
    raise ClusterError(f"{folder} did not start: {answer['why']}", code="not-started")
