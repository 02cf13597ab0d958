"""Runs kubectl.

It owns what its failure is. It must never know what is asked.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from steepest.errors import ClusterError


def kubectl(program: str, kubeconfig: Path, *arguments: str, content: object = None) -> str:
    """What kubectl prints; ``content`` is an object for ``-f -``.

    Args:
        program: Its path.
        kubeconfig: How the API server is reached.
        arguments: Of kubectl.
        content: What is sent to its standard input, as JSON; None: nothing.

    Raises:
        ClusterError: It failed.
    """
    done = subprocess.run(
        [program, f"--kubeconfig={kubeconfig}", *arguments],
        input=msgspec.json.encode(content) if content is not None else None,
        check=False,
        capture_output=True,
    )
    if done.returncode:
        raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode()
