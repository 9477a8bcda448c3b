"""The demo's departures as Avro, with a schema that gains a field half-way.

    version 1   carrier flight tailnum origin dest time_hour dep_delay
    version 2   the same, and distance (miles), 0 where nobody says

Both are registered before anything is sent, the readers' first, as compatibility BACKWARD wants it: the flows
read with version 2 from the start, while the producer goes on with version 1 until half of the departures are
sent. So a flow reads both, and a departure of the first half is one of 0 miles.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from moldau.tools.demo.topics import DEPARTURES

if TYPE_CHECKING:
    import pyarrow

    from moldau.schemas.columns import Encoder
    from moldau.schemas.registry_client import Registered
    from moldau.schemas.schema import SchemaText

ROWS_AT_ONCE = 20_000
SUBJECT = f"{DEPARTURES}-value"
OPTIONAL_TEXT = ["null", "string"]
FIELDS_OF_VERSION_1: tuple[dict[str, Any], ...] = (
    {"name": "carrier", "type": OPTIONAL_TEXT, "default": None},
    {"name": "flight", "type": ["null", "int"], "default": None},
    {"name": "tailnum", "type": OPTIONAL_TEXT, "default": None},
    {"name": "origin", "type": OPTIONAL_TEXT, "default": None},
    {"name": "dest", "type": OPTIONAL_TEXT, "default": None},
    {"name": "time_hour", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "dep_delay", "type": ["null", "double"], "default": None, "doc": "minutes; null: cancelled"},
)
ADDED_BY_VERSION_2: dict[str, Any] = {"name": "distance", "type": "int", "default": 0, "doc": "miles"}


class Departure(NamedTuple):
    """A departure; the schemas' fields in their order."""

    carrier: str | None
    flight: int | None
    tailnum: str | None
    origin: str | None
    dest: str | None
    time_hour: int
    """The scheduled hour, in ms since 1970."""
    dep_delay: float | None
    """Minutes; None: it was cancelled."""
    distance: int = 0
    """Miles."""


class Registrar(Protocol):
    """The registry, as far as the demo needs it."""

    def register(self, subject: str, source: SchemaText) -> Registered: ...


def schema_of(*fields: dict[str, Any]) -> SchemaText:
    """The schema with these fields."""
    from moldau.schemas.schema import SchemaText, SchemaType

    record = {"type": "record", "name": "Departure", "namespace": "nycflights", "fields": fields}
    return SchemaText(SchemaType.AVRO, json.dumps(record))


class DepartureWriter:
    """Writes departures as records."""

    def __init__(self, registry: Registrar) -> None:
        """Register both versions. RegistryError."""
        older = registry.register(SUBJECT, schema_of(*FIELDS_OF_VERSION_1))
        newer = registry.register(SUBJECT, schema_of(*FIELDS_OF_VERSION_1, ADDED_BY_VERSION_2))
        self._older, self._newer = _Version(older), _Version(newer)

    def __call__(self, departures: Sequence[Departure], *, newer: bool) -> list[bytes]:
        """The values of their records, with the newer version or the older one."""
        version = self._newer if newer else self._older
        written: list[bytes] = []
        for start in range(0, len(departures), ROWS_AT_ONCE):
            written += version.records(departures[start : start + ROWS_AT_ONCE])
        return written


class _Version:
    def __init__(self, registered: Registered) -> None:
        from moldau.schemas.columns import Encoder, spark_types

        self._encoder: Encoder = Encoder(registered.parsed, registered.id)
        self._columns: pyarrow.Schema = spark_types(registered.parsed)

    def records(self, departures: Sequence[Departure]) -> list[bytes]:
        import pyarrow as pa

        columns = dict(zip(Departure._fields, zip(*departures, strict=True), strict=True))
        arrays = []
        for field in self._columns:
            if pa.types.is_timestamp(field.type):
                ms = pa.array(columns[field.name], pa.timestamp("ms", "UTC"))
                arrays.append(ms.cast(field.type))
            else:
                arrays.append(pa.array(columns[field.name], field.type))
        rows = pa.StructArray.from_arrays(arrays, fields=list(self._columns))
        records: list[bytes] = self._encoder.encode(rows).to_pylist()
        return records
