"""Turns our messages into kio's and makes up their contents: the common part of the protocol's property
tests.

kio 0.6 has one dataclass a message and version, generated from Kafka's own schemas. Where it dresses numbers
up, this undresses them: durations are timedeltas there, timestamps datetimes (whole seconds only, -1 is
None), the zero uuid is None, error codes are an enum, arrays are tuples, and a duration's name has lost its
unit.
"""

import dataclasses
import datetime
import importlib
import io
import pkgutil
import random
import types
import typing
import uuid
from functools import cache

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

import moldau.common.protocol.messages
from moldau.common.protocol.declare import ZERO_UUID, Fixed, Message, Sized, Struct
from moldau.common.protocol.schema import Array, Nested, columns

_EPOCH = datetime.datetime.fromtimestamp(0, tz=datetime.UTC)
_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}


@cache
def all_messages() -> tuple[type[Message], ...]:
    """Every declared message, in the order of their modules."""
    found = []
    for module_info in pkgutil.iter_modules(moldau.common.protocol.messages.__path__):
        module = importlib.import_module(f"{moldau.common.protocol.messages.__name__}.{module_info.name}")
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Message) and value.__module__ == module.__name__
        ]
    return tuple(found)


def kio_type(cls: type[Message], version: int) -> type | None:
    """kio's class for a message in a version; None for what kio does not have (coordinator records)."""
    module = cls.__module__.rpartition(".")[2]
    if module in {"coordinator_records", "share_state_records", "transaction_records"}:
        return None
    for suffix, kind in (("Request", EntityType.request), ("Response", EntityType.response)):
        if cls.__name__.endswith(suffix):
            return load_entity_schema(module, version, kind)
    return load_entity_schema(module, version, EntityType.data)


def pairs() -> list[tuple[type[Message], int]]:
    """Every message with every version of it."""
    return [
        (cls, version) for cls in all_messages() for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)
    ]


def pair_id(pair: tuple[type[Message], int]) -> str:
    """How a test names such a pair."""
    return f"{pair[0].__name__}-v{pair[1]}"


class Maker:
    """Makes messages up from a seed; `kio_class` says which numbers must be error codes, durations, times."""

    def __init__(self, seed: int, version: int, size: int = 3) -> None:
        self.random = random.Random(seed)
        self.version, self.size = version, size

    def struct(self, cls: type[Struct], kio_class: type | None) -> Struct:
        """An instance with something, often something odd, in each field that the version has."""
        hints = {}
        if kio_class is not None:
            hints = {ours(cls, field.name): field for field in dataclasses.fields(kio_class)}
        values = {}
        for column in columns(cls):
            if not column.present(self.version):
                continue
            hint = hints.get(column.name)
            if column.tag is not None and self.random.random() < 0.4:
                continue
            kafka_type = hint.metadata.get("kafka_type", "") if hint else ""
            nested = _element(hint.type) if hint else None
            values[column.name] = self.value(column.type, column.nullable(self.version), kafka_type, nested)
        return cls(**values)

    def value(self, wire_type: object, nullable: bool, kafka_type: str, kio_class: type | None) -> object:
        """A value of a wire type."""
        if nullable and self.random.random() < 0.3:
            return None
        if isinstance(wire_type, Array):
            count = self.random.choice([0, 1, 1, 2, self.size])
            return [self.value(wire_type.element, False, kafka_type, kio_class) for _ in range(count)]
        if isinstance(wire_type, Nested):
            return self.struct(wire_type.struct, kio_class)
        if isinstance(wire_type, Sized):
            length = self.random.choice([0, 1, 5, 20, 126, 127, 128, 200])
            if wire_type.kind == "string":
                return "".join(self.random.choice("abcdefghij-._ÄπΩ漢😀") for _ in range(length))
            return self.random.randbytes(length)
        assert isinstance(wire_type, Fixed)
        return self.fixed(wire_type.letter, kafka_type)

    def fixed(self, letter: str, kafka_type: str) -> object:
        """A number, a truth value or an id."""
        pick = self.random
        if kafka_type == "error_code":
            return int(pick.choice(list(ErrorCode)))
        if kafka_type == "timedelta_i64":
            return pick.choice([-1, 0, 1, pick.randrange(-(2**42), 2**42)])
        if kafka_type == "datetime_i64":
            return pick.choice([0, 1000, pick.randrange(2**31) * 1000])
        if letter == "?":
            return pick.random() < 0.5
        if letter == "d":
            return pick.choice([0.0, -1.5, 1e300, pick.random()])
        if letter == "16s":
            return pick.choice([ZERO_UUID, pick.randbytes(16)])
        if letter in "HI":
            return pick.randrange(2**16)
        bits = _BITS[letter]
        return pick.choice(
            [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), pick.randrange(2 ** (bits - 1))]
        )


def make(cls: type[Message], version: int, seed: int, size: int = 3) -> Message:
    """A message made up from a seed."""
    made = Maker(seed, version, size).struct(cls, kio_type(cls, version))
    assert isinstance(made, cls)
    return made


def ours(cls: type[Struct], kio_name: str) -> str:
    """Our name for kio's field."""
    return kio_name if kio_name in cls.FIELDS else f"{kio_name}_ms"


def _element(annotation: object) -> type | None:
    """The dataclass in `X`, `X | None`, `tuple[X, ...]` or `tuple[X, ...] | None`."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) in {typing.Union, tuple}:
        for part in typing.get_args(annotation):
            if part not in {type(None), ...}:
                return _element(part)
    return annotation if dataclasses.is_dataclass(annotation) else None


def to_kio(message: Struct, kio_class: type) -> object:
    """The same content as an instance of kio's class."""
    types_by_name = {column.name: column for column in columns(type(message))}
    values = {}
    for field in dataclasses.fields(kio_class):
        name = ours(type(message), field.name)
        column = types_by_name[name]
        kafka_type = field.metadata.get("kafka_type", "")
        values[field.name] = _kio_value(getattr(message, name), column.type, kafka_type, field.type)
    return kio_class(**values)


def _kio_value(value: object, wire_type: object, kafka_type: str, annotation: object) -> object:
    if value is None:
        return None
    if isinstance(wire_type, Array):
        return tuple(_kio_value(item, wire_type.element, kafka_type, annotation) for item in value)
    if isinstance(wire_type, Nested):
        return to_kio(value, _element(annotation))
    if kafka_type == "uuid":
        return None if value == ZERO_UUID else uuid.UUID(bytes=value)
    if kafka_type == "error_code":
        return ErrorCode(value)
    if kafka_type.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kafka_type.startswith("datetime"):
        return None if value == -1 else _EPOCH + datetime.timedelta(milliseconds=value)
    return value


@cache
def _writer(kio_class: type):
    return entity_writer(kio_class)


@cache
def _reader(kio_class: type):
    return entity_reader(kio_class)


def kio_encode(entity: object) -> bytes:
    """kio's bytes."""
    buffer = io.BytesIO()
    _writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def kio_decode(kio_class: type, data: bytes) -> object:
    """kio's reading of bytes, all of which it must use. They must be valid: bad ones may abort kio."""
    entity, size_bytes = _reader(kio_class)(data, 0)
    assert size_bytes == len(data)
    return entity
