"""The GPUs of this machine, as NVIDIA's management library counts them, or ``nvidia-smi`` without its binding.

It must never be needed: without a driver, nodes have the GPUs that are declared.
"""

from __future__ import annotations

import importlib
import subprocess

from steepest.errors import InputError

_BINDING = "pynvml"
_SMI = ("nvidia-smi", "--list-gpus")
_SMI_S = 10.0


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
