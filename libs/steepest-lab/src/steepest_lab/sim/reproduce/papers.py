"""The papers that can be reproduced, by name."""

from __future__ import annotations

from collections.abc import Mapping

from steepest_lab.sim.reproduce.experiment import Paper
from steepest_lab.sim.reproduce.flowcon import FLOWCON
from steepest_lab.sim.reproduce.specon import SPECON

PAPERS: Mapping[str, Paper] = {paper.name: paper for paper in (SPECON, FLOWCON)}
