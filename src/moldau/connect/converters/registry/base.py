"""What the registry's converters have in common: payloads of one writer's schema at a time, and the registry.

    | 0 | schema id 4 | payload |  -> the schema with that id -> a column;  consecutive ones are a run

A registry that is away, or overloaded, is Retriable; records whose schema it does not have are refused.
Schemas that it does not take (incompatible ones) end the task.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.batch import Column
from moldau.connect.converter import Converted, Converter, Refused
from moldau.connect.converters.runs import Runs
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.schema import Schema, Type
from moldau.connect.structs import fields_of, true_rows
from moldau.connect.values import array_of, completed
from moldau.schemas.columns import Decoder, Encoder, NoColumns, NotEncodable, UnknownSchema
from moldau.schemas.registry_client import Registered, RegistryClient, RegistryError, UnusableSchema
from moldau.schemas.schema import InvalidSchema, ParsedSchema, SchemaText
from moldau.schemas.subjects import SubjectError, strategy_of, subject_name
from moldau.schemas.wire import WireError, unpack

_REFUSED_BY_REGISTRY = (400, 401, 403, 404, 409, 422)
_TRIES_MAX = 8
"""So many bad rows are left out one after the other; then each row is written by itself."""
_SCALARS = {str: Type.STRING, int: Type.INT64, float: Type.FLOAT64, bool: Type.BOOLEAN, bytes: Type.BYTES}


class Reading(NamedTuple):
    """How payloads with one header are read."""

    schema: Schema
    decoder: Decoder
    is_row: bool
    """Whether the decoder's columns are the fields of the value."""
    convert: Callable[[pa.Array], pa.Array]
    """From the decoder's types to the schema's."""


class Writing(NamedTuple):
    """How columns with one schema are written."""

    encoder: Encoder
    is_row: bool
    convert: Callable[[pa.Array], pa.Array]


class RegistryConverter(Converter):
    """Base of the three."""

    has_indexes: ClassVar[bool] = False
    """Protobuf: message indexes follow the schema's id."""

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        """ConnectError: settings of the registry are wrong."""
        super().configure(settings, is_key)
        texts = {name: _text(value) for name, value in settings.items() if value is not None}
        try:
            self.client = RegistryClient(texts)
            side = "key" if is_key else "value"
            self._strategy = strategy_of(str(settings.get(f"{side}.subject.name.strategy") or "topic"))
        except (RegistryError, SubjectError) as error:
            raise ConnectError(str(error)) from None
        self._register = bool(settings.get("auto.register.schemas", True))
        self._latest = bool(settings.get("use.latest.version", False))
        self._normalize = bool(settings.get("normalize.schemas", False))
        self._cache_max = max(1, int(settings.get("schemas.cache.config") or 1000))
        self._readings: OrderedDict[bytes, Reading] = OrderedDict()
        self._writings: OrderedDict[tuple[str, Schema, int], Writing] = OrderedDict()

    def close(self) -> None:
        """See Converter."""
        self.client.close()

    @abstractmethod
    def reading(self, parsed: ParsedSchema, indexes: tuple[int, ...]) -> Reading:
        """How to read what was written with a schema. NoColumns, InvalidSchema, ConnectError: not at all."""

    @abstractmethod
    def writing(self, parsed: ParsedSchema, schema: Schema, schema_id: int) -> Writing:
        """How to write columns of a Connect schema with a registered one. The same errors."""

    @abstractmethod
    def text_of(self, schema: Schema, subject: Callable[[str | None], str]) -> tuple[SchemaText, str | None]:
        """The schema to register, and the name of its record. The same errors."""

    def to_columns(self, topic: str, payloads: pa.Array) -> tuple[Sequence[Converted], Sequence[Refused]]:
        """See Converter."""
        if payloads.type != pa.binary():
            payloads = payloads.cast(pa.binary())
        runs = Runs(len(payloads))
        for first, count, header in self._same_headers(payloads):
            part = payloads.slice(first, count)
            if header is None:
                runs.add(range(first, first + count), Column(None, [None] * count))
                continue
            found = self._reading(header)
            if isinstance(found, str):
                rows = true_rows(part.is_valid())
                runs.refuse({first + row: found for row in rows})
                runs.add(range(first, first + count), Column(None, [None] * count))
                continue
            column, bad = _read(found, part)
            runs.refuse({first + row: reason for row, reason in bad.items()})
            runs.add(range(first, first + count), column)
        return runs.done()

    def _same_headers(self, payloads: pa.Array) -> list[tuple[int, int, bytes | None]]:
        """(first, count, header); nulls belong to what is around them; None: nulls alone."""
        made: list[tuple[int, int, bytes | None]] = []
        for row, begin in enumerate(pc.binary_slice(payloads, 0, 24).to_pylist()):
            header = None if begin is None else self._header(begin)
            if made and (header is None or made[-1][2] is None or made[-1][2] == header):
                first, count, known = made[-1]
                made[-1] = (first, count + 1, known if header is None else header)
            else:
                made.append((row, 1, header))
        return made

    def _header(self, begin: bytes) -> bytes:
        if self.has_indexes:
            try:
                return begin[: unpack(begin, with_indexes=True).payload_offset]
            except WireError:
                return begin
        return begin[:17] if begin[:1] == b"\1" else begin[:5]

    def _reading(self, header: bytes) -> Reading | str:
        found = self._readings.get(header)
        if found is not None:
            return found
        try:
            head = unpack(header, with_indexes=self.has_indexes)
            parsed = self.client.by_id_or_guid(head.schema)
            made = self._readings[header] = self.reading(parsed, head.message_indexes)
        except WireError as error:
            return f"Unknown magic byte! {error}"
        except RegistryError as error:
            if error.is_not_found or isinstance(error, UnusableSchema):
                return str(error)
            raise _of_registry(error) from None
        except (NoColumns, InvalidSchema, ConnectError) as error:
            return f"its schema ({head.schema}) cannot be used here: {error}"
        if len(self._readings) > self._cache_max:
            self._readings.popitem(last=False)
        return made

    def known(self, schema_id: int) -> ParsedSchema:
        """What a decoder asks for. UnknownSchema."""
        try:
            return self.client.by_id(schema_id)
        except RegistryError as error:
            if error.is_not_found or isinstance(error, UnusableSchema):
                raise UnknownSchema(str(error)) from None
            raise _of_registry(error) from None

    def known_guid(self, guid: str) -> ParsedSchema:
        """The same by GUID."""
        try:
            return self.client.by_guid(guid)
        except RegistryError as error:
            if error.is_not_found or isinstance(error, UnusableSchema):
                raise UnknownSchema(str(error)) from None
            raise _of_registry(error) from None

    def to_payloads(self, topic: str, column: Column) -> tuple[pa.Array, Sequence[Refused]]:
        """See Converter."""
        schema, values = column.schema, column.values
        bad: dict[int, str] = {}
        if schema is None or isinstance(values, list):
            schema, values = _with_schema(list(values), type(self).__name__, bad)
        if values.null_count == len(values):
            return pa.nulls(len(values), pa.binary()), _refused(bad)
        array, missing = completed(schema, values)
        bad |= missing
        writing = self._writing(topic, schema)
        return self._written(writing, array, bad), _refused(bad)

    def _written(self, writing: Writing, array: pa.Array, bad: dict[int, str]) -> pa.Array:
        """Payloads; rows that do not fit are added to `bad` and null."""
        for _ in range(_TRIES_MAX):
            if bad:
                keep = pa.array([None if row in bad else row for row in range(len(array))], pa.int64())
                array = array.take(keep)
            try:
                return writing.encoder.encode(_as_rows(writing, array))
            except NotEncodable as error:
                if error.row is None:
                    raise ConnectError(f"the values do not fit the registered schema: {error}") from None
                bad[error.row] = str(error)
        made: list[bytes | None] = []
        for row in range(len(array)):
            try:
                made += writing.encoder.encode(_as_rows(writing, array.slice(row, 1))).to_pylist()
            except NotEncodable as error:
                made.append(None)
                bad[row] = str(error)
        return pa.array(made, pa.binary())

    def _writing(self, topic: str, schema: Schema) -> Writing:
        try:
            registered = self._registered(topic, schema)
            key = (topic, schema, registered.id)
            found = self._writings.get(key)
            if found is None:
                found = self._writings[key] = self.writing(registered.parsed, schema, registered.id)
                if len(self._writings) > self._cache_max:
                    self._writings.popitem(last=False)
            return found
        except RegistryError as error:
            raise _of_registry(error) from None
        except (NoColumns, InvalidSchema, SubjectError) as error:
            raise ConnectError(f"a {type(self).__name__} cannot write this: {error}") from None

    def _registered(self, topic: str, schema: Schema) -> Registered:
        def subject(record: str | None) -> str:
            return subject_name(self._strategy, topic, self.is_key, record)

        text, record = self.text_of(schema, subject)
        if self._register:
            return self.client.register(subject(record), text, self._normalize)
        if self._latest:
            return self.client.latest(subject(record))
        return self.client.lookup(subject(record), text, self._normalize)


def _of_registry(error: RegistryError) -> ConnectError:
    """ConnectError where asking again does not help."""
    code = error.error_code if error.error_code < 1000 else error.error_code // 100
    refused = isinstance(error, UnusableSchema) or code in _REFUSED_BY_REGISTRY
    return ConnectError(str(error)) if refused else Retriable(str(error))


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refused(bad: Mapping[int, str]) -> list[Refused]:
    return [Refused(row, bad[row]) for row in sorted(bad)]


def _with_schema(values: list[Any], name: str, bad: dict[int, str]) -> tuple[Schema, pa.Array]:
    """A column of single values that have no schema: keys that are texts, for example."""
    kind = next((type(each) for each in values if each is not None), str)
    schema = Schema(_SCALARS.get(kind, Type.STRING))
    for row, value in enumerate(values):
        if value is not None and (type(value) is not kind or kind not in _SCALARS):
            bad[row] = (
                f"a {name} writes records with a schema; this one, a {type(value).__name__}, has none: use "
                "JsonConverter, or give the records a schema"
            )
    kept = [None if row in bad else value for row, value in enumerate(values)]
    array, wrong = array_of(schema, kept)
    bad |= wrong
    return schema, array


def _as_rows(writing: Writing, array: pa.Array) -> pa.StructArray:
    made = writing.convert(array)
    if writing.is_row:
        return made
    mask = made.is_null() if made.null_count else None
    return pa.StructArray.from_arrays([made], fields=[pa.field("value", made.type)], mask=mask)


def _read(reading: Reading, payloads: pa.Array) -> tuple[Column, dict[int, str]]:
    found, wrong = reading.decoder.decode(payloads)
    bad = {}
    if pc.any(wrong, min_count=0).as_py():
        problems = "; ".join(reading.decoder.problems.values())
        for row in true_rows(wrong):
            bad[row] = problems or "Error deserializing message: its bytes are not what its schema says"
    array = found if reading.is_row else fields_of(found)[0]
    try:
        made = reading.convert(array)
    except (pa.ArrowException, ValueError, OverflowError):
        made = _one_by_one(reading, array, bad)
    made, missing = completed(reading.schema, made, defaults=False)
    return Column(reading.schema, made), missing | bad


def _one_by_one(reading: Reading, array: pa.Array, bad: dict[int, str]) -> pa.Array:
    made = []
    for row in range(len(array)):
        part = array.slice(row, 1)
        try:
            made.append(reading.convert(part))
        except (pa.ArrowException, ValueError, OverflowError) as error:
            bad[row] = str(error)
            made.append(reading.convert(pa.nulls(1, array.type)))
    return pa.concat_arrays(made)
