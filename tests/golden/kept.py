"""What later versions are held to: messages as this version encodes them, and its view at every position of a recording.

It owns making both. Run ``python -m tests.golden.kept`` once a version of the events is done; what an earlier version left
is never made anew, because no later code can make it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

import msgspec

from steepest.events.received import Received
from steepest.events.registry import READS, TOPICS, encode
from steepest.log.base import TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import received
from steepest.view.cluster_view import ClusterView

HERE = Path(__file__).parent
MESSAGES = HERE / "messages"
VIEWS = HERE / "views"
CLUSTER = TopicPartition("cluster")

TEXTS = ("job-1", "train", "nan", "a text")
"""One of them is what a text's pattern asks for."""

FACTS: Mapping[str, Sequence[str]] = {
    "nodes": ["capacity", "allocated", "used", "replicas", "lost"],
    "jobs": [
        "phase",
        "admitted",
        "incarnation",
        "nodes",
        "alive",
        "holds",
        "category",
        "migrated",
        "rebalanced",
        "moves",
        "moves_failed",
        "steps_lost",
        "plan",
        "cancel",
        "retries_used",
        "checkpoint",
        "outcome",
    ],
    "plans": ["kind", "job", "incarnation", "status", "reason", "heading", "steps", "begun", "attempt", "failures"],
}
"""What of a view every version must agree on; what a later one adds is its own."""


@singledispatch
def example(info: msgspec.inspect.Type) -> Any:
    """A value that a field of this type may have, the same every time."""
    raise TypeError(f"no event has had such a field so far: {info}")


@example.register
def _(info: msgspec.inspect.StrType) -> str:
    return next(text for text in TEXTS if info.pattern is None or re.search(info.pattern, text))


@example.register
def _(_: msgspec.inspect.IntType) -> int:
    return 7


@example.register
def _(_: msgspec.inspect.FloatType) -> float:
    return 0.125


@example.register
def _(_: msgspec.inspect.BoolType) -> bool:
    return True


@example.register
def _(_: msgspec.inspect.BytesType) -> bytes:
    return b"\x00\xff"


@example.register
def _(info: msgspec.inspect.EnumType) -> Any:
    return list(info.cls)[-1]


@example.register
def _(info: msgspec.inspect.UnionType) -> Any:
    return example(next(kind for kind in info.types if not isinstance(kind, msgspec.inspect.NoneType)))


@example.register
def _(info: msgspec.inspect.VarTupleType) -> tuple[Any, ...]:
    return (example(info.item_type),)


@example.register
def _(info: msgspec.inspect.TupleType) -> tuple[Any, ...]:
    return tuple(example(item) for item in info.item_types)


@example.register
def _(info: msgspec.inspect.DictType) -> dict[Any, Any]:
    return {example(info.key_type): example(info.value_type)}


@example.register
def _(info: msgspec.inspect.StructType) -> Any:
    return info.cls(**{field.name: example(field.type) for field in info.fields})


def examples(event: type) -> Iterator[Any]:
    """An event with every field, and one with those only that it must have."""
    info = msgspec.inspect.type_info(event)
    assert isinstance(info, msgspec.inspect.StructType)
    yield example(info)
    yield event(**{field.name: example(field.type) for field in info.fields if field.required})


async def digests(recording: Path) -> list[str]:
    """What the view of a recording's pool holds after each record, in a few letters a record."""
    log = FileLog.open(recording, read_only=True)
    view = ClusterView()
    found: list[str] = []
    reader = log.reader({CLUSTER: 0})
    end = await log.end(CLUSTER)
    while len(found) < end:
        for record in await reader.poll():
            event: Received[Any] = received(record)
            view.fold(event)
            found.append(hashlib.sha256(msgspec.json.encode(facts(view), order="deterministic")).hexdigest()[:8])
    await reader.close()
    await log.close()
    return found


def facts(view: ClusterView) -> Any:
    """What every version must agree on, as data."""
    return [view.counted_ms] + [
        {name: [getattr(one, field) for field in fields] for name, one in getattr(view.state, kind).items()}
        for kind, fields in FACTS.items()
    ]


def keep_messages() -> None:
    """Write this version's messages."""
    for topic in TOPICS.values():
        file = MESSAGES / str(READS) / f"{topic.name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(encode(one) + b"\n" for event in topic.types for one in examples(event)))


def keep_views() -> None:
    """Write the views of the recordings that have none yet."""
    import asyncio  # noqa: PLC0415 - only the command needs it

    VIEWS.mkdir(exist_ok=True)
    for recording in sorted(folder.parent for folder in HERE.glob("*/recording.json")):
        file = VIEWS / f"{recording.name}.txt"
        if not file.exists():
            file.write_text("\n".join(asyncio.run(digests(recording))) + "\n")


if __name__ == "__main__":
    keep_messages()
    keep_views()
