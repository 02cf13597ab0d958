"""The nodes of a view: their allocations, scores, and the orders in which deciders look at them.

It owns the accounting and keeps every order up to date as it changes, so that no decider has to scan. It must never know
why something is taken.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence

from steepest.errors import BugError
from steepest.events.cluster import NodeJoined
from steepest.events.common import KeeperFacts, Resources, Taint
from steepest.events.parameters import SpeConParameters
from steepest.view.orders.changes import Changes
from steepest.view.orders.order import Order
from steepest.view.state import Job, Node

Holding = tuple[int, Resources]
"""A job's holding on a node: the number of replicas, and their resources."""

DRAINED = Taint(key="steepest.dev/drained")
"""Keeps all jobs away from a node that its operator drains."""

NOTHING: Holding = (0, Resources())


class Nodes:
    """Nodes by name, and by score, by number of replicas, by allocation and by silence.

    Its orders hold the nodes that are open: those that are not lost and take jobs. The order of silence holds all that
    are not lost.

    Attributes:
        replicas: Σ|w| over the nodes that are open.
        changes: The nodes of which something became free or was taken, that came, changed or went.
    """

    def __init__(self, nodes: dict[str, Node], specon: SpeConParameters) -> None:
        """Take over ``nodes``, which is state of the view, and build the orders."""
        self._nodes = nodes
        self._specon = specon
        self._by_score = Order()
        self._by_count = Order()
        self._by_allocation: dict[Resources, Order] = {}
        self._silence: OrderedDict[str, None] = OrderedDict()
        self._gone = Order()
        self._by_keeper: dict[KeeperFacts, Node] | None = None
        self.replicas = 0
        self.changes: Changes[str] = Changes()
        for node in sorted(nodes.values(), key=lambda node: node.seen_offset):
            self._index(node)
            self._note_gone(node)

    # --- looking ---------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Node:
        return self._nodes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        """How many nodes are open."""
        return len(self._by_count)

    def get(self, name: str) -> Node | None:
        """The node of that name, lost or not."""
        return self._nodes.get(name)

    def by_keeper(self) -> Collection[Node]:
        """A node for each of the facts that are known of keepers: few in most pools."""
        if self._by_keeper is None:
            self._by_keeper = {node.keeper: node for node in self if node.keeper is not None}
        return self._by_keeper.values()

    def is_lost(self, name: str) -> bool:
        """Whether a node is lost, or there is none of that name."""
        node = self._nodes.get(name)
        return node is None or node.lost

    def score(self, node: Node) -> float:
        """The present score S(w) of a node."""
        progressing, watched, converged = node.replicas
        return score(progressing, watched, converged, self._specon, node.unknown)

    def by_score(self) -> Iterator[Node]:
        """Nodes by rising score, then by rising resource use R(w, t), then by name."""
        return map(self._nodes.__getitem__, self._by_score)

    def by_count(self) -> Iterator[Node]:
        """Nodes by rising number of replicas, then by name."""
        return map(self._nodes.__getitem__, self._by_count)

    def busiest(self) -> Node | None:
        """The node with most replicas."""
        name = self._by_count.last()
        return None if name is None else self._nodes[name]

    def by_allocation(self) -> Iterator[Iterator[Node]]:
        """For each capacity that occurs: its nodes by rising allocation, then number of replicas, then name.

        The order of the capacities means nothing: compare across them.
        """
        for order in self._by_allocation.values():
            yield map(self._nodes.__getitem__, order)

    def longest_silent(self) -> Node | None:
        """The node whose last heartbeat is oldest, among those that are not lost."""
        name = next(iter(self._silence), None)
        return None if name is None else self._nodes[name]

    def largest(self) -> Node | None:
        """The node with most CPU of those that take jobs, for messages."""
        takers = (node for node in self if node.takes_jobs)
        return max(takers, key=lambda node: (node.capacity.cpu_m, node.name), default=None)

    # --- changing --------------------------------------------------------------------------------------------------

    def weigh_by(self, specon: SpeConParameters) -> None:
        """Use other weights from here on."""
        self._specon = specon
        for node in self:
            self._weigh(node)

    def join(self, event: NodeJoined, counted_ms: int, offset: int) -> None:
        """A node is here, or says something else of itself now."""
        node = self._nodes.get(event.node)
        if node is None:
            node = self._nodes[event.node] = Node(name=event.node, capacity=event.capacity)
        else:
            # Out of all orders first, because they are found by the capacity that the node had.
            self.lose(node)
        node.capacity, node.takes_jobs = event.capacity.of_a_node, event.takes_jobs
        node.labels, node.taints = event.labels, (*event.taints, *((DRAINED,) if node.drained else ()))
        node.failed_gpus, node.keeper = event.failed_gpus, event.keeper
        self._by_keeper = None
        node.lost = False
        node.seen_counted_ms, node.seen_offset = counted_ms, offset
        self.changes.note(node.name)
        self._note_gone(node)
        self._index(node)

    def drain(self, node: Node, *, drained: bool, why: str = "") -> None:
        """A node takes no more jobs, or takes them again; ``why``: what the watcher has found."""
        node.drained, node.slow = drained, why if drained else ""
        taints = tuple(taint for taint in node.taints if taint != DRAINED)
        node.taints = (*taints, DRAINED) if drained else taints
        self.changes.note(node.name)

    def hear(self, node: Node, used: Resources, counted_ms: int, offset: int) -> None:
        """A node reported what it uses; one that was lost is back."""
        node.used = used
        node.seen_counted_ms, node.seen_offset = counted_ms, offset
        if node.lost:
            node.lost = False
            self.changes.note(node.name)
            self._note_gone(node)
            self._index(node)
        else:
            self._weigh(node)
            # Kept in the order of the last heartbeats, so the node that is silent for longest is found without a search.
            self._silence.move_to_end(node.name)

    def lose(self, node: Node) -> None:
        """A node takes no new replicas, because it is lost."""
        if node.lost:
            return
        was_open = node.is_open
        node.lost = True
        self.changes.note(node.name)
        self._note_gone(node)
        del self._silence[node.name]
        if not was_open:
            return
        self._by_score.drop(node.name)
        self._by_count.drop(node.name)
        self._by_allocation[node.capacity].drop(node.name)
        if not self._by_allocation[node.capacity]:
            del self._by_allocation[node.capacity]
        self.replicas -= node.count

    def forget_gone(self, before_counted_ms: int) -> None:
        """Lost nodes that hold nothing, and were last heard of at that time or before, leave the pool."""
        while self._gone:
            name = next(iter(self._gone))
            if self._nodes[name].seen_counted_ms > before_counted_ms:
                return
            self._gone.drop(name)
            del self._nodes[name]
            self.changes.note(name)

    def remove(self, node: Node) -> None:
        """A lost node that holds nothing leaves the pool."""
        self._gone.drop(node.name)
        del self._nodes[node.name]
        self._by_keeper = None
        self.changes.note(node.name)

    def take(self, job: Job, name: str) -> None:
        """Reserve the place of one replica of ``job`` on a node."""
        node = self._nodes[name]
        node.allocated += job.spec.chief_requests
        self.changes.note(name)
        node.jobs[job.name] = None
        job.holds[name] = job.holds.get(name, 0) + 1
        self._note_gone(node)
        self._fill(node)

    def give_back(self, job: Job, name: str) -> None:
        """Free one place that ``job`` holds on a node."""
        held = job.holds.pop(name, 0)
        if held < 1:
            raise BugError(f"job {job.name} holds no place on node {name}")
        node = self._nodes[name]
        if held > 1:
            job.holds[name] = held - 1
        else:
            del node.jobs[job.name]
            self._note_gone(node)
        node.allocated -= job.spec.chief_requests
        self.changes.note(name)
        self._fill(node)

    def held(self, job: Job, name: str) -> Resources:
        """The resources that ``job`` holds on a node."""
        if name in job.held:
            return job.held[name]
        return job.spec.chief_requests.times(job.holds.get(name, 0))

    def reserve(self, job: Job, wanted: Mapping[str, Holding]) -> None:
        """Let ``job`` hold exactly this, by node: of a gang, or where it is not the same for each replica."""
        for name in [*job.holds, *(name for name in wanted if name not in job.holds)]:
            count, amount = wanted.get(name, NOTHING)
            node, before = self._nodes[name], self.held(job, name)
            if (count, amount) == (job.holds.get(name, 0), before):
                continue
            job.held.pop(name, None)
            if count:
                job.holds[name] = count
                node.jobs[job.name] = None
                if job.spec.is_gang or amount != job.spec.chief_requests.times(count):
                    job.held[name] = amount
            else:
                del job.holds[name], node.jobs[job.name]
            # Not the difference first, which may take shares of whole GPUs.
            node.allocated = node.allocated + amount - before
            self.changes.note(name)
            self._note_gone(node)
            self._fill(node)

    def count_at(self, job: Job, nodes: Sequence[str]) -> None:
        """Count ``job`` in the scores of exactly these nodes, once for each time that one is named."""
        wanted = Counter(nodes)
        for name in [*job.assigned, *(name for name in wanted if name not in job.assigned)]:
            change = wanted[name] - job.assigned.get(name, 0)
            if not change:
                continue
            if wanted[name]:
                job.assigned[name] = wanted[name]
            else:
                del job.assigned[name]
            self._count(job, self._nodes[name], change)

    def assign(self, job: Job, name: str) -> None:
        """Count one replica of ``job`` in a node's score."""
        job.assigned[name] = job.assigned.get(name, 0) + 1
        self._count(job, self._nodes[name], 1)

    def unassign(self, job: Job, name: str) -> None:
        """Stop counting one replica of ``job`` there."""
        left = job.assigned.pop(name) - 1
        if left:
            job.assigned[name] = left
        self._count(job, self._nodes[name], -1)

    def recount(self, job: Job, before: int) -> None:
        """The job's category is another one now; ``before`` is the old one's index."""
        for name, count in job.assigned.items():
            node = self._nodes[name]
            node.replicas[before] -= count
            node.replicas[job.category_index] += count
            self._weigh(node)

    def set_unknown(self, job: Job, *, unknown: bool) -> None:
        """The job's growth is unknown from here on, or known."""
        job.unknown = unknown
        for name, count in job.assigned.items():
            node, change = self._nodes[name], count if unknown else -count
            node.unknown += change
            node.replicas[job.category_index] -= change
            self._weigh(node)

    def release(self, job: Job) -> None:
        """Free all that ``job`` holds, and count it nowhere."""
        if job.held:
            self.count_at(job, ())
            self.reserve(job, {})
            return
        for name, count in list(job.assigned.items()):
            for _ in range(count):
                self.unassign(job, name)
        for name, count in list(job.holds.items()):
            for _ in range(count):
                self.give_back(job, name)

    # --- the orders ------------------------------------------------------------------------------------------------

    def _index(self, node: Node) -> None:
        if node.lost:
            return
        self._silence[node.name] = None
        if not node.takes_jobs:
            return
        self._weigh(node)
        self._by_count.put((node.count, node.name))
        self._fill(node)
        self.replicas += node.count

    def _note_gone(self, node: Node) -> None:
        if node.lost and not node.jobs:
            self._gone.put((node.seen_counted_ms, node.name))
        elif node.name in self._gone:
            self._gone.drop(node.name)

    def _count(self, job: Job, node: Node, change: int) -> None:
        if job.unknown:
            node.unknown += change
        else:
            node.replicas[job.category_index] += change
        # A node that is not open is in no order; it is counted when it opens (_index).
        if not node.is_open:
            return
        self.replicas += change
        self._weigh(node)
        self._by_count.put((node.count, node.name))
        self._fill(node)

    def _weigh(self, node: Node) -> None:
        if node.is_open:
            self._by_score.put((self.score(node), use_per_mille(node), node.name))

    def _fill(self, node: Node) -> None:
        if node.is_open:
            order = self._by_allocation.setdefault(node.capacity, Order())
            order.put((allocation(node.allocated, node.capacity), node.count, node.name))


def score(progressing: int, watched: int, converged: int, weights: SpeConParameters, unknown: int = 0) -> float:
    """S(w) = w_pc·|PC| + w_wc·|WC| + w_cc·|CC| (SpeCon thesis, Algorithm 4 and §6.2).

    The thesis knows no job whose growth is unknown. Here it has the weight of a watched one: it takes part of its node, and
    nothing shows whether it is at the beginning or at the end of its learning.
    """
    known = weights.weight_pc * progressing + weights.weight_wc * watched + weights.weight_cc * converged
    return known + weights.weight_wc * unknown


def use_per_mille(node: Node) -> int:
    """R(w, t) of Algorithm 4: the share of a node's CPU that is in use, in thousandths."""
    return node.used.cpu_m * 1000 // node.capacity.cpu_m if node.capacity.cpu_m else 0


def format_resources(amount: Resources) -> str:
    """Resources for people: ``600m CPU, 2048 MiB, 1.5 GPUs``."""
    parts = [f"{amount.cpu_m}m CPU"]
    parts += [f"{amount.memory_mib} MiB"] if amount.memory_mib else []
    gpus = amount.all_gpus_m / 1000
    parts += [f"{gpus:g} GPU{'s' * (gpus != 1)}"] if gpus else []
    return ", ".join(parts)


def allocation(allocated: Resources, capacity: Resources) -> float:
    """How full a node is by requests: the mean share of the resources that it has (Kubernetes' LeastAllocated)."""
    pairs = (
        (allocated.cpu_m, capacity.cpu_m),
        (allocated.memory_mib, capacity.memory_mib),
        (allocated.all_gpus_m, capacity.all_gpus_m),
    )
    shares = [taken / there for taken, there in pairs if there]
    return round(sum(shares) / len(shares), 9) if shares else 0.0
