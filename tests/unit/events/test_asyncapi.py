"""The documents made from the registry: valid, complete, and the ones that are kept."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner

from steepest.cli.commands.schema import schema
from steepest.events import cluster as c
from steepest.events.registry import TOPICS, encode
from steepest.events.schema.asyncapi import describe, document, encode_document
from steepest.events.schema.page import page

ROOT = Path(__file__).parents[3]
MADE = document()


@pytest.fixture(scope="module")
def asyncapi() -> jsonschema.Draft7Validator:
    """AsyncAPI's own schema of documents."""
    packed = (ROOT / "tests" / "data" / "asyncapi" / "3.0.0.json.gz").read_bytes()
    return jsonschema.Draft7Validator(json.loads(gzip.decompress(packed)))


def test_the_document_is_valid_asyncapi(asyncapi: jsonschema.Draft7Validator) -> None:
    """Any AsyncAPI tool can read it."""
    assert [error.message for error in asyncapi.iter_errors(MADE)] == []


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("operations", "user-writes-cluster", "action"), "publish"),
        (("channels", "cluster", "messages", "Tick"), {"payload": 7}),
        (("components", "messages", "Tick", "unknown"), 1),
        (("components", "schemas", "Tick", "type"), "struct"),
    ],
)
def test_the_schema_refuses_a_wrong_document(
    asyncapi: jsonschema.Draft7Validator, path: tuple[str, ...], wrong: object
) -> None:
    """The check above can fail, at every depth."""
    spoiled = copy.deepcopy(MADE)
    *parents, last = path
    place = spoiled
    for parent in parents:
        place = place[parent]
    place[last] = wrong
    assert not asyncapi.is_valid(spoiled)


def test_every_reference_leads_somewhere() -> None:
    """A schema of documents cannot see that: each $ref names a part of the document."""
    for reference in _references(MADE):
        place: Any = MADE
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        assert place


def _references(value: Any) -> list[str]:
    match value:
        case {"$ref": str(reference)}:
            return [reference]
        case dict():
            return [found for item in value.values() for found in _references(item)]
        case list():
            return [found for item in value for found in _references(item)]
    return []


def test_every_event_is_a_message_of_its_channel_and_written_by_its_writers() -> None:
    """Nothing of the registry is missing, and nothing is added."""
    assert list(MADE["channels"]) == list(TOPICS)
    for name, topic in TOPICS.items():
        channel = MADE["channels"][name]
        assert list(channel["messages"]) == [event.__name__ for event in topic.types]
        assert channel["x-key"] == topic.key
        assert channel["bindings"]["kafka"]["partitions"] == topic.partitions
        for event, writers in topic.writers.items():
            sent = {"$ref": f"#/channels/{name}/messages/{event.__name__}"}
            writing = [key for key, operation in MADE["operations"].items() if sent in operation["messages"]]
            assert writing == [f"{writer.replace(' ', '-')}-writes-{name}" for writer in writers.split(", ")]


def test_docstrings_are_descriptions() -> None:
    """What a field is for stands at the field, also in a struct within an event and beside a reference."""
    schemas = MADE["components"]["schemas"]
    tick = schemas["GrowthMeasured"]
    assert "Attributes" not in tick["description"]
    assert tick["properties"]["count"]["description"] == "How many values."
    assert schemas["SpeConParameters"]["properties"]["weight_pc"]["description"].startswith("Weight w_pc")
    assert schemas["NodeHeartbeat"]["properties"]["used"]["description"].startswith("Measured use")
    message = MADE["components"]["messages"]["NodeUsage"]
    assert message["summary"].startswith("Measured use of a node")


def test_a_docstring_is_read_to_its_last_line() -> None:
    """Fields whose description goes on in the next line lose nothing."""
    text, fields = describe(c.ReplicaStopped)
    assert text == "A replica's process definitely no longer runs."
    assert list(fields) == ["exit_status", "step", "checkpoint"]
    text, fields = describe(c.JobSpec)
    assert fields["checkpoint_mode"].endswith("else `none`.")


def test_what_is_encoded_fits_the_schema_of_its_payload() -> None:
    """The document describes the bytes: an event as it is written is valid by it, and a spoiled one is not."""
    event = c.MigrationPlanned(
        plan="p",
        job="a",
        incarnation=1,
        source="n1",
        target="n2",
        kind=c.MoveKind.REBALANCE,
        because=c.Because(rule="r", nodes=(c.NodeScore(node="n1", score=1.5),)),
    )
    validator = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/MigrationPlanned", **MADE})
    written = json.loads(encode(event))
    assert validator.is_valid(written)
    assert not validator.is_valid(written | {"source": "N 1"})
    assert not validator.is_valid(written | {"because": {"nodes": []}})


def test_the_documents_that_are_kept_are_the_registrys() -> None:
    """docs/ has what the commands print; run them again where this fails."""
    assert (ROOT / "docs" / "asyncapi.json").read_bytes() == encode_document()
    assert (ROOT / "docs" / "events.md").read_text() == page()


def test_the_command_prints_them() -> None:
    """JSON and nothing else by default, and the page where it is asked for."""
    assert CliRunner().invoke(schema).stdout_bytes == encode_document()
    assert CliRunner().invoke(schema, ["--page"]).stdout == page()


def test_the_page_has_a_line_an_event() -> None:
    """A bar in a docstring must not end a cell of its table."""
    lines = page().splitlines()
    for topic in TOPICS.values():
        for event in topic.types:
            (line, *_) = [line for line in lines if line.startswith(f"| `{event.__name__}` |")]
            assert line.replace("\\|", "").count("|") == 4


def test_the_document_is_made_of_plain_data() -> None:
    """It can be encoded by anything."""
    assert msgspec.json.decode(encode_document()) == json.loads(json.dumps(MADE))
