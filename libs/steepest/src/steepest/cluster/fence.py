"""The steps that every start from a state folder shares: the fence, the incarnation's folder, its environment.

It owns the rule that at most one incarnation of a job runs, and that it is the newest. It must never know whether a
process or a container runs it. Its calls block; the caller holds the job's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder, spec_record
from steepest.cluster.gang_variables import GangAddresses, gang_variables
from steepest.cluster.observation import Observation
from steepest.cluster.port import ReplicaSpec
from steepest.errors import RefusedError, UncertainError
from steepest.events.common import CheckpointRef
from steepest.trace_context import TRACEPARENT

_OMP = "OMP_NUM_THREADS"

_THREADS = (_OMP, "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""What numerical libraries read (the last one: macOS's); PyTorch reads the first and MKL's."""

_BY_PCI_ADDRESS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""CUDA numbers GPUs as NVML does; by default it begins with the fastest one."""


def is_made(
    state: AdapterFolder, folder: IncarnationFolder, node: str, observe: Callable[[IncarnationFolder], Observation]
) -> bool:
    """Whether the incarnation's folder exists, so that it may have been started; False: it may be started now.

    ``observe`` returns the state of an earlier incarnation; it raises ``UncertainError`` if that is unknown.

    Raises:
        RefusedError: ``stale-incarnation``, ``wrong-node`` or ``still-running``.
    """
    others = [replica for replica in state.replicas(folder.replica.job) if replica != folder.replica]
    # Of another replica the newest is enough: it was started after the ends of those before it.
    known = state.incarnations(folder.replica) + [found for other in others for found in state.incarnations(other)[-1:]]
    newest = max(known, key=lambda one: one.incarnation, default=folder)
    if newest.incarnation > folder.incarnation:
        raise RefusedError(f"{folder} is stale: {newest} is known", code="stale-incarnation")
    for older in known:
        if older.incarnation < folder.incarnation:
            _refuse_if_it_runs(older, observe)
    if not folder.path.exists():
        return False
    spec = folder.planned()
    if spec is not None and spec.node != node:
        raise RefusedError(f"{folder} was started on {spec.node}, not on {node}", code="wrong-node")
    return True


def make(state: AdapterFolder, folder: IncarnationFolder, node: str, spec: ReplicaSpec) -> None:
    """Make an incarnation's folder; a folder left by an interrupted start gets the new spec.

    Raises:
        OSError: A file could not be written.
    """
    state.checkpoints(folder.replica.job).mkdir(parents=True, exist_ok=True)
    if folder.path.exists():
        folder.write(folder.spec, spec_record(node, spec))
    else:
        folder.make(spec_record(node, spec))


def environment(
    folder: IncarnationFolder,
    spec: ReplicaSpec,
    restore: CheckpointRef | None,
    *,
    addresses: GangAddresses | None,
    gpus: Sequence[int] | None,
) -> dict[str, str]:
    """The variables of an incarnation that are the same on every cluster; an adapter adds where its folders are.

    They are the threads of numerical libraries, the spec's own variables, its gang's, and the names of the incarnation.

    Args:
        folder: The incarnation.
        spec: What it runs.
        restore: The checkpoint to resume from.
        addresses: Where its gang listens; None: it has none.
        gpus: The GPUs that it may use, by their ids; None: its node has none.
    """
    of_gpus = {} if gpus is None else {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)), **_BY_PCI_ADDRESS}
    has_gpus = spec.requests.all_gpus_m > 0
    of_gang = gang_variables(spec.gang, addresses, own_gpus=has_gpus) if spec.gang and addresses else {}
    return {
        **_threads(spec),
        "PYTHONUNBUFFERED": "1",
        **({TRACEPARENT.upper(): spec.trace} if spec.trace else {}),
        **spec.env,
        **of_gang,
        **of_gpus,
        "STEEPEST_JOB": folder.replica.job,
        "STEEPEST_REPLICA": str(folder.replica.index),
        "STEEPEST_INCARNATION": str(folder.incarnation),
        "STEEPEST_RESTORE": restore.name if restore else "",
    }


def _threads(spec: ReplicaSpec) -> dict[str, str]:
    """As many threads as whole cores are asked for, at least one: libraries would start one for each core of the machine.

    All of these libraries follow OpenMP's variable where they have none of their own, so a user's counts for all.
    """
    if _OMP in spec.env:
        return dict.fromkeys(_THREADS, spec.env[_OMP])
    return dict.fromkeys(_THREADS, str(max(1, spec.requests.cpu_m // 1000)))


def _refuse_if_it_runs(older: IncarnationFolder, observe: Callable[[IncarnationFolder], Observation]) -> None:
    try:
        seen = observe(older)
    except UncertainError as error:
        raise RefusedError(
            f"{older} is not proven to have ended: {error}", code="still-running", hint=error.hint
        ) from error
    if seen.began and not seen.ended:
        raise RefusedError(f"{older} is {seen.phase}", code="still-running", hint="stop it first")
