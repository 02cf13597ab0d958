"""An experiment: jobs, nodes, settings of a policy, and the published results of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.events.parameters import PoolParameters
from steepest_lab.reproduce.experiments.placement import Start
from steepest_lab.sim.cluster_spec import ClusterSpec
from steepest_lab.sim.clusters import open_cluster
from steepest_lab.sim.losses.thesis import CONTENTION
from steepest_lab.sim.workload import Workload
from steepest_lab.sim.workloads.arrivals import PATTERNS, PREFIX
from steepest_lab.sim.workloads.read import open_workload


class Published(msgspec.Struct, frozen=True):
    """A figure that a source prints.

    Attributes:
        measure: Of :data:`steepest_lab.reproduce.experiments.measures.MEASURES`.
        value: None: it prints none, and ours is for information.
        slack: What counts as the same, in the figure's unit, where the source prints a range; None: a third of the effect.
        chart: It is read off the authors' chart, and printed nowhere.
    """

    measure: str
    value: float | None = None
    slack: float | None = None
    chart: bool = False


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of the policy, compared with the default.

    Attributes:
        setting: In words; empty where the experiment has one only.
        policy: Of :data:`steepest_lab.sim.policies.LIVE`.
        parameters: What the policy's switches are put into.
        published: What the paper says of it.
    """

    setting: str = ""
    policy: str
    parameters: PoolParameters
    published: Sequence[Published]


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A workload on a cluster, by default and under every arm.

    Attributes:
        name: In tables.
        pattern: Of :data:`steepest_lab.sim.workloads.arrivals.PATTERNS`.
        cluster: Where it is not the pattern's own.
        usable: Share of the nodes' CPU that jobs get.
        contention: Of the nodes.
        starts: Each is run.
        pinned: First nodes hold for the policy's run too; if not, it places the jobs itself.
        lengths: For each start, how many times as long as the models say its jobs take, so that the default run matches
            the published one; ``tools/fit_thesis_lengths.py`` finds them.
        default: What was published of the default run.
        arms: The settings.
        drawn: Which arm the plots show.
    """

    name: str
    pattern: str
    cluster: str = ""
    usable: float = 1.0
    contention: float = CONTENTION
    starts: Sequence[Start] = (Start.ONE_NODE,)
    pinned: bool = True
    lengths: Mapping[Start, float] = {}
    default: Sequence[Published] = ()
    arms: Sequence[Arm]
    drawn: int = 0

    @property
    def workload(self) -> str:
        """The workload's name."""
        return PREFIX + self.pattern

    @property
    def about(self) -> str:
        """The experiment in words."""
        return f"{PATTERNS[self.pattern].about}; nodes {self._nodes}"

    def jobs(self, start: Start, seed: int) -> Workload:
        """The jobs of a repetition."""
        drawn = open_workload(self.workload, seed=seed)
        factor = self.lengths.get(start, 1.0)
        jobs = [msgspec.structs.replace(job, work_s=factor * job.work_s) for job in drawn.jobs]
        return msgspec.structs.replace(drawn, jobs=jobs)

    def nodes(self) -> ClusterSpec:
        """The nodes of every repetition."""
        cluster = open_cluster(self._nodes)
        changed = {"usable": self.usable, "contention": self.contention}
        return msgspec.structs.replace(
            cluster, nodes=[msgspec.structs.replace(node, **changed) for node in cluster.nodes]
        )

    @property
    def _nodes(self) -> str:
        return self.cluster or PATTERNS[self.pattern].cluster


class Paper(msgspec.Struct, frozen=True, kw_only=True):
    """All experiments of a paper.

    Attributes:
        name: As it is called on the command line.
        title: For people.
        source: What was published where.
        default: The default run, in words.
        experiments: Those that are compared with what was published.
        sensitivity: The same with something changed that the sources rule out or leave open.
        assumptions: Assumptions about the paper, in addition to those of the simulator and the models.
        real: It is run with real trainings, and not simulated.
    """

    name: str
    title: str
    source: str
    default: str
    experiments: Sequence[Experiment]
    sensitivity: Sequence[Experiment] = ()
    assumptions: Sequence[str]
    real: bool = False


def reconstructed(experiments: Sequence[Experiment]) -> Sequence[str]:
    """The arrivals among those of some experiments that are a reconstruction, each in a sentence."""
    patterns: Mapping[str, None] = dict.fromkeys(one.pattern for one in experiments)
    return [
        f"{PATTERNS[name].about} ({name}): its source does not give the window or the nodes."
        for name in patterns
        if PATTERNS[name].reconstructed
    ]
