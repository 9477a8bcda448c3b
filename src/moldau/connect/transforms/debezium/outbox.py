"""EventRouter: events that a program wrote into an outbox table, each to the topic of its kind.

    id | aggregatetype | aggregateid | type | payload        a new row of the table
    ->  topic outbox.event.<aggregatetype>, key <aggregateid>, value <payload>, header id=<id>

Deletions of the table's rows (and tombstones) are left out; an updated row is a mistake of the program
(`table.op.invalid.behavior`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import orjson
import pyarrow as pa

from moldau.common.core.java_patterns import compile_java
from moldau.common.core.patterns import PatternError
from moldau.connect.arrow_types import arrow_type
from moldau.connect.batch import Batch, Column, Header
from moldau.connect.building import field_column
from moldau.connect.errors import BadRecords, ConnectError
from moldau.connect.inference import infer_schema
from moldau.connect.schema import Field, Schema, Type
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.structs import struct_of
from moldau.connect.transform import Transform
from moldau.connect.transforms.debezium.envelope import Events, is_envelope, kinds_of
from moldau.connect.transforms.headers import headers_of
from moldau.connect.transforms.predicates import pattern_error
from moldau.connect.transforms.routers import group_names, in_runs, java_replacement
from moldau.connect.values import array_of, python_values, timestamp_ms

log = logging.getLogger("moldau.connect")


class _Placed(NamedTuple):
    field: str
    place: str
    name: str


def _text(name: str, doc: str, default: str | None) -> Setting:
    return Setting(name, SettingType.STRING, doc, default)


class EventRouter(Transform):
    """Routes the rows of an outbox table."""

    settings: ClassVar[Sequence[Setting]] = (
        _text("table.field.event.id", "The column with the event's id.", "id"),
        _text("table.field.event.key", "The column with the record's key.", "aggregateid"),
        _text("table.field.event.payload", "The column with the record's value.", "payload"),
        _text("table.field.event.timestamp", "The column with its time (ms); none: that of the event.", None),
        Setting(
            "table.fields.additional.placement",
            SettingType.LIST,
            "More columns, each as column:header, column:envelope (beside the payload) or column:partition.",
            (),
        ),
        Setting(
            "table.expand.json.payload",
            SettingType.BOOLEAN,
            "A payload of JSON text becomes what it says.",
            False,
        ),
        _text("route.by.field", "The column that says where it goes.", "aggregatetype"),
        Setting(
            "route.topic.regex",
            SettingType.STRING,
            "A regular expression of Java's for its value.",
            "(?<routedByValue>.*)",
            Importance.LOW,
            check=pattern_error,
        ),
        _text("route.topic.replacement", "The topic's name.", "outbox.event.${routedByValue}"),
        Setting(
            "route.tombstone.on.empty.payload",
            SettingType.BOOLEAN,
            "An empty payload is a tombstone.",
            False,
        ),
        Setting(
            "table.op.invalid.behavior",
            SettingType.STRING,
            "Of updated rows: warn (left out), error (left out, logged as such), fatal (refused).",
            "warn",
            choices=("warn", "error", "fatal"),
        ),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: a pattern or placement is none."""
        defaults = {row.name: row.default for row in self.settings}
        super().configure(defaults | {k: v for k, v in settings.items() if v is not None})
        text = str(self.config["route.topic.regex"])
        try:
            self._pattern = compile_java(text, linear=True)
        except PatternError as error:
            raise ConnectError(f"route.topic.regex={text}: {error}") from None
        replacement = str(self.config["route.topic.replacement"])
        self._replaced = java_replacement(replacement, group_names(text), self._pattern.groups)
        self._placed = [_placement(each) for each in self.config["table.fields.additional.placement"]]

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        kinds = kinds_of(batch)
        ops, times, rows = self._opened(batch, kinds)
        kept: list[int] = []
        bad: list[tuple[int, str]] = []
        for row, kind in enumerate(kinds):
            if kind == "other":
                bad.append((row, "it is no change event of an outbox table"))
            elif kind == "event" and ops[row] in ("c", "r"):
                kept.append(row)
            elif kind == "event" and ops[row] == "u":
                self._invalid(row, bad)
        if bad:
            raise BadRecords(bad)
        if not kept:
            return []
        try:
            return self._events(batch.take(kept), rows.take(kept), [times[row] for row in kept])
        except BadRecords as error:
            raise BadRecords([(kept[row], reason) for row, reason in error.rows]) from None

    def _opened(self, batch: Batch, kinds: list[str]) -> tuple[list[Any], list[Any], Column]:
        """Operations, times and rows (after) of events; None of others."""
        values = batch.value.values
        if isinstance(values, list):
            events = [v if kind == "event" else {} for v, kind in zip(values, kinds, strict=True)]
            after = Column(None, [each.get("after") for each in events])
            return [each.get("op") for each in events], [each.get("ts_ms") for each in events], after
        if not is_envelope(batch.value.schema):
            return [None] * len(batch), [None] * len(batch), batch.value
        found = Events.of(batch.value)
        times = found.at(("ts_ms",))
        return (
            found.columns["op"].to_pylist(),
            [None] * len(batch) if times is None else python_values(Column(*times)),
            Column(found.schemas["after"], found.columns["after"]),
        )

    def _invalid(self, row: int, bad: list[tuple[int, str]]) -> None:
        behavior = str(self.config["table.op.invalid.behavior"])
        reason = "Unexpected update operation on an outbox table: its rows are written once"
        if behavior == "fatal":
            bad.append((row, reason))
        else:
            log.log(logging.WARNING if behavior == "warn" else logging.ERROR, "%s", reason)

    def _events(self, batch: Batch, rows: Column, times: list[Any]) -> Sequence[Batch]:
        config = self.config
        routes = python_values(_field(rows, str(config["route.by.field"])))
        key = _field(rows, str(config["table.field.event.key"]))
        payload = _field(rows, str(config["table.field.event.payload"]))
        if config["table.expand.json.payload"]:
            payload = _expanded(payload)
        if config.get("table.field.event.timestamp"):
            times = python_values(_field(rows, str(config["table.field.event.timestamp"])))
        headers = [list(each) for each in headers_of(batch)]
        _add_headers(headers, "id", _field(rows, str(config["table.field.event.id"])))
        beside: list[tuple[str, Column]] = []
        partitions: list[Any] = [None] * len(batch)
        for each in self._placed:
            column = _field(rows, each.field)
            if each.place == "header":
                _add_headers(headers, each.name, column)
            elif each.place == "envelope":
                beside.append((each.name, column))
            else:
                partitions = python_values(column)
        value = _enveloped(payload, beside) if beside else payload
        if config["route.tombstone.on.empty.payload"]:
            value = _empty_as_null(value, payload)
        made = replace(
            batch,
            key=key,
            value=value,
            timestamps_ms=pa.array([_ms(each) for each in times], pa.int64()),
            headers=tuple(map(tuple, headers)),
        )
        targets = list(zip(map(self._topic, routes), partitions, strict=True))
        return [
            replace(run, topic=topic, partition=number) for run, (topic, number) in in_runs(made, targets)
        ]

    def _topic(self, route: Any) -> str:
        found = self._pattern.fullmatch(str(route))
        return str(route) if found is None else self._replaced(found)


def _placement(text: str) -> _Placed:
    field, _, rest = text.strip().partition(":")
    place, _, name = rest.partition(":")
    if place not in ("header", "envelope", "partition") or not field:
        raise ConnectError(
            f"Invalid value {text} for configuration table.fields.additional.placement: column:header, "
            "column:envelope or column:partition"
        )
    return _Placed(field, place, name or field)


def _field(rows: Column, name: str) -> Column:
    reason = f"Unable to find field {name} in event"
    if rows.schema is None:
        missing = [
            row for row, each in enumerate(rows.values) if not isinstance(each, dict) or name not in each
        ]
        if missing:
            raise BadRecords([(row, reason) for row in missing])
    try:
        return field_column(rows, name)
    except ConnectError:
        raise BadRecords([(row, reason) for row in range(len(rows))]) from None


def _add_headers(headers: list[list[Header]], name: str, column: Column) -> None:
    for every, value in zip(headers, python_values(column), strict=True):
        every.append(Header(name, value, column.schema))


def _ms(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        return timestamp_ms(value)
    except (TypeError, AttributeError):
        return None


def _expanded(payload: Column) -> Column:
    """JSON texts as what they say; others stay texts."""
    values: list[Any] = []
    for each in python_values(payload):
        try:
            values.append(orjson.loads(each) if isinstance(each, (str, bytes)) else each)
        except orjson.JSONDecodeError:
            return payload
    if payload.schema is None:
        return Column(None, values)
    try:
        schema = infer_schema(values)
    except ConnectError:
        return Column(None, values)
    array, bad = array_of(schema, values)
    return Column(None, values) if bad else Column(schema, array)


def _enveloped(payload: Column, beside: list[tuple[str, Column]]) -> Column:
    parts = [("payload", payload), *beside]
    if any(column.schema is None or isinstance(column.values, list) for _, column in parts):
        names = [name for name, _ in parts]
        values = zip(*(python_values(column) for _, column in parts), strict=True)
        return Column(None, [dict(zip(names, each, strict=True)) for each in values])
    fields = [Field(name, column.schema) for name, column in parts if column.schema is not None]
    made = Schema(Type.STRUCT, fields=tuple(fields))
    return Column(made, struct_of(made, [column.values for _, column in parts], None, len(payload)))


def _empty_as_null(value: Column, payload: Column) -> Column:
    empty = [each is None or each in ("", b"") for each in python_values(payload)]
    if isinstance(value.values, list) or value.schema is None:
        return Column(None, [None if e else v for v, e in zip(value.values, empty, strict=True)])
    keep = pa.array([None if each else row for row, each in enumerate(empty)], pa.int64())
    return Column(value.schema, value.values.take(keep).cast(arrow_type(value.schema)))
