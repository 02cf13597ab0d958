"""The GPUs of this machine, as NVIDIA's management library counts them, where its Python binding is installed.

It must never be needed: without the binding or the driver, nodes have the GPUs that are declared.
"""

from __future__ import annotations

import importlib

from steepest.errors import InputError

_BINDING = "pynvml"


def count_gpus() -> int:
    """The number of GPUs.

    Raises:
        InputError: ``no-nvml``: the binding or the driver is missing.
    """
    try:
        nvml = importlib.import_module(_BINDING)
    except ImportError as error:
        raise InputError(
            f"GPUs cannot be counted: {error}", code="no-nvml", hint="install nvidia-ml-py, or write gpus=N"
        ) from error
    try:
        nvml.nvmlInit()
        try:
            return int(nvml.nvmlDeviceGetCount())
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        raise InputError(f"GPUs cannot be counted: {error}", code="no-nvml", hint="write gpus=N") from error
