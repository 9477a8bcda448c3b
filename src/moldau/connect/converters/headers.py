"""Any converter as a header converter: each header's bytes are a payload of its own.

What was converted is remembered, because headers repeat (`REMEMBERED` of them, short ones).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.batch import Column, Header
from moldau.connect.converter import Converter, HeaderConverter
from moldau.connect.converters.json.converter import JsonConverter
from moldau.connect.converters.primitive import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    StringConverter,
)
from moldau.connect.errors import BadRecord
from moldau.connect.settings import Setting
from moldau.connect.values import column_of, python_values

REMEMBERED = 1_000
REMEMBERED_BYTES_MAX = 1_000


class ConverterOfHeaders(HeaderConverter):
    """Base: `converter` does the work."""

    converter: ClassVar[type[Converter]]

    def configure(self, settings: Mapping[str, Any]) -> None:
        """See HeaderConverter."""
        super().configure(settings)
        self._converter = self.converter()
        self._converter.configure(settings, False)
        self._read: OrderedDict[tuple[str, bytes], Header] = OrderedDict()

    def to_header(self, topic: str, name: str, payload: bytes | None) -> Header:
        """See HeaderConverter."""
        if payload is None:
            return Header(name, None)
        found = self._read.get((name, payload))
        if found is not None:
            return found
        runs, refused = self._converter.to_columns(topic, pa.array([payload], pa.binary()))
        if refused:
            raise BadRecord(f"the header {name}: {refused[0].reason}")
        column = runs[0].column
        made = Header(name, python_values(column)[0], column.schema)
        if len(payload) <= REMEMBERED_BYTES_MAX:
            self._read[(name, payload)] = made
            if len(self._read) > REMEMBERED:
                self._read.popitem(last=False)
        return made

    def to_payload(self, topic: str, header: Header) -> bytes | None:
        """See HeaderConverter."""
        if header.value is None:
            return None
        schema = header.schema
        column = Column(None, [header.value]) if schema is None else column_of(schema, [header.value])
        payloads, refused = self._converter.to_payloads(topic, column)
        if refused:
            raise BadRecord(f"the header {header.key}: {refused[0].reason}")
        made: bytes | None = payloads[0].as_py()
        return made

    def close(self) -> None:
        """See HeaderConverter."""
        self._converter.close()


def _of(made: type[Converter]) -> type[ConverterOfHeaders]:
    rows: Sequence[Setting] = made.settings
    members = {"converter": made, "settings": rows, "version": made.version, "__doc__": made.__doc__}
    return type(f"{made.__name__.removesuffix('Converter')}HeaderConverter", (ConverterOfHeaders,), members)


StringHeaderConverter = _of(StringConverter)
ByteArrayHeaderConverter = _of(ByteArrayConverter)
BooleanHeaderConverter = _of(BooleanConverter)
ShortHeaderConverter = _of(ShortConverter)
IntegerHeaderConverter = _of(IntegerConverter)
LongHeaderConverter = _of(LongConverter)
FloatHeaderConverter = _of(FloatConverter)
DoubleHeaderConverter = _of(DoubleConverter)
JsonHeaderConverter = _of(JsonConverter)
