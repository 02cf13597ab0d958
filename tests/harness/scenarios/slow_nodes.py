"""Simulated nodes, one of which, or one of whose jobs, is slower: paces wander, and one step in a hundred is a long one."""

from __future__ import annotations

import heapq
import math
import random
from typing import NamedTuple

from steepest.policies.watch.pace import Pace

NODES, SLOWER = 8, 1 / 0.6


class Seen(NamedTuple):
    """A simulated fault: after how many of its steps it was found, and the cause; False sayings, of so many steps."""

    found: int | None
    cause: tuple[str, int] | None
    wrong: int
    steps: int


def world(rng: random.Random, jobs_a_node: int, noise: float, fault: str, *, by_model: bool = False) -> Seen:
    """One job or node of eight becomes slower; ``fault``: which, or neither.

    ``by_model``: it is so from the start, and each job of a node is of another model, whose jobs are equally fast. With
    the fault ``model`` all jobs of one model become slower later.
    """
    nodes = {f"j{node}-{job}": f"n{node}" for node in range(NODES) for job in range(jobs_a_node)}
    models = {job: job.split("-")[1] if by_model else "" for job in nodes}
    typical = {job: math.exp(rng.uniform(-1, 1)) for job in nodes}
    typical = {job: typical[f"j0-{models[job]}"] for job in nodes} if by_model else typical
    level = dict.fromkeys(nodes, 0.0)
    paces = {job: Pace(node=node, model=models[job]) for job, node in nodes.items()}
    bad = rng.choice(sorted(nodes))
    begins = rng.uniform(50, 70) * typical[bad] * (not by_model or fault == "model")
    queue = [(0.0, job) for job in nodes]
    heapq.heapify(queue)
    found, cause, since, wrong, steps = None, None, 0, 0, 0
    slow_before: set[str] = set()
    while queue:
        now, job = heapq.heappop(queue)
        level[job] = 0.5 * level[job] + rng.gauss(0, noise) * 0.866
        seconds = typical[job] * math.exp(level[job])
        if rng.random() < 0.01:
            seconds *= 1 + rng.paretovariate(1.5)
        hurt = {"node": nodes[job] == nodes[bad], "job": job == bad, "model": models[job] == models[bad]}
        is_hurt = now >= begins and hurt.get(fault, False)
        seconds *= SLOWER if is_hurt else 1
        paces[job].add(seconds, nodes[job], paces)
        paces[job].compare(paces)
        steps += 1
        is_slow = paces[job].peers is not None
        if is_hurt and job == bad:
            since += 1
            found = found or (since if is_slow else None)
            said = paces[job].cause(paces) if is_slow else None
            cause = cause or ((said, since) if said else None)
        elif is_slow and not is_hurt:
            wrong += job not in slow_before
        slow_before = slow_before | {job} if is_slow else slow_before - {job}
        if now + seconds < min(200 * typical[bad], 240 * typical[job]):
            heapq.heappush(queue, (now + seconds, job))
    return Seen(found, cause, wrong, steps)
