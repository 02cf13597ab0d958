"""The registry as an AsyncAPI 3.0 document: topics as channels, events as messages, writers as operations.

It owns the form of the document; all that it says comes from the registry and from docstrings. It must never know what
an event does.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from steepest.events.received import ID, LOGIC, PREVIOUS, SEQUENCE, SOURCE, TRUNCATIONS
from steepest.events.registry import READS, TOPICS, Topic
from steepest.trace_context import TRACEPARENT

Json = dict[str, Any]

HEADERS: Mapping[str, str] = {
    ID: "Of a decision: decider/epoch/topic/partition/offset/index of the record that made it decide.",
    PREVIOUS: "Of a decision: the id of the one before it in its stream; absent in the first.",
    LOGIC: "Of a decision: the version of the decider's behaviour.",
    TRUNCATIONS: "Of a decision: how often its cause's partition had lost its newest records by then; absent: never.",
    SOURCE: "Of a source's record: the source and its generation.",
    SEQUENCE: "Of a source's record: a decimal integer that rises within the source.",
    TRACEPARENT: "Of a decision, a request, or a step of a plan: the trace that it belongs to, as in W3C Trace Context.",
}
"""Every header of a record, and what it says."""


def document(topics: Mapping[str, Topic[Any]] = TOPICS) -> Json:
    """The document, ready to be encoded."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Steepest",
            "version": f"{READS}.0.0",
            "description": "The topics of Steepest. Records are JSON; fields at their default are not encoded, and fields "
            "that a reader does not know are skipped. A record's time is when the thing was observed.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {topic.name: _channel(topic) for topic in topics.values()},
        "operations": {name: operation for topic in topics.values() for name, operation in _operations(topic).items()},
        "components": {
            "messages": {event.__name__: _message(event) for event in _events(topics)},
            "schemas": _schemas(topics) | {"Headers": _headers()},
        },
    }


def encode_document() -> bytes:
    """The registry's document as it is printed and kept: indented JSON, one spelling, a final newline."""
    return msgspec.json.format(msgspec.json.encode(document()), indent=2) + b"\n"


def describe(kind: type) -> tuple[str, dict[str, str]]:
    """The description of a type and of the fields in its ``Attributes`` section, by its docstring; as Markdown."""
    text, _, section = inspect.cleandoc(kind.__doc__ or "").replace("``", "`").partition("\n\nAttributes:\n")
    fields: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(section).splitlines():
        if line.startswith(" "):
            fields[name] += f" {line.strip()}"
        elif line:
            name, _, said = line.partition(": ")
            fields[name] = said
    return text, fields


def _events(topics: Mapping[str, Topic[Any]]) -> tuple[type, ...]:
    """Every event type once, in the order of the registry."""
    return tuple(dict.fromkeys(event for topic in topics.values() for event in topic.types))


def _channel(topic: Topic[Any]) -> Json:
    return {
        "address": topic.name,
        "description": topic.description,
        "messages": {event.__name__: _ref("components", "messages", event.__name__) for event in topic.types},
        "bindings": {"kafka": {"topic": topic.name, "partitions": topic.partitions, "bindingVersion": "0.5.0"}},
        "x-key": topic.key,
    }


def _operations(topic: Topic[Any]) -> dict[str, Json]:
    """The events that each writer sends; an event of two writers is an operation of both."""
    sent: dict[str, list[str]] = {}
    for event, writers in topic.writers.items():
        for writer in writers.split(", "):
            sent.setdefault(writer, []).append(event.__name__)
    return {
        f"{writer.replace(' ', '-')}-writes-{topic.name}": {
            "action": "send",
            "channel": _ref("channels", topic.name),
            "summary": f"Written by: {writer}.",
            "messages": [_ref("channels", topic.name, "messages", event) for event in events],
        }
        for writer, events in sent.items()
    }


def _message(event: type) -> Json:
    text, _ = describe(event)
    summary, _, rest = text.partition("\n\n")
    message = {
        "name": event.__name__,
        "title": event.__name__,
        "summary": summary,
        "headers": _ref("components", "schemas", "Headers"),
        "payload": _ref("components", "schemas", event.__name__),
    }
    return message | ({"description": rest} if rest else {})


def _schemas(topics: Mapping[str, Topic[Any]]) -> dict[str, Json]:
    events = _events(topics)
    _, schemas = msgspec.json.schema_components(events, ref_template="#/components/schemas/{name}")
    kinds = {kind.__name__: kind for event in events for kind in _structs(msgspec.inspect.type_info(event))}
    for name, kind in kinds.items():
        schema = schemas[name]
        schema["description"], fields = describe(kind)
        for field, said in fields.items():
            schema["properties"][field] = _with_description(schema["properties"][field], said)
    return schemas


def _structs(info: msgspec.inspect.Type) -> list[type]:
    """The struct types within a type, outermost first."""
    match info:
        case msgspec.inspect.StructType():
            return [info.cls, *(kind for field in info.fields for kind in _structs(field.type))]
        case msgspec.inspect.UnionType():
            return [kind for member in info.types for kind in _structs(member)]
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
            return _structs(info.item_type)
        case msgspec.inspect.DictType():
            return _structs(info.value_type)
    return []


def _with_description(schema: Json, said: str) -> Json:
    """A schema with its description; a reference allows no further key next to it."""
    return {"allOf": [schema], "description": said} if "$ref" in schema else {**schema, "description": said}


def _headers() -> Json:
    said = {name: {"type": "string", "description": text} for name, text in HEADERS.items()}
    return {"type": "object", "description": "The headers of a record, all of them text.", "properties": said}


def _ref(*path: str) -> Json:
    return {"$ref": "#/" + "/".join(path)}
