"""The GPUs of this machine, as NVIDIA's management library knows them; ``nvidia-smi`` counts them without its binding.

It must never be needed: without a driver, nodes have the GPUs that are declared. Its calls block.
"""

from __future__ import annotations

import contextlib
import importlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.heartbeat_fanout import GpuFacts
from steepest.errors import InputError, UntrustedError
from steepest.events.facts import FailedGpu, GpuUse
from steepest.logger import Logger
from steepest.untrusted import files, json

_log = Logger()
_BINDING = "pynvml"
_FAILURES_BYTES_MOST = 1 << 16

OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
"""Xid errors that a program causes, not its GPU (NVIDIA, *Xid Errors*): the GPU is as good as before."""

_SMI = ("nvidia-smi", "--list-gpus")
_SMI_S = 10.0
_ERRORS_AT_ONCE = 100


def count_gpus() -> int:
    """The number of GPUs.

    Raises:
        InputError: ``no-nvml``: the driver is missing.
    """
    try:
        nvml = importlib.import_module(_BINDING)
    except ImportError:
        return _listed()
    try:
        nvml.nvmlInit()
        try:
            return int(nvml.nvmlDeviceGetCount())
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        raise InputError(f"GPUs cannot be counted: {error}", code="no-nvml", hint="write gpus=N") from error


def _listed() -> int:
    """The GPUs that ``nvidia-smi`` lists, a line each."""
    try:
        done = subprocess.run(_SMI, capture_output=True, text=True, check=True, timeout=_SMI_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"GPUs cannot be counted: {error}", code="no-nvml", hint="write gpus=N") from error
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


class NvmlGpus:
    """The driver's readings of this machine's GPUs, by their ids.

    Attributes:
        use: The use of each, at the last look.
        failed: Why each is out of use: an Xid error, or it is not there any more.
    """

    def __init__(self) -> None:
        """Open the library.

        Raises:
            InputError: ``no-nvml``: the driver or its binding is missing.
        """
        try:
            self._nvml = importlib.import_module(_BINDING)
        except ImportError as error:
            raise InputError(str(error), code="no-nvml", hint="pip install steepest[gpu]") from error
        self.use: dict[int, GpuUse] = {}
        self.failed: dict[int, str] = {}
        try:
            self._nvml.nvmlInit()
            self._gpus = {
                gpu: self._nvml.nvmlDeviceGetHandleByIndex(gpu) for gpu in range(self._nvml.nvmlDeviceGetCount())
            }
            self._errors = self._nvml.nvmlEventSetCreate()
        except self._nvml.NVMLError as error:
            raise InputError(f"there is no driver: {error}", code="no-nvml", hint="declare gpus=N") from error
        self._of_bus = {self._bus(handle): gpu for gpu, handle in self._gpus.items()}
        for handle in self._gpus.values():
            with contextlib.suppress(self._nvml.NVMLError):  # some kinds of GPUs report none
                self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, self._errors)

    @property
    def failures(self) -> dict[str, str]:
        """Why GPUs are out of use, by their places on the bus: their ids change when one of them is missing."""
        return {bus: self.failed[gpu] for bus, gpu in self._of_bus.items() if gpu in self.failed}

    def recall(self, failures: Mapping[str, str]) -> None:
        """These failed before this was opened."""
        for bus, why in failures.items():
            if bus in self._of_bus:
                self._fail(self._of_bus[bus], why)

    def look(self) -> None:
        """Bring use and failures up to date."""
        self._hear()
        for gpu, handle in self._gpus.items():
            if gpu not in self.failed:
                self._measure(gpu, handle)

    def _hear(self) -> None:
        for _ in range(_ERRORS_AT_ONCE):
            try:
                error = self._nvml.nvmlEventSetWait_v2(self._errors, 0)
                gpu = self._of_bus.get(self._bus(error.device))
            except self._nvml.NVMLError:  # no more: the wait is over
                return
            if gpu is not None and error.eventData not in OF_PROGRAMS:
                self._fail(gpu, f"Xid {error.eventData}")

    def _measure(self, gpu: int, handle: object) -> None:
        busy, memory_mib = None, None
        try:
            memory_mib = self._nvml.nvmlDeviceGetMemoryInfo(handle).used >> 20
            busy = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu
        except self._nvml.NVMLError as error:
            if error.value == self._nvml.NVML_ERROR_GPU_IS_LOST:
                self._fail(gpu, str(error))
                return
        self.use[gpu] = GpuUse(gpu, busy, memory_mib)

    def _fail(self, gpu: int, why: str) -> None:
        self.failed.setdefault(gpu, why)
        self.use.pop(gpu, None)

    def _bus(self, handle: object) -> str:
        return str(self._nvml.nvmlDeviceGetPciInfo(handle).busId)


def driver_of(gpus: int) -> NvmlGpus | None:
    """The driver of this machine's GPUs; None: nodes have none, or there is no driver."""
    if gpus:
        with contextlib.suppress(InputError):
            return NvmlGpus()
    return None


def boot_id() -> str:
    """The id of the machine's current boot: pids mean nothing across boots."""
    if (linux := Path("/proc/sys/kernel/random/boot_id")).exists():
        return linux.read_text(encoding="ascii").strip()
    completed = subprocess.run(["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=True)
    return completed.stdout.strip()


class GpuFailures(msgspec.Struct, frozen=True):
    """``failed-gpus.json``: why GPUs are out of use, by their places on the bus, until the machine starts again."""

    boot: str
    failures: dict[str, str]


class MachineGpus:
    """The facts of this machine's GPUs, for the nodes that have them. Failures outlive the adapter.

    Args:
        state: The adapter's folder.
        gpus: The ids of each node's GPUs; nodes on other machines have none here.
        driver: This machine's.
        boot: The machine's present boot.
    """

    def __init__(self, state: AdapterFolder, gpus: Mapping[str, Sequence[int]], driver: NvmlGpus, boot: str) -> None:
        self._state, self._gpus, self._driver = state, gpus, driver
        self._failures = GpuFailures(boot, {})

    def recall(self) -> None:
        """Take in which GPUs had failed before the adapter was opened. It blocks."""
        try:
            known = json.read_json(
                self._state.failed_gpus, GpuFailures, below=self._state.path, most=_FAILURES_BYTES_MOST
            )
        except FileNotFoundError:
            return
        except UntrustedError as error:
            _log.warning("failed GPUs are not known", why=str(error))
            return
        if known.boot == self._failures.boot:
            self._driver.recall(known.failures)

    def look(self) -> None:
        """Bring the facts up to date. It blocks: for long, if the driver hangs.

        Raises:
            OSError: A failure could not be put on record.
        """
        self._driver.look()
        found = GpuFailures(self._failures.boot, self._driver.failures)
        if found != self._failures:
            files.replace(self._state.failed_gpus, msgspec.json.encode(found), below=self._state.path)
            self._failures = found

    def forget_use(self) -> None:
        """The driver does not answer: how busy its GPUs are is unknown."""
        self._driver.use = {}

    def facts(self, node: str) -> GpuFacts:
        """The newest facts of a node's GPUs."""
        use, failed, gpus = self._driver.use, self._driver.failed, self._gpus.get(node, ())
        return GpuFacts(
            tuple(use[gpu] for gpu in gpus if gpu in use),
            tuple(FailedGpu(gpu, failed[gpu]) for gpu in gpus if gpu in failed),
        )

    def failed(self, node: str) -> tuple[int, ...]:
        """The ids of a node's GPUs that are out of use."""
        return tuple(one.gpu for one in self.facts(node).failed)
