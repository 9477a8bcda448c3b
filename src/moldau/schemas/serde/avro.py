"""Avro: its JSON encoding and its binary encoding, compiled from a schema to closures.

    null, boolean, int, long   as in JSON          float, double   numbers, or "NaN", "Infinity", "-Infinity"
    bytes, fixed               text, a character for a byte (U+0000 to U+00FF)
    enum                       its symbol          array, map, record   as in JSON
    union                      null, or {"branch": value}: the type's name, full for records, enums and fixed

Logical types are left as what they stand on, as Confluent's REST proxy and console tools do. A field that is
missing takes its default (Java's decoder refuses it); fields that the schema does not have are refused.

Not fastavro, whose C code recurses as deep as the bytes say: here hostile bytes end as SerdeError. What costs
no bytes (an array of nulls, a record of records of nulls) is bounded by `EMPTY_ITEMS_MAX`, and what defaults
add by `VALUE_BYTES_MAX`. The specification: Avro 1.12, "Encodings".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from moldau.schemas.schema import JsonValue, ParsedSchema
from moldau.schemas.serde import SerdeError
from moldau.schemas.serde.avro_primitives import (
    PRIMITIVES,
    BadValue,
    Decode,
    Encode,
    Reader,
    read_long,
    shown,
    write_long,
)

VALUE_BYTES_MAX = 32 << 20
"""A value does not grow beyond this by its defaults."""
_DEFAULT_STEPS_MAX = 100_000
"""Values in one default; ten characters count as one."""

_Coder = tuple[Encode, Decode]
_MISSING = object()


class AvroSerde:
    """Codes values of one Avro schema."""

    message_indexes = None

    def __init__(self, encode: Encode, decode: Decode) -> None:
        self._encode = encode
        self._decode = decode

    def from_json(self, value: JsonValue) -> bytes:
        """Return the payload of a value in Avro's JSON encoding. SerdeError."""
        written = bytearray()
        try:
            self._encode(value, written)
        except BadValue as problem:
            raise SerdeError(problem.sentence()) from None
        except RecursionError:
            raise SerdeError("the value is nested too deeply") from None
        return bytes(written)

    def to_json(self, payload: bytes) -> JsonValue:
        """Return a payload's value in Avro's JSON encoding. SerdeError."""
        reader = Reader(payload)
        try:
            value = self._decode(reader)
        except BadValue as problem:
            raise SerdeError(problem.sentence()) from None
        except RecursionError:
            raise SerdeError("the value is nested too deeply") from None
        if reader.position != len(payload):
            raise SerdeError(
                f"{len(payload) - reader.position} bytes are left behind the value: it was written with "
                "another schema"
            )
        return value


def make(parsed: ParsedSchema, indexes: Sequence[int] | None = None) -> AvroSerde:
    """Compile the coder of a schema."""
    compiler = _Compiler()
    try:
        for text in parsed.dependencies.values():
            compiler.compile(_loaded(text), "")
        return AvroSerde(*compiler.compile(_loaded(parsed.canonical), ""))
    except RecursionError:
        raise SerdeError("the schema is nested too deeply") from None


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()  # A bare name, such as int, without quotes.


class _Compiler:
    """Turns schemas into coders; remembers named types, which may be recursive."""

    def __init__(self) -> None:
        self._named: dict[str, _Coder] = {}
        self._schemas: dict[str, tuple[dict[str, Any], str]] = {}
        self._default_steps_left = 0

    def compile(self, schema: Any, namespace: str) -> _Coder:
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.compile(kind, namespace)
        if kind in ("record", "error"):
            return self._record(schema, namespace)
        if kind == "enum":
            return self._keep(schema, namespace, _enum(schema["symbols"]))
        if kind == "fixed":
            return self._keep(schema, namespace, _fixed(schema["size"]))
        if kind == "array":
            return _array(self.compile(schema["items"], namespace))
        if kind == "map":
            return _map(self.compile(schema["values"], namespace))
        return self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> _Coder:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        full = self._full_name(name, namespace)
        if full not in self._named:
            raise SerdeError(f"the schema uses {name!r}, which neither it nor a reference defines")
        return self._named[full]

    def _full_name(self, name: str, namespace: str) -> str:
        if "." in name:
            return name.lstrip(".")
        full = f"{namespace}.{name}" if namespace else name
        return full if full in self._named or name not in self._named else name

    def _keep(self, schema: dict[str, Any], namespace: str, coder: _Coder) -> _Coder:
        full, _ = _names(schema, namespace)
        self._named[full] = coder
        self._schemas[full] = (schema, namespace)
        return coder

    def _record(self, schema: dict[str, Any], namespace: str) -> _Coder:
        _, inner = _names(schema, namespace)
        encoders: list[tuple[str, Encode, bytes | None]] = []
        decoders: list[tuple[str, Decode]] = []
        coder = _record(encoders, decoders)
        self._keep(schema, namespace, coder)
        for field in schema["fields"]:
            encode, decode = self.compile(field["type"], inner)
            default = self._default(field, inner)
            encoders.append((field["name"], encode, default))
            decoders.append((field["name"], decode))
        return coder

    def _default(self, field: dict[str, Any], namespace: str) -> bytes | None:
        if "default" not in field:
            return None
        written = bytearray()
        self._default_steps_left = _DEFAULT_STEPS_MAX
        try:
            self._write_default(field["type"], namespace, field["default"], written)
        except (BadValue, KeyError, TypeError, AttributeError):
            return None  # Java takes schemas with such defaults, unless it is told to look at them.
        return bytes(written)

    def _write_default(self, schema: Any, namespace: str, value: Any, out: bytearray) -> None:
        """Defaults name no branch of a union: they are of the first, or of any that they fit."""
        self._default_steps_left -= 1 + (len(value) // 10 if isinstance(value, str) else 0)
        if self._default_steps_left < 0:
            raise BadValue("the default is too large")
        if isinstance(schema, str) and schema not in PRIMITIVES:
            schema, namespace = self._schemas[self._full_name(schema, namespace)]
        if isinstance(schema, list):
            for index, branch in enumerate(schema):
                tried = bytearray()
                try:
                    self._write_default(branch, namespace, value, tried)
                except BadValue:
                    continue
                write_long(index, out)
                out += tried
                return
            raise BadValue("the default fits no branch")
        kind = schema if isinstance(schema, str) else schema["type"]
        if not isinstance(kind, str):
            self._write_default(kind, namespace, value, out)
        elif kind == "array" and isinstance(value, list):
            if value:
                write_long(len(value), out)
            for item in value:
                self._write_default(schema["items"], namespace, item, out)
            out.append(0)
        elif kind == "map" and isinstance(value, dict):
            if value:
                write_long(len(value), out)
            for key, item in value.items():
                PRIMITIVES["string"][0](key, out)
                self._write_default(schema["values"], namespace, item, out)
            out.append(0)
        elif kind == "record" and isinstance(value, dict):
            _, inner = _names(schema, namespace)
            for each in schema["fields"]:
                chosen = value.get(each["name"], each.get("default", _MISSING))
                if chosen is _MISSING:
                    raise BadValue("the default lacks a field")
                self._write_default(each["type"], inner, chosen, out)
        elif kind in ("enum", "fixed"):
            self._named[_names(schema, namespace)[0]][0](value, out)
        else:
            self.compile(schema, namespace)[0](value, out)

    def _union(self, branches: list[Any], namespace: str) -> _Coder:
        by_tag: dict[str, tuple[int, Encode]] = {}
        decoders: list[tuple[str, Decode]] = []
        for index, branch in enumerate(branches):
            encode, decode = self.compile(branch, namespace)
            tag = self._tag(branch, namespace)
            by_tag[tag] = (index, encode)
            decoders.append((tag, decode))
        return _union(by_tag, decoders)

    def _tag(self, branch: Any, namespace: str) -> str:
        if isinstance(branch, str):
            return branch if branch in PRIMITIVES else self._full_name(branch, namespace)
        kind = branch["type"]
        if not isinstance(kind, str) or kind in self._named:
            return self._tag(kind, namespace)
        return _names(branch, namespace)[0] if "name" in branch and kind not in PRIMITIVES else kind


def _names(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    """Return a named type's full name, and the namespace of what is in it."""
    name = schema["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    space = schema.get("namespace", namespace) or ""
    return (f"{space}.{name}" if space else name), space


def _record(encoders: list[tuple[str, Encode, bytes | None]], decoders: list[tuple[str, Decode]]) -> _Coder:
    names: frozenset[str] = frozenset()

    def encode(value: Any, out: bytearray) -> None:
        nonlocal names
        if not isinstance(value, dict):
            raise BadValue(f"an object is expected, not {shown(value)}")
        known = 0
        for name, write, default in encoders:
            if name in value:
                known += 1
                try:
                    write(value[name], out)
                except BadValue as problem:
                    problem.within(name)
                    raise
            elif default is None:
                raise BadValue(f"field {name!r} is missing")
            else:
                out += default
                if len(out) > VALUE_BYTES_MAX:
                    raise BadValue(f"with its defaults, the value has over {VALUE_BYTES_MAX} bytes")
        if known != len(value):
            names = names or frozenset(name for name, _, _ in encoders)
            raise BadValue(f"the schema has no field {next(name for name in value if name not in names)!r}")

    def decode(reader: Reader) -> Any:
        value: dict[str, Any] = {}
        before = reader.position
        for name, read in decoders:
            try:
                value[name] = read(reader)
            except BadValue as problem:
                problem.within(name)
                raise
        reader.note_empty(len(decoders) - (reader.position - before))
        return value

    return encode, decode


def _enum(symbols: list[str]) -> _Coder:
    indexes = {symbol: index for index, symbol in enumerate(symbols)}

    def encode(value: Any, out: bytearray) -> None:
        index = indexes.get(value) if isinstance(value, str) else None
        if index is None:
            raise BadValue(f"one of {', '.join(symbols[:20])} is expected, not {shown(value)}")
        write_long(index, out)

    def decode(reader: Reader) -> Any:
        index = read_long(reader)
        if not 0 <= index < len(symbols):
            raise BadValue(f"the enum has no symbol {index}")
        return symbols[index]

    return encode, decode


def _fixed(size: int) -> _Coder:
    def encode(value: Any, out: bytearray) -> None:
        if not isinstance(value, str) or len(value) != size:
            raise BadValue(f"text of {size} characters is expected, not {shown(value)}")
        PRIMITIVES["bytes"][0](value, data := bytearray())
        out += data[-size:] if size else b""

    return encode, lambda reader: reader.take(size).decode("latin-1")


def _array(items: _Coder) -> _Coder:
    write, read = items

    def encode(value: Any, out: bytearray) -> None:
        if not isinstance(value, list):
            raise BadValue(f"an array is expected, not {shown(value)}")
        if value:
            write_long(len(value), out)
        for index, item in enumerate(value):
            try:
                write(item, out)
            except BadValue as problem:
                problem.within(index)
                raise
        out.append(0)

    def decode(reader: Reader) -> Any:
        values: list[Any] = []
        for _ in _blocks(reader):
            before = reader.position
            try:
                values.append(read(reader))
            except BadValue as problem:
                problem.within(len(values))
                raise
            if reader.position == before:
                reader.note_empty(1)
        return values

    return encode, decode


def _map(values: _Coder) -> _Coder:
    write, read = values
    write_key, read_key = PRIMITIVES["string"]

    def encode(value: Any, out: bytearray) -> None:
        if not isinstance(value, dict):
            raise BadValue(f"an object is expected, not {shown(value)}")
        if value:
            write_long(len(value), out)
        for key, item in value.items():
            write_key(key, out)
            try:
                write(item, out)
            except BadValue as problem:
                problem.within(key)
                raise
        out.append(0)

    def decode(reader: Reader) -> Any:
        found: dict[str, Any] = {}
        for _ in _blocks(reader):
            key = read_key(reader)
            try:
                found[key] = read(reader)
            except BadValue as problem:
                problem.within(key)
                raise
        return found

    return encode, decode


def _blocks(reader: Reader) -> Any:
    """Count through the items of an array's or map's blocks."""
    while count := read_long(reader):
        if count < 0:
            count = -count
            read_long(reader)  # The block's size in bytes, for those who skip it.
        yield from range(count)


def _union(by_tag: dict[str, tuple[int, Encode]], decoders: list[tuple[str, Decode]]) -> _Coder:
    tags = ", ".join("null" if tag == "null" else f'{{"{tag}": ...}}' for tag in by_tag)

    def encode(value: Any, out: bytearray) -> None:
        if value is None and "null" in by_tag:
            write_long(by_tag["null"][0], out)
            return
        if not isinstance(value, dict) or len(value) != 1:
            raise BadValue(f"a union is written as {tags}, not as {shown(value)}")
        ((tag, inner),) = value.items()
        if tag not in by_tag or tag == "null":
            raise BadValue(f"the union has no branch {tag!r}: it is written as {tags}")
        index, write = by_tag[tag]
        write_long(index, out)
        write(inner, out)

    def decode(reader: Reader) -> Any:
        index = read_long(reader)
        if not 0 <= index < len(decoders):
            raise BadValue(f"the union has no branch {index}")
        tag, read = decoders[index]
        value = read(reader)
        return None if tag == "null" else {tag: value}

    return encode, decode
