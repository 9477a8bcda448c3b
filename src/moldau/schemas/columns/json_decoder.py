"""Records of JSON text with a schema -> columns.

The text names its fields, so the reader's schema is enough: a field that is not there is null, one that the
reader does not know is left out. A record is bad if it is no JSON, or a value is not of its column's type.

Arrow's own parser takes a batch at once, faster than anything that makes Python objects, but it cannot say
which record is bad, and takes what is no JSON (NaN). Each record is therefore put into an object of its own
beside its number, under a name that nobody can know beforehand: unless exactly the numbers come back that
went in, or anything at all is unusual, orjson reads the batch record by record.

    {"<random>": 0, "v": record}
    {"<random>": 1, "v": record}
"""

from __future__ import annotations

import datetime
import re
import secrets
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from moldau.schemas.columns.json_types import arrow_row, is_text
from moldau.schemas.columns.kernel import header_end
from moldau.schemas.columns.wire_values import Malformed
from moldau.schemas.schema import ParsedSchema

_UNUSUAL = (b"\r", b"NaN", b"Inf")
_BATCH_BYTES_MAX = 1 << 28
_ID_BYTES = 5
_NANOSECONDS = r"(\.[0-9]{6})[0-9]+"
"""Java prints up to nine digits of a second; columns have six."""


class JsonDecoder:
    """Decodes records of JSON."""

    def __init__(self, reader: ParsedSchema) -> None:
        self.row, self._is_object = arrow_row(reader)
        self._fast = _as_parsed(self.row) if self._is_object and _is_parsable(self.row) else None

    def decode(self, values: pa.Array) -> tuple[Any, Any]:
        """See Decoder.decode."""
        payloads, bad = _without_headers(values)
        rows = self._at_once(payloads) if self._fast is not None else None
        if rows is not None:
            return rows, bad
        return self._one_by_one(payloads.to_pylist(), bad.to_pylist())

    def _at_once(self, payloads: Any) -> Any:
        """None: this needs the other way."""
        from pyarrow import json as arrow_json

        name, count = secrets.token_hex(16), len(payloads)
        if not count or payloads.nbytes > _BATCH_BYTES_MAX:
            return None
        numbers = pa.array(range(count), pa.int64())
        parts = (b'{"%s":' % name.encode(), numbers.cast(pa.string()).cast(pa.binary()), b',"v":')
        lines = pc.binary_join_element_wise(*parts, pc.fill_null(payloads, b"null"), b"}\n", b"")
        text = lines.buffers()[2].to_pybytes()
        if text.count(b"\n") != count or any(each in text for each in _UNUSUAL):
            return None
        schema = pa.schema([pa.field(name, pa.int64()), pa.field("v", self._fast)])

        def parsed(unknown_fields: str) -> Any:
            return arrow_json.read_json(
                pa.BufferReader(text),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=arrow_json.ParseOptions(schema, unexpected_field_behavior=unknown_fields),
            )

        try:
            text.decode()
            try:
                table = parsed("error")
            except pa.ArrowInvalid:
                table = parsed("ignore")
                _require_json(payloads)  # what was ignored may be of the line: {"n": 1}, "more": 2
            if not table.column(name).combine_chunks().equals(numbers):
                return None
            return _converted(table.column("v").combine_chunks(), self.row)
        except (ValueError, KeyError):  # Arrow's errors, and wrong UTF-8, are ValueErrors
            return None

    def _one_by_one(self, payloads: list[bytes | None], bad: list[bool]) -> tuple[Any, Any]:
        rows: list[Any] = []
        for index, payload in enumerate(payloads):
            row = None
            if payload is not None:
                try:
                    value = orjson.loads(payload)
                    row = _value(self.row, value if self._is_object else {"value": value})
                except (ValueError, Malformed):
                    bad[index] = True
            rows.append(row)
        return pa.array(rows, self.row), pa.array(bad, pa.bool_())


def _require_json(payloads: Any) -> None:
    """ValueError if one is no JSON."""
    for payload in payloads.to_pylist():
        if payload is not None:
            orjson.loads(payload)


def _without_headers(values: pa.Array) -> tuple[Any, Any]:
    """The payloads, null where there is none, and which records have no header."""
    usual = _with_ids(values)
    if usual is not None:
        return usual, pa.repeat(False, len(values))
    payloads: list[bytes | None] = []
    bad = []
    for value in values.to_pylist():
        start = 0 if value is None else header_end(value, False)
        bad.append(value is not None and start == 0)
        payloads.append(value[start:] if start else None)
    return pa.array(payloads, pa.binary()), pa.array(bad, pa.bool_())


def _with_ids(values: pa.Array) -> Any:
    """The payloads of records that all have an id in front; None if one has not.

    Seen as twice as many values in the same memory, every second one is a payload:  | id | payload | id | ...
    """
    _, offsets, data = values.buffers()
    rows = len(values)
    if data is None or offsets is None:
        return None
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + rows + 1]
    sizes = np.diff(ends)
    valid = np.asarray(values.is_valid())
    starts = ends[:-1][valid]
    if (sizes[valid] < _ID_BYTES).any() or np.frombuffer(data, np.uint8)[starts].any():
        return None
    slots = np.empty(2 * rows + 1, np.int32)
    slots[0::2] = ends
    slots[1::2] = ends[:-1] + np.where(valid, _ID_BYTES, 0)
    seen = pa.Array.from_buffers(pa.binary(), 2 * rows, [None, pa.py_buffer(slots), data])
    payloads = seen.take(pa.array(np.arange(1, 2 * rows, 2)))
    return payloads if not values.null_count else pc.if_else(values.is_valid(), payloads, None)


def _is_parsable(kind: pa.DataType) -> bool:
    """Whether Arrow's parser knows the type: no maps, and nothing as text."""
    if pa.types.is_map(kind):
        return False
    children = [kind.field(index) for index in range(kind.num_fields)]
    return not any(is_text(each) for each in children) and all(_is_parsable(each.type) for each in children)


def _as_parsed(kind: pa.DataType) -> pa.DataType:
    """The type that Arrow's parser is asked for: dates and times are text first."""
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([pa.field(each.name, _as_parsed(each.type)) for each in fields])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _as_parsed(kind.value_type)))
    return pa.string() if pa.types.is_temporal(kind) else kind


def _converted(array: Any, kind: pa.DataType) -> Any:
    """Text as dates and times where the columns are such."""
    if pa.types.is_struct(kind):
        parts = [_converted(array.field(index), kind.field(index).type) for index in range(kind.num_fields)]
        return pa.StructArray.from_buffers(kind, len(array), array.buffers()[:1], children=parts)
    if pa.types.is_list(kind):
        items = _converted(array.values, kind.value_type)
        return pa.ListArray.from_buffers(kind, len(array), array.buffers()[:2], children=[items])
    if not pa.types.is_temporal(kind):
        return array
    try:
        return pc.cast(array, kind)
    except pa.ArrowInvalid:
        return pc.cast(pc.replace_substring_regex(array, _NANOSECONDS, r"\1"), kind)


def _value(kind: pa.DataType, value: Any) -> Any:
    """What orjson read -> what the column has; Malformed if it is of another type."""
    if value is None:
        return None
    types = pa.types
    if types.is_struct(kind):
        _require(isinstance(value, dict))
        fields = (kind.field(index) for index in range(kind.num_fields))
        return {each.name: _field(each, value.get(each.name)) for each in fields}
    if types.is_list(kind):
        _require(isinstance(value, list))
        return [_field(kind.value_field, each) for each in value]
    if types.is_map(kind):
        _require(isinstance(value, dict))
        return [(key, _field(kind.item_field, each)) for key, each in value.items()]
    if types.is_boolean(kind):
        _require(isinstance(value, bool))
    elif types.is_integer(kind):
        _require(isinstance(value, int | float) and not isinstance(value, bool) and value == int(value))
        _require(-(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1)
        return int(value)
    elif types.is_floating(kind):
        _require(isinstance(value, int | float) and not isinstance(value, bool))
        return float(value)
    else:
        _require(isinstance(value, str))
        return _time(kind, value) if types.is_temporal(kind) else value
    return value


def _field(field: pa.Field, value: Any) -> Any:
    if is_text(field):
        return None if value is None else orjson.dumps(value).decode()
    return _value(field.type, value)


def _time(kind: pa.DataType, text: str) -> datetime.date | datetime.datetime:
    """By Arrow's rules, as in the other way."""
    try:
        plain = re.sub(_NANOSECONDS, r"\1", text)
        made: datetime.date | datetime.datetime = pc.cast(pa.scalar(plain), kind).as_py()
    except pa.ArrowInvalid:
        raise Malformed from None
    return made


def _require(condition: bool) -> None:
    if not condition:
        raise Malformed
