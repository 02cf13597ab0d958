"""The allocation policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steepest_lab.baselines.fifo import Fifo
from steepest_lab.baselines.gandiva import Gandiva
from steepest_lab.baselines.las import Las
from steepest_lab.baselines.optimus import Optimus
from steepest_lab.baselines.shortest import Sjf, Srsf, Srtf
from steepest_lab.baselines.slaq import Slaq
from steepest_lab.baselines.steepest_gangs import SteepestGangs
from steepest_lab.baselines.tiresias import Tiresias

BASELINES: Mapping[str, Any] = {
    kind.name: kind for kind in (Fifo, Sjf, Srtf, Srsf, Las, Tiresias, Gandiva, Optimus, Slaq, SteepestGangs)
}
"""Each is constructed without arguments, or with its parameters if it has any."""
