"""A stand-in for NVIDIA's management library: three GPUs that fail when a test says so."""

from __future__ import annotations

import threading
import types
from collections import deque

TIMEOUT, LOST = 10, 15


class FakeNVMLError(Exception):
    """An error of the library, with its number."""

    def __init__(self, value: int) -> None:
        super().__init__({TIMEOUT: "Timeout", LOST: "GPU is lost"}[value])
        self.value = value


class FakeLibrary(types.ModuleType):
    """The library with three GPUs; a handle is an id.

    Attributes:
        errors: Xid errors, by GPU.
        lost: GPUs off the bus.
        answers: Not set: its calls hang.
    """

    NVMLError = FakeNVMLError
    NVML_ERROR_GPU_IS_LOST = LOST

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.errors: deque[tuple[int, int]] = deque()
        self.lost: list[int] = []
        self.registered: list[object] = []
        self.answers = threading.Event()
        self.answers.set()
        self.nvmlEventTypeXidCriticalError = 8
        self.nvmlInit = lambda: None
        self.nvmlDeviceGetCount = lambda: 3
        self.nvmlDeviceGetHandleByIndex = lambda gpu: gpu
        self.nvmlDeviceGetPciInfo = lambda handle: types.SimpleNamespace(busId=f"0000:{handle}")
        self.nvmlEventSetCreate = lambda: "set"
        self.nvmlDeviceRegisterEvents = lambda handle, kinds, into: self.registered.append((handle, kinds, into))
        self.nvmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(used=self._there(handle) << 30)
        self.nvmlDeviceGetUtilizationRates = lambda handle: types.SimpleNamespace(gpu=10 * handle)
        self.nvmlEventSetWait_v2 = self._wait

    def _there(self, handle: int) -> int:
        if handle in self.lost:
            raise FakeNVMLError(LOST)
        return handle

    def _wait(self, _: object, timeout_ms: int) -> types.SimpleNamespace:
        assert timeout_ms == 0
        self.answers.wait()
        if not self.errors:
            raise FakeNVMLError(TIMEOUT)
        gpu, xid = self.errors.popleft()
        return types.SimpleNamespace(device=gpu, eventData=xid)
