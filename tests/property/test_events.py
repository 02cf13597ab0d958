"""What holds for every event that can be made of the registry's types."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, singledispatch
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled

from steepest.errors import UndecodableError
from steepest.events.common import Resources
from steepest.events.received import MAX_DIGITS, DecisionId
from steepest.events.registry import TOPICS, Topic, encode

EVENTS = [(topic, event) for topic in TOPICS.values() for event in topic.types]


@singledispatch
def values(info: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Every value that a field of this type may have."""
    raise TypeError(f"no event has had such a field so far: {info}")


@values.register
def _(info: msgspec.inspect.StrType) -> st.SearchStrategy[str]:
    if info.pattern is None:
        return st.text(max_size=20)
    return st.from_regex(info.pattern.replace("^", r"\A").replace("$", r"\Z"))


@values.register
def _(info: msgspec.inspect.IntType) -> st.SearchStrategy[int]:
    least = info.ge if info.gt is None else info.gt + 1
    return st.integers(least, info.le)


@values.register
def _(info: msgspec.inspect.FloatType) -> st.SearchStrategy[float]:
    least = info.ge if info.gt is None else info.gt
    return st.floats(least, info.le, exclude_min=info.gt is not None, allow_nan=False, allow_infinity=False)


@values.register
def _(_: msgspec.inspect.BoolType) -> st.SearchStrategy[bool]:
    return st.booleans()


@values.register
def _(_: msgspec.inspect.BytesType) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=20)


@values.register
def _(_: msgspec.inspect.NoneType) -> st.SearchStrategy[None]:
    return st.none()


@values.register
def _(info: msgspec.inspect.EnumType) -> st.SearchStrategy[Any]:
    return st.sampled_from(info.cls)


@values.register
def _(info: msgspec.inspect.StructType) -> st.SearchStrategy[Any]:
    return structs(info.cls)


@values.register
def _(info: msgspec.inspect.UnionType) -> st.SearchStrategy[Any]:
    return st.one_of([values(member) for member in info.types])


@values.register
def _(info: msgspec.inspect.VarTupleType) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values(info.item_type), max_size=3).map(tuple)


@values.register
def _(info: msgspec.inspect.TupleType) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*[values(item) for item in info.item_types])


@values.register
def _(info: msgspec.inspect.DictType) -> st.SearchStrategy[dict[Any, Any]]:
    return st.dictionaries(values(info.key_type), values(info.value_type), max_size=3)


@cache
def structs(kind: type) -> st.SearchStrategy[Any]:
    """Every struct of a type, with any of its optional fields left at their default."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    required = {field.name: values(field.type) for field in info.fields if field.required}
    optional = {field.name: values(field.type) for field in info.fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: kind(**fields))


@pytest.mark.parametrize(("topic", "event"), EVENTS, ids=lambda value: getattr(value, "__name__", ""))
@settings(max_examples=scaled(25), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_event_comes_back_as_it_was(topic: Topic[Any], event: type, data: st.DataObject) -> None:
    """An event survives encoding and decoding, and encodes to the same bytes again: a record can be rewritten unchanged."""
    made = data.draw(structs(event))
    value = encode(made)
    read = topic.decode(value)
    assert read == made
    assert encode(read) == value


@pytest.mark.parametrize(("topic", "event"), EVENTS, ids=lambda value: getattr(value, "__name__", ""))
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_unknown_fields_change_nothing_and_removed_ones_are_defaults(
    topic: Topic[Any], event: type, data: st.DataObject
) -> None:
    """A newer writer's field is skipped; leaving out an optional field is saying its default."""
    made = data.draw(structs(event))
    fields = msgspec.json.decode(encode(made))
    assert topic.decode(msgspec.json.encode({**fields, "a_field_of_tomorrow": [{"x": 1}]})) == made
    info = msgspec.inspect.type_info(event)
    assert isinstance(info, msgspec.inspect.StructType)
    required = {field.name for field in info.fields if field.required}
    least = {name: value for name, value in fields.items() if name in required or name == "type"}
    defaults = {field.name for field in info.fields} - required
    read = topic.decode(msgspec.json.encode(least))
    plain = event(**{name: getattr(made, name) for name in required})
    assert read == plain
    assert all(getattr(read, name) == getattr(plain, name) for name in defaults)


@given(st.binary(max_size=200))
def test_no_bytes_make_a_reader_fail(value: bytes) -> None:
    """Any bytes are an event or are refused as undecodable: nothing else is ever raised."""
    for topic in TOPICS.values():
        with suppress(UndecodableError):
            assert type(topic.decode(value)) in topic.types


AMOUNTS = st.builds(Resources, st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 1000))


@given(AMOUNTS, AMOUNTS)
def test_resources_add_up(one: Resources, other: Resources) -> None:
    """What is put in and taken out again is gone, and a part fits into the whole."""
    assert one + other - other == one
    assert one.fits(one + other)
    assert (one + other).fits(one) == (other == Resources())


PARTS = st.text(st.characters(exclude_characters="/", codec="utf-8"), max_size=10)


NUMBERS = st.integers(0, 10**MAX_DIGITS - 1)


@given(st.builds(DecisionId, PARTS, PARTS, PARTS, NUMBERS, NUMBERS, NUMBERS))
def test_a_decisions_id_comes_back_from_its_text(decision: DecisionId) -> None:
    """Text and back is the same id."""
    assert DecisionId.parse(str(decision)) == decision
