"""Which wishes surely have no room, so that nodes are searched for the others only.

It owns this memory and when it is outdated. It must never know who decides, nor which node is best.

Theory. A wish that found no node *has no room*. That stays so until something became free, on a node that joined, came
back, or on which a place was given back; then the wishes that fit what is free on that node are *open* again. A wish that
no node could fulfil, were it empty, stays open, because sooner or later its jobs are rejected; where a node becomes smaller
or goes, all are open, because that may have become so. All of this follows from the view and from the plans under way, so
nothing of it is kept in a snapshot: a memory that begins empty searches more, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from steepest.events.common import Resources
from steepest.policies.pending import Pending
from steepest.view.cluster_view import ClusterView
from steepest.view.queue import Wish, wish_of
from steepest.view.state import Job, Node


class Seen(msgspec.Struct, frozen=True):
    """A node as it was looked at last; ``free`` is None where no job may come."""

    capacity: Resources
    takes_jobs: bool
    free: Resources | None


class Room:
    """The wishes of one view, looked at with the plans of one decider under way."""

    def __init__(self, view: ClusterView, pending: Pending) -> None:
        self._view = view
        self._pending = pending
        self._open: dict[Wish, None] = {}
        self._full: dict[Wish, None] = {}
        self._seen: dict[str, Seen] = {}
        self._returned: dict[str, None] = {}
        self._nodes = self._wishes = 0
        self._look_at_all()

    def is_of(self, view: ClusterView, pending: Pending) -> bool:
        """Whether this is what it remembers of."""
        return self._view is view and self._pending is pending

    def open(self) -> Iterator[Wish]:
        """The wishes that jobs have which may be placed now, and that may have room."""
        self._look()
        for wish in list(self._open):
            if next(self._view.jobs.queue.asking_for(wish), None) is None:
                del self._open[wish]
            else:
                yield wish

    def may_have(self, job: Job) -> bool:
        """Whether a node is worth searching for a job."""
        self._look()
        return wish_of(job) not in self._full

    def found_none(self, job: Job) -> None:
        """No node has room for a job now."""
        wish = wish_of(job)
        if could_ever(self._view, job):
            self._open.pop(wish, None)
            self._full[wish] = None

    def was_taken(self, node: Node) -> None:
        """A plan was made that takes of a node."""
        self._seen[node.name] = self._look_at(node)

    def may_be_back(self, node: str) -> None:
        """A plan that took of a node is no longer under way."""
        self._returned[node] = None

    def _look(self) -> None:
        """Take in what has changed since the last look."""
        nodes, wishes = self._view.nodes.changes, self._view.jobs.queue.news
        changed, added = nodes.since(self._nodes), wishes.since(self._wishes)
        if changed is None or added is None:
            self._look_at_all()
            return
        self._nodes, self._wishes = nodes.now, wishes.now
        self._open.update((wish, None) for wish in added if wish not in self._full)
        for name in dict.fromkeys((*changed, *self._returned)):
            self._look_again(name)
        self._returned.clear()

    def _look_at_all(self) -> None:
        queue, nodes = self._view.jobs.queue, self._view.nodes
        self._nodes, self._wishes = nodes.changes.now, queue.news.now
        self._open, self._full, self._returned = dict.fromkeys(queue.wishes()), {}, {}
        self._seen = {node.name: self._look_at(node) for node in nodes}

    def _look_again(self, name: str) -> None:
        node, before = self._view.nodes.get(name), self._seen.pop(name, None)
        now = None if node is None else self._look_at(node)
        if now is not None:
            self._seen[name] = now
        if before is not None and (
            now is None or (now.capacity, now.takes_jobs) != (before.capacity, before.takes_jobs)
        ):
            self._reopen(list(self._full))
        elif now is not None and now.free is not None and not (before and before.free and now.free.fits(before.free)):
            free = now.free
            self._reopen([wish for wish in self._full if wish[0].fits(free) and wish[1] in {None, name}])

    def _reopen(self, wishes: list[Wish]) -> None:
        for wish in wishes:
            del self._full[wish]
            self._open[wish] = None

    def _look_at(self, node: Node) -> Seen:
        return Seen(node.capacity, node.takes_jobs, self._pending.free(node) if node.is_open else None)


def could_ever(view: ClusterView, job: Job) -> bool:
    """Whether some node could take a job, were it empty and there."""
    requests, first_node = wish_of(job)
    if first_node is None:
        return any(node.takes_jobs and requests.fits(node.capacity) for node in view.nodes)
    node = view.nodes.get(first_node)
    return node is not None and node.takes_jobs and requests.fits(node.capacity)
