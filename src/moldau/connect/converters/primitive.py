"""Converters of single values: numbers (big endian), booleans, texts, bytes. Kafka's serializers' bytes.

Each has one schema, optional. What stands in no schema is written where it fits the type.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import arrow_type
from moldau.connect.batch import Column
from moldau.connect.converter import Converted, Converter, Refused
from moldau.connect.converters.java_text import java_texts
from moldau.connect.converters.runs import Runs
from moldau.connect.errors import ConnectError
from moldau.connect.schema import Schema, Type
from moldau.connect.settings import Importance, Setting, SettingType, Width
from moldau.connect.structs import true_rows


class _Single(Converter):
    """Base: one type, as `schema` says."""

    schema: ClassVar[Schema]

    def to_columns(self, topic: str, payloads: pa.Array) -> tuple[Sequence[Converted], Sequence[Refused]]:
        """See Converter."""
        if payloads.type != pa.binary():
            payloads = payloads.cast(pa.binary())
        runs = Runs(len(payloads))
        if len(payloads):
            array, bad = self._read(payloads)
            runs.refuse(bad)
            runs.add_all(Column(self.schema, array))
        return runs.done()

    def to_payloads(self, topic: str, column: Column) -> tuple[pa.Array, Sequence[Refused]]:
        """See Converter."""
        schema, values = column.schema, column.values
        if schema is not None and schema.type is not self.schema.type:
            live = [row for row, null in enumerate(pc.is_null(pa.array(values)).to_pylist()) if not null]
            reason = f"Invalid schema type for {type(self).__name__}: {schema.type.name}"
            return pa.nulls(len(values), pa.binary()), [Refused(row, reason) for row in live]
        if not isinstance(values, list):
            return self._write(_physical(values)), []
        return self._write_values(values)

    def _write_values(self, values: list[Any]) -> tuple[pa.Array, Sequence[Refused]]:
        wanted, made, refused = arrow_type(self.schema), [], []
        for row, value in enumerate(values):
            try:
                if value is not None and not self._is_suited(value):
                    raise TypeError
                made.append(pa.scalar(value, wanted).as_py())
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                made.append(None)
                kind = type(value).__name__
                refused.append(
                    Refused(row, f"{type(self).__name__} is not compatible with objects of type {kind}")
                )
        return self._write(pa.array(made, wanted)), refused

    def _is_suited(self, value: Any) -> bool:
        raise NotImplementedError

    def _read(self, payloads: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        raise NotImplementedError

    def _write(self, array: pa.Array) -> pa.Array:
        raise NotImplementedError


def _physical(array: pa.Array) -> pa.Array:
    """Dates and times as the numbers that they are."""
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        return array.view(pa.int32())
    return array.view(pa.int64()) if pa.types.is_timestamp(array.type) else array


class ByteArrayConverter(_Single):
    """The bytes as they are."""

    schema = Schema(Type.BYTES, True)

    def _read(self, payloads: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        return payloads, {}

    def _write(self, array: pa.Array) -> pa.Array:
        if pa.types.is_decimal(array.type):
            raise ConnectError("ByteArrayConverter does not write decimals: use JsonConverter, or Cast them")
        return array

    def _is_suited(self, value: Any) -> bool:
        return isinstance(value, (bytes, bytearray, memoryview))


class _Number(_Single):
    """Fixed width, big endian."""

    code: ClassVar[str]
    """Of `struct` and numpy."""
    word: ClassVar[str]
    reader: ClassVar[str]

    def _read(self, payloads: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        size = struct.calcsize(self.code)
        right = pc.equal(pc.binary_length(payloads), size)
        bad = {}
        for row in true_rows(pc.invert(right)):
            bad[row] = (
                f"Failed to deserialize {self.word}: Size of data received by {self.reader} is not {size}"
            )
        zero = pa.scalar(bytes(size), pa.binary())
        filled = pc.if_else(pc.fill_null(right, False), payloads, zero)
        first = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset]
        data = np.frombuffer(filled.buffers()[2], np.uint8)[first : first + size * len(filled)]
        return self._from_bytes(data, np.asarray(pc.invert(pc.fill_null(right, False))), bad), bad

    def _from_bytes(self, data: Any, nulls: Any, bad: dict[int, str]) -> pa.Array:
        values = data.view(f">{self.code}").astype(f"={self.code}")
        return pa.array(values, arrow_type(self.schema), mask=nulls)

    def _to_bytes(self, values: Any) -> bytes:
        made: bytes = values.astype(f">{self.code}").tobytes()
        return made

    def _write(self, array: pa.Array) -> pa.Array:
        size = struct.calcsize(self.code)
        filling = False if self.code == "?" else 0
        data = self._to_bytes(np.asarray(pc.fill_null(array, filling)))
        offsets = np.arange(0, size * (len(array) + 1), size, dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        made = pa.Array.from_buffers(pa.binary(), len(array), buffers)
        return pc.if_else(array.is_valid(), made, pa.scalar(None, pa.binary())) if array.null_count else made

    def _is_suited(self, value: Any) -> bool:
        if self.schema.type in (Type.FLOAT32, Type.FLOAT64):
            return isinstance(value, float)
        return isinstance(value, int) and not isinstance(value, bool)


class BooleanConverter(_Number):
    """One byte, 0 or 1."""

    schema, code, word, reader = Schema(Type.BOOLEAN, True), "?", "boolean", "BooleanDeserializer"

    def _from_bytes(self, data: Any, nulls: Any, bad: dict[int, str]) -> pa.Array:
        for row in np.nonzero(data > 1)[0].tolist():
            bad[row] = (
                f"Failed to deserialize boolean: Unexpected byte received by {self.reader}: {int(data[row])}"
            )
        return pa.array(data == 1, pa.bool_(), mask=nulls)

    def _to_bytes(self, values: Any) -> bytes:
        made: bytes = values.astype(np.uint8).tobytes()
        return made

    def _is_suited(self, value: Any) -> bool:
        return isinstance(value, bool)


class ShortConverter(_Number):
    """Two bytes."""

    schema, code, word, reader = Schema(Type.INT16, True), "h", "short", "ShortDeserializer"


class IntegerConverter(_Number):
    """Four bytes."""

    schema, code, word, reader = Schema(Type.INT32, True), "i", "integer", "IntegerDeserializer"


class LongConverter(_Number):
    """Eight bytes."""

    schema, code, word, reader = Schema(Type.INT64, True), "q", "long", "LongDeserializer"


class FloatConverter(_Number):
    """Four bytes."""

    schema, code, word, reader = Schema(Type.FLOAT32, True), "f", "float", "Deserializer"


class DoubleConverter(_Number):
    """Eight bytes."""

    schema, code, word, reader = Schema(Type.FLOAT64, True), "d", "double", "Deserializer"


def _encoding_error(value: Any) -> str | None:
    try:
        codecs.lookup(str(value))
    except LookupError:
        return f"Unsupported encoding {value}"
    return None


class StringConverter(Converter):
    """Texts. Bytes that are none are read with a sign of replacement, as Java does; other values are written
    as Java's toString prints them (bytes as Base64)."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "converter.encoding",
            SettingType.STRING,
            "The character set of the texts.",
            "UTF-8",
            Importance.HIGH,
            width=Width.MEDIUM,
            display_name="Encoding",
            check=_encoding_error,
        ),
    )
    schema: ClassVar[Schema] = Schema(Type.STRING, True)

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        """ConnectError: an unknown character set."""
        super().configure(settings, is_key)
        encoding = settings.get("converter.encoding") or "UTF-8"
        wrong = _encoding_error(encoding)
        if wrong is not None:
            raise ConnectError(wrong)
        self._encoding = codecs.lookup(str(encoding)).name

    def to_columns(self, topic: str, payloads: pa.Array) -> tuple[Sequence[Converted], Sequence[Refused]]:
        """See Converter."""
        if not len(payloads):
            return [], []
        array = None
        if self._encoding == "utf-8":
            try:
                array = payloads.cast(pa.string())
            except pa.ArrowInvalid:
                array = None
        if array is None:
            texts = [
                None if each is None else each.decode(self._encoding, "replace")
                for each in payloads.to_pylist()
            ]
            array = pa.array(texts, pa.string())
        return [Converted(0, Column(self.schema, array))], []

    def to_payloads(self, topic: str, column: Column) -> tuple[pa.Array, Sequence[Refused]]:
        """See Converter."""
        texts = java_texts(column)
        if self._encoding == "utf-8":
            return texts.cast(pa.binary()), []
        made = [
            None if each is None else each.encode(self._encoding, "replace") for each in texts.to_pylist()
        ]
        return pa.array(made, pa.binary()), []
