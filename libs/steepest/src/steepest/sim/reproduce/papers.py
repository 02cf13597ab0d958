"""The papers that can be reproduced, by name."""

from __future__ import annotations

from collections.abc import Mapping

from steepest.sim.reproduce.experiment import Paper
from steepest.sim.reproduce.flowcon import FLOWCON
from steepest.sim.reproduce.specon import SPECON

PAPERS: Mapping[str, Paper] = {paper.name: paper for paper in (SPECON, FLOWCON)}
