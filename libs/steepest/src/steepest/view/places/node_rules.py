"""Whether a job may run on a node, by the node's taints and labels and the job's rules about them.

The rules are those of Kubernetes' scheduler (its plugins TaintToleration and NodeAffinity): a taint keeps away every job
that does not tolerate it; a requirement compares one label. It owns these rules. It must never know how much is free.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

import msgspec

from steepest.events.common import (
    NAME_FIELD,
    CheckpointMode,
    KeeperFacts,
    LabelOperator,
    LabelRequirement,
    NodeRule,
    Taint,
    Toleration,
    TolerationOperator,
)
from steepest.view.nodes import DRAINED, Nodes
from steepest.view.state import Job, Node, Phase

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT64 = range(-(2**63), 2**63)


def is_allowed(rule: NodeRule | None, node: Node) -> bool:
    """Whether a job with this rule may run on a node. Work: O(taints · tolerations + values of the requirements)."""
    if rule is None:
        return not node.taints
    if rule.avoids == node.name or _keeps_away(rule, node) is not None:
        return False
    return why_not_restored(rule.image, node) == "" and _lacks(rule, node) == ""


def why_not_allowed(rule: NodeRule | None, node: Node) -> str:
    """Why a job may not run on a node, in words for people; empty if it may."""
    if (taint := _keeps_away(rule, node)) is not None:
        return f"the taint {taint}{f': {node.slow}' if node.slow and taint == DRAINED else ''}"
    if rule is None:
        return ""
    if rule.avoids == node.name:
        return "a finding that it was the cause of"
    if why := why_not_restored(rule.image, node):
        return f"the image of its processes: {why}"
    return _lacks(rule, node)


def why_not_restored(image: KeeperFacts | None, node: Node) -> str:
    """Why a node cannot restore an image that was made on a node with these facts; empty if it can, or nothing is known."""
    here = node.keeper
    return "" if image is None or here is None or here == image else _differs(image, here)


@functools.lru_cache(maxsize=1024)
def _differs(there: KeeperFacts, here: KeeperFacts) -> str:
    """As the keeper itself compares them before a restore (``steepest.keeper.places``)."""
    if here.unable:
        return f"no-keeper: {here.unable}"
    if (there.machine, there.kernel) != (here.machine, here.kernel):
        return f"other-kernel: it was saved on {there.machine}, Linux {there.kernel}"
    layers = dict(here.images)
    if any(layers.get(name, digest) != digest for name, digest in there.images):
        return "other-image: the container image of that name has other layers, or is not there"
    has = here.cpu.split()
    if has and (lacking := [feature for feature in there.cpu.split() if feature not in has]):
        return f"other-cpu: the CPU has no {', '.join(lacking[:10])}"
    if here.criu and there.criu > here.criu:
        return f"other-criu: it was saved by CRIU {'.'.join(map(str, there.criu))}"
    return ""


def _for_image(name: str, facts: KeeperFacts | None) -> KeeperFacts | None:
    """Facts of a node without those about other container images than one."""
    if facts is None or not facts.images:
        return facts
    return msgspec.structs.replace(facts, images=tuple(one for one in facts.images if one[0] == name))


def doubtful_places(job: Job, nodes: Nodes) -> Iterator[str]:
    """Which nodes cannot restore a running job, or may refuse to because little is known of them, in words for people."""
    if job.phase is Phase.RUNNING and job.mode is CheckpointMode.SYSTEM:
        open_ = [node for node in nodes if node.is_open and node.name not in job.nodes and node.keeper is not None]
        saved = job.narrowed.image if job.narrowed is not None else None
        refuse = [f"{node.name} cannot restore it: {why}" for node in open_ if (why := why_not_restored(saved, node))]
        yield from refuse[:10]
        names = [node.name for node in open_ if node.keeper and not (node.keeper.unable or node.keeper.cpu)]
        if names:
            yield f"it is not known whether the CPU of {', '.join(names[:10])} can restore it: no keeper has run there"


def narrow(job: Job, nodes: Nodes) -> bool:
    """Bring up to date which nodes a job's image and findings leave it, after it or they have changed; whether that is news.

    A job that can be saved by a keeper is saved on its node before it leaves it; one that does not run has its image.
    """
    before = job.narrowed
    known = nodes.get(job.started_on)
    here = _for_image(job.spec.image, known.keeper) if known is not None else None
    saved = job.checkpoint
    if saved is None or not saved.is_image or job.phase is Phase.ENDED:
        job.image = None
    elif job.image is None or job.image[0] != saved.name:
        job.image = (saved.name, here)
    if job.phase is Phase.RUNNING:
        facts = here if job.mode is CheckpointMode.SYSTEM else None
    else:
        image = job.image[1] if job.image is not None else None
        facts = None if image is None else _for_image(job.spec.image, _demanded(image, nodes))
    if facts is not None and not any(why_not_restored(facts, node) for node in nodes.by_keeper()):
        facts = None
    avoids = job.avoids[0] if job.avoids is not None else ""
    narrowed = msgspec.structs.replace(job.spec.node_rule or NodeRule(), image=facts, avoids=avoids)
    job.narrowed = narrowed if facts is not None or avoids else None
    return job.narrowed != before


def _demanded(image: KeeperFacts, nodes: Nodes) -> KeeperFacts:
    """What a place must have for a job that does not run, and has an image of a node with these facts.

    Where no node could ever restore it, as after an upgrade of all machines, a keeper of another kind refuses it, and begins
    the job again in the end: else it would wait for ever.
    """
    kinds = nodes.by_keeper()
    if not all(why_not_restored(image, node) for node in kinds) or any(node.keeper is None for node in nodes):
        return image
    return next((node.keeper for node in kinds if node.keeper is not None and not node.keeper.unable), image)


def requires_labels(rule: NodeRule | None) -> bool:
    """Whether the labels of nodes must be known, so that it can be said where a job may run."""
    return rule is not None and bool(rule.requires or rule.any_of)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration is one of a taint."""
    return (
        toleration.effect in {"", taint.effect}
        and toleration.key in {"", taint.key}
        and (toleration.operator is TolerationOperator.EXISTS or toleration.value == taint.value)
    )


def holds(requirement: LabelRequirement, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a requirement holds of a node of that name with these labels."""
    value = name if requirement.key == NAME_FIELD else labels.get(requirement.key)
    match requirement.operator:
        case LabelOperator.IN:
            return value is not None and value in requirement.values
        case LabelOperator.NOT_IN:
            return value is None or value not in requirement.values
        case LabelOperator.EXISTS:
            return value is not None
        case LabelOperator.DOES_NOT_EXIST:
            return value is None
        case LabelOperator.GT | LabelOperator.LT:
            number = None if value is None else _integer(value)
            bound = _integer(requirement.values[0]) if len(requirement.values) == 1 else None
            if number is None or bound is None:
                return False
            return number > bound if requirement.operator is LabelOperator.GT else number < bound


def _keeps_away(rule: NodeRule | None, node: Node) -> Taint | None:
    """The first taint of a node that is not tolerated."""
    tolerated = () if rule is None else rule.tolerates
    return next((taint for taint in node.taints if not any(tolerates(one, taint) for one in tolerated)), None)


def _lacks(rule: NodeRule, node: Node) -> str:
    """Why a node's labels keep a job away; empty if they do not."""
    if not requires_labels(rule):
        return ""
    if node.labels is None:
        return "its labels, which are not known yet"
    for requirement in rule.requires:
        if not holds(requirement, node.name, node.labels):
            return f"the label {_said(requirement)}, which does not hold"
    if rule.any_of and not any(
        term and all(holds(requirement, node.name, node.labels) for requirement in term) for term in rule.any_of
    ):
        return "its labels: none of the required node affinity's terms holds"
    return ""


def _said(requirement: LabelRequirement) -> str:
    """A requirement for people: few of its values."""
    values = ", ".join(requirement.values[:3]) + (", …" if requirement.values[3:] else "")
    return f"{requirement.key} {requirement.operator}{f' [{values}]' if values else ''}"


def _integer(text: str) -> int | None:
    """An integer of 64 bits, as Kubernetes reads one; None: the text is none."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None
