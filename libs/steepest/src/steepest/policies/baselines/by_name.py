"""The allocation policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steepest.policies.baselines.fifo import Fifo
from steepest.policies.baselines.gandiva import Gandiva
from steepest.policies.baselines.las import Las
from steepest.policies.baselines.optimus import Optimus
from steepest.policies.baselines.shortest import Sjf, Srsf, Srtf
from steepest.policies.baselines.slaq import Slaq
from steepest.policies.baselines.tiresias import Tiresias

BASELINES: Mapping[str, Any] = {
    kind.name: kind for kind in (Fifo, Sjf, Srtf, Srsf, Las, Tiresias, Gandiva, Optimus, Slaq)
}
"""Each is constructed without arguments, or with its parameters if it has any."""
