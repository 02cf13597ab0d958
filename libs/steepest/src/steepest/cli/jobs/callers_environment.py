"""The environment of the shell that submits, and where it differs from that of the running system.

It owns which variables are the caller's business. It must never show a value: it may be a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from steepest.app.state_folder import StateFolder

OF_THE_SHELL = ("PWD", "OLDPWD", "SHLVL", "_", "TERM", "COLUMNS", "LINES", "SHELL", "PS1", "PS2", "PROMPT_COMMAND")
OF_THE_SESSION = ("STEEPEST_", "SSH_", "XDG_", "DBUS_", "LESS", "LS_COLORS", "BASH_FUNC_", "TERM_", "TMUX", "STY")
"""Beginnings of names that say where one types, and nothing of how one trains."""

OF_TRAININGS = re.compile(
    "PATH|PYTHON|LD_LIBRARY_PATH|VIRTUAL_ENV|CONDA_|CUDA_|NCCL_|HF_|HUGGING|TRANSFORMERS_|WANDB_|MLFLOW_|TORCH_|KERAS_|TF_"
    "|JAX_|XLA_|OMP_|MKL_|OPENBLAS_"
)
"""Beginnings of names whose values trainings depend on."""

SHOWN = 8


def callers_environment() -> Iterator[str]:
    """The variables of this shell, each as K=V, without those of the terminal and of Steepest."""
    for name, value in os.environ.items():
        if name not in OF_THE_SHELL and not name.startswith(OF_THE_SESSION):
            yield f"{name}={value}"


def differing_names(folder: StateFolder, own: Mapping[str, str]) -> str:
    """The variables of trainings that this shell has, and the running system has not so; empty: none, or it is not known.

    Args:
        folder: The system's folder.
        own: The variables that the job gets anyway.
    """
    there = _system_environment(folder)
    if there is None:
        return ""
    names = [
        name
        for name, value in os.environ.items()
        if OF_TRAININGS.match(name) and name not in own and there.get(name) != value
    ]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(sorted(names)[:SHOWN])}{more}"


def _system_environment(folder: StateFolder) -> Mapping[str, str] | None:
    """That of `steepest up`, where the kernel shows it."""
    pid = folder.running()
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return None
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)
