"""JsonConverter: payloads <-> columns, runs of one schema.

With schemas, each record is `{"schema":S,"payload":P}`. Records of one producer begin with the same bytes up
to P; such a prefix is learned once, and what lies behind it is read alone.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import arrow_type
from moldau.connect.batch import Column
from moldau.connect.converter import Converted, Converter, Refused
from moldau.connect.converters.json.documents import REFUSED, NoJson, parsed, parsed_exactly
from moldau.connect.converters.json.reading import column_from_json
from moldau.connect.converters.json.schema_json import NoSchema, schema_from_json, schema_to_json
from moldau.connect.converters.json.schemaless import json_of
from moldau.connect.converters.json.settings import JSON_SETTINGS
from moldau.connect.converters.json.values import plain
from moldau.connect.converters.json.writing import texts
from moldau.connect.converters.runs import Runs
from moldau.connect.errors import ConnectError
from moldau.connect.schema import Schema
from moldau.connect.settings import Setting
from moldau.connect.values import completed

NO_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional '
    "fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter "
    "configuration."
)
NULL_REQUIRED = "Conversion error: null value for field that is required and has no default value"
_BEFORE_PAYLOAD = b',"payload":'
_PAYLOAD = re.compile(rb',\s*"payload"\s*:')
_CANDIDATES_MAX = 8
PREFIXES_MAX = 16
"""So many schemas may take turns in a topic before each record is read by itself."""


def _length_of_run(payloads: pa.Array, row: int, prefix: bytes) -> int:
    """How many payloads from `row` on begin so (nulls do). Looked at in steps that grow, because runs may be
    short."""
    length, step = 0, 16
    while row + length < len(payloads):
        part = payloads.slice(row + length, step)
        fits = pc.and_(pc.starts_with(part, pattern=prefix), pc.ends_with(part, pattern=b"}"))
        other: int = pc.index(pc.fill_null(fits, True), False).as_py()
        if other >= 0:
            return length + other
        length += len(part)
        step *= 4
    return length


class JsonConverter(Converter):
    """Kafka's org.apache.kafka.connect.json.JsonConverter."""

    settings: ClassVar[Sequence[Setting]] = JSON_SETTINGS

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        """ConnectError: schema.content is no schema."""
        super().configure(settings, is_key)
        self._with_schemas = bool(settings.get("schemas.enable", True))
        self._cache_max = max(1, int(settings.get("schemas.cache.size", 1000)))
        self._numeric = str(settings.get("decimal.format", "BASE64")).upper() == "NUMERIC"
        self._defaults = bool(settings.get("replace.null.with.default", True))
        self._known: OrderedDict[bytes, Schema | None] = OrderedDict()
        self._envelopes: OrderedDict[Schema, bytes] = OrderedDict()
        self._prefixes: list[tuple[bytes, Schema | None]] = []
        self._content: Schema | None = None
        content = settings.get("schema.content")
        if content and self._with_schemas:
            try:
                self._content = self._schema(orjson.loads(content))
            except orjson.JSONDecodeError as error:
                raise ConnectError(
                    f"Failed to parse schema in converter config due to serialization error: {error}"
                ) from None

    def to_columns(self, topic: str, payloads: pa.Array) -> tuple[Sequence[Converted], Sequence[Refused]]:
        """See Converter."""
        if payloads.type != pa.binary():
            payloads = payloads.cast(pa.binary())
        runs = Runs(len(payloads))
        if not self._with_schemas:
            values, bad = parsed(payloads)
            runs.refuse(bad)
            runs.add_all(Column(None, values))
        elif self._content is not None:
            payloads = pc.if_else(pc.equal(pc.binary_length(payloads), 0), b"null", payloads)
            self._read(self._content, payloads, list(range(len(payloads))), runs)
        else:
            self._read_envelopes(payloads, runs)
        return runs.done()

    def _read(self, schema: Schema, payloads: pa.Array, rows: list[int], runs: Runs) -> None:
        """Payloads without envelope, of one schema; `rows` are theirs."""
        values, bad = parsed(payloads)
        live = payloads.is_valid().to_pylist() if payloads.null_count else None
        if schema.default is not None and self._defaults and None in values:
            default = plain(schema, schema.default)
            for row, value in enumerate(values):
                if value is None and row not in bad and (live is None or live[row]):
                    values[row] = default
        array, wrong = column_from_json(
            schema, values, lambda row: parsed_exactly(payloads[row].as_py(), decimals=True), self._defaults
        )
        if not schema.optional and None in values:
            for row, value in enumerate(values):
                if value is None and row not in bad and (live is None or live[row]):
                    wrong[row] = f"Invalid null value for required {schema.type.name} field"
        runs.refuse({rows[row]: reason for row, reason in (wrong | bad).items()})
        runs.add(rows, Column(schema, array))

    def _read_envelopes(self, payloads: pa.Array, runs: Runs) -> None:
        count, row = len(payloads), 0
        while row < count:
            payload = payloads[row].as_py()
            found = next((each for each in self._prefixes if self._begins(payload, each[0])), None)
            if found is None:
                row = self._learn(payloads, row, runs)
                continue
            length = _length_of_run(payloads, row, found[0])
            inner = pc.binary_slice(payloads.slice(row, length), len(found[0]), -1)
            rows = list(range(row, row + length))
            if found[1] is None:
                self._read_schemaless(inner, rows, runs)
            else:
                self._read(found[1], inner, rows, runs)
            row += length

    @staticmethod
    def _begins(payload: bytes | None, prefix: bytes) -> bool:
        return payload is not None and payload.startswith(prefix) and payload.endswith(b"}")

    def _read_schemaless(self, payloads: pa.Array, rows: list[int], runs: Runs) -> None:
        values, bad = parsed(payloads)
        runs.refuse({rows[row]: reason for row, reason in bad.items()})
        runs.add(rows, Column(None, values))

    def _learn(self, payloads: pa.Array, row: int, runs: Runs) -> int:
        """Read one payload by itself, and take its beginning as that of the next ones; the row after it."""
        payload = payloads[row].as_py()
        if payload is None:
            runs.add([row], Column(None, [None]))
            return row + 1
        try:
            envelope = parsed_exactly(payload)
            if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
                raise NoSchema(NO_ENVELOPE)
            schema = self._schema(envelope["schema"])
        except NoJson as error:
            runs.refuse({row: f"{REFUSED}{error}"})
        except ConnectError as error:
            runs.refuse({row: str(error)})
        else:
            prefix = self._prefix_of(payload, envelope["schema"])
            if prefix is not None and all(prefix != each for each, _ in self._prefixes):
                self._prefixes = [(prefix, schema), *self._prefixes[: PREFIXES_MAX - 1]]
                return row  # to be read with those that follow
            exactly = parsed_exactly(payload, decimals=True)["payload"]
            self._read_one(schema, envelope["payload"], exactly, row, runs)
        return row + 1

    def _read_one(self, schema: Schema | None, value: Any, exactly: Any, row: int, runs: Runs) -> None:
        if schema is None:
            runs.add([row], Column(None, [value]))
            return
        if value is None and schema.default is not None and self._defaults:
            value = exactly = plain(schema, schema.default)
        array, wrong = column_from_json(schema, [value], lambda _: exactly, self._defaults)
        if value is None and not schema.optional:
            wrong[0] = f"Invalid null value for required {schema.type.name} field"
        if wrong:
            runs.refuse({row: wrong[0]})
        runs.add([row], Column(schema, array))

    def _schema(self, node: Any) -> Schema | None:
        try:
            text = orjson.dumps(node)
        except (TypeError, ValueError):
            raise NoSchema("the schema is nested too deep") from None
        if text in self._known:
            self._known.move_to_end(text)
            return self._known[text]
        made = schema_from_json(node)
        if made is not None:
            arrow_type(made)  # ConnectError where columns cannot have it
        self._known[text] = made
        if len(self._known) > self._cache_max:
            self._known.popitem(last=False)
        return made

    @staticmethod
    def _prefix_of(payload: bytes, node: Any) -> bytes | None:
        """The bytes up to the value, if the schema stands before it; None: another order, or blanks."""
        if not payload.endswith(b"}"):
            return None
        for found in islice(_PAYLOAD.finditer(payload), _CANDIDATES_MAX):
            try:
                if orjson.loads(payload[: found.start()] + b"}") == {"schema": node}:
                    return payload[: found.end()]
            except orjson.JSONDecodeError:
                continue
        return None

    def to_payloads(self, topic: str, column: Column) -> tuple[pa.Array, Sequence[Refused]]:
        """See Converter."""
        schema, values = column.schema, column.values
        if schema is None or isinstance(values, list):
            return self._write_schemaless(values)
        array, bad = completed(schema, values, self._defaults)
        made = texts(schema, array, self._numeric)
        if bad:
            reasons = {row: f"{NULL_REQUIRED} ({reason})" for row, reason in bad.items()}
            keep = [row not in bad for row in range(len(array))]
            made = pc.if_else(pa.array(keep), made, pa.scalar(None, pa.string()))
        if self._with_schemas:
            made = pc.binary_join_element_wise(self._envelope(schema).decode(), made, "}", "")
        refused = [Refused(row, reason) for row, reason in sorted(reasons.items())] if bad else []
        return made.cast(pa.binary()), refused

    def _write_schemaless(self, values: Any) -> tuple[pa.Array, Sequence[Refused]]:
        before, after = (b'{"schema":null,"payload":', b"}") if self._with_schemas else (b"", b"")
        made: list[bytes | None] = []
        refused = []
        for row, value in enumerate(values if isinstance(values, list) else values.to_pylist()):
            try:
                made.append(None if value is None else b"".join((before, json_of(value), after)))
            except (NoJson, RecursionError) as error:
                made.append(None)
                refused.append(Refused(row, f"Converting Kafka Connect data to byte[] failed: {error}"))
        return pa.array(made, pa.binary()), refused

    def _envelope(self, schema: Schema) -> bytes:
        found = self._envelopes.get(schema)
        if found is None:
            text = json_of(schema_to_json(schema, self._numeric))
            found = self._envelopes[schema] = b'{"schema":' + text + _BEFORE_PAYLOAD
            if len(self._envelopes) > self._cache_max:
                self._envelopes.popitem(last=False)
        return found
