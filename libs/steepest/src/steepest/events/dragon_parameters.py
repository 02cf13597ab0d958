"""The parameters of DRAGON, with a switch for each quirk of its authors' programs."""

from __future__ import annotations

import enum

import msgspec

from steepest.events.common import Count, Positive


class DragonGeneration(enum.StrEnum):
    """Which of the two published generations of DRAGON's code decides."""

    V09 = "v0.9"  # NTHU-LSALAB/DRAGON, 2020
    PAPER_ERA = "paper-era"  # the branch ``auto-scale`` of ChanYiLin/tf-operator-Dragon, 2019, which the paper cites


class Growth(enum.StrEnum):
    """To which nodes a gang may be scaled up."""

    ANYWHERE = "anywhere"  # its parameter server's node first, then any other
    OWN_NODES = "own-nodes"  # its parameter server's node first, then the others that it has
    SERVER_NODE = "server-node"  # its parameter server's node alone


class DragonParameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Parameters of DRAGON (:mod:`steepest.policies.dragon`); the defaults are those of its code's version 0.9.

    The switches from ``head_blocks`` on are what that code does beyond, or against, its description; the variant
    ``dragon-fixed`` has each of them the other way.

    Attributes:
        on: Whether DRAGON places and scales the jobs; no other decider places any then.
        locality: Whether replicas are put together; otherwise each goes to the emptiest node.
        scaling: Whether running gangs are scaled at all.
        starving_ms: Counted time from which on a waiting job may have others scaled down.
        idle_ms: Counted time without an action after which gangs are scaled up.
        period_ms: The longest counted time between two passes.
        head_blocks: While the first job starves and no room can be made for it, no other job starts.
        starving_stops_growth: While a job starves, no gang is scaled up.
        freed_is_left: What is freed for a starving job is not promised to it: it starts in a later pass if it can, and
            until then more may be freed.
        server_is_ignored: Whether there is room for a starving job is judged without its parameter servers.
        nodes_by_name: The first node that fits is taken, by name, in place of the emptiest.
        one_start: A pass starts one job at most.
        growth: To which nodes a gang may be scaled up.
    """

    on: bool = False
    generation: DragonGeneration = DragonGeneration.V09
    locality: bool = True
    scaling: bool = True
    starving_ms: Count = 30_000
    idle_ms: Count = 60_000
    period_ms: Positive = 15_000
    head_blocks: bool = True
    starving_stops_growth: bool = True
    freed_is_left: bool = True
    server_is_ignored: bool = True
    nodes_by_name: bool = True
    one_start: bool = True
    growth: Growth = Growth.ANYWHERE
