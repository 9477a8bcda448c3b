"""ExtractNewRecordState: of a change event, the row as it is now.

    {"before": B, "after": A, "op": "u"}  ->  A                      (with add.fields: and what they name)
    {"before": B, "after": null, "op": "d"}, then a tombstone:
        tombstone (default)       only the tombstone
        drop                      nothing
        rewrite                   B with __deleted "true"; others have __deleted "false"; no tombstone
        rewrite-with-tombstone    the same, and the tombstone
        delete-to-tombstone       a tombstone in the place of the event

Records that are no change events (heartbeats) pass. Without schema the same is done to maps with op and
after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import arrow_type
from moldau.connect.batch import Batch, Column, Header
from moldau.connect.errors import ConnectError
from moldau.connect.schema import Field, Schema, Type
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.structs import fields_of, struct_of
from moldau.connect.transform import Transform
from moldau.connect.transforms.debezium.envelope import Events, is_envelope, kinds_of
from moldau.connect.transforms.field_path import found_in
from moldau.connect.transforms.headers import headers_of
from moldau.connect.transforms.routers import by_topic
from moldau.connect.values import python_values

MODES = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
DELETED = "__deleted"
_OF_ENVELOPE = ("op", "ts_ms", "ts_us", "ts_ns")
_OF_TRANSACTION = ("id", "total_order", "data_collection_order")
_IGNORED = ("t", "m")
"""Operations (truncate, message) that are about no row."""


class _Reference(NamedTuple):
    path: tuple[str, ...]
    name: str


def _references(texts: Sequence[str], prefix: str) -> list[_Reference]:
    """`op`, `source.ts_ms`, `table:t`: where each is found, and what it is called."""
    made = []
    for text in filter(None, map(str.strip, texts)):
        field, _, alias = text.partition(":")
        parts = field.split(".")
        if len(parts) > 2:
            raise ConnectError(f"Unexpected field name: {text}")
        if len(parts) == 1 and field not in _OF_ENVELOPE:
            parts = ["transaction" if field in _OF_TRANSACTION else "source", field]
        name = alias or (field.replace(".", "_"))
        made.append(_Reference(tuple(parts), f"{prefix}{name}"))
    return made


def _list(name: str, doc: str) -> Setting:
    return Setting(name, SettingType.LIST, doc, ())


class ExtractNewRecordState(Transform):
    """Unwraps change events."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "delete.tombstone.handling.mode",
            SettingType.STRING,
            f"What becomes of deletions: {', '.join(MODES)}.",
            "tombstone",
            choices=MODES,
        ),
        _list("add.fields", "Metadata to add as fields: op, table, source.ts_ms, name:new."),
        Setting("add.fields.prefix", SettingType.STRING, "What their names begin with.", "__"),
        _list("add.headers", "Metadata to add as headers."),
        Setting("add.headers.prefix", SettingType.STRING, "What their names begin with.", "__"),
        Setting("route.by.field", SettingType.STRING, "A field of the row that names the topic.", ""),
        Setting(
            "drop.fields.header.name",
            SettingType.STRING,
            "A header with a list of fields to leave out of the row.",
            None,
        ),
        Setting(
            "drop.fields.keep.schema.compatible",
            SettingType.BOOLEAN,
            "Leave out only those that are optional.",
            True,
            Importance.LOW,
        ),
        Setting(
            "drop.tombstones",
            SettingType.BOOLEAN,
            "Older Debezium's; use delete.tombstone.handling.mode.",
            None,
            Importance.LOW,
        ),
        Setting(
            "delete.handling.mode",
            SettingType.STRING,
            "Older Debezium's (drop, rewrite, none); use delete.tombstone.handling.mode.",
            None,
            Importance.LOW,
            choices=("drop", "rewrite", "none"),
        ),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: a field is none."""
        super().configure(settings)
        mode = _old_mode(settings.get("delete.handling.mode"), settings.get("drop.tombstones"))
        mode = mode or str(settings.get("delete.tombstone.handling.mode") or "tombstone")
        self._rewrites = mode.startswith("rewrite")
        self._empties = mode == "delete-to-tombstone"
        self._keeps_tombstones = mode in ("tombstone", "rewrite-with-tombstone")
        self._fields = _references(settings.get("add.fields") or (), _prefix(settings, "add.fields.prefix"))
        self._headers = _references(
            settings.get("add.headers") or (), _prefix(settings, "add.headers.prefix")
        )
        self._route = str(settings.get("route.by.field") or "")

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        kinds = kinds_of(batch)
        if "event" not in kinds and (self._keeps_tombstones or "tombstone" not in kinds):
            return [batch]
        if isinstance(batch.value.values, list):
            return self._schemaless(batch, kinds)
        if not is_envelope(batch.value.schema):
            return [batch.take([row for row, kind in enumerate(kinds) if kind != "tombstone"])]
        events = Events.of(batch.value)
        ops = events.columns["op"].to_pylist()
        deleted = events.columns["after"].is_null().to_pylist()
        kept = [
            row
            for row, kind in enumerate(kinds)
            if (
                self._keeps_tombstones
                if kind == "tombstone"
                else ops[row] not in _IGNORED and (not deleted[row] or self._rewrites or self._empties)
            )
        ]
        if not kept:
            return []
        if len(kept) < len(batch):
            batch = batch.take(kept)
            events = Events.of(batch.value)
        return self._unwrapped(batch, events)

    def _unwrapped(self, batch: Batch, events: Events) -> Sequence[Batch]:
        row_schema, rows = self._rows(events)
        fields, columns = list(row_schema.fields), fields_of(rows)
        live = pc.is_valid(batch.value.values)
        if self._rewrites:
            after = events.columns["after"].is_null()
            fields.append(Field(DELETED, Schema(Type.STRING, True)))
            columns.append(pc.if_else(after, "true", "false").cast(pa.string()))
        for each in self._fields:
            found = events.at(each.path)
            schema = Schema(Type.STRING, True) if found is None else found[0].as_optional()
            fields.append(Field(each.name, schema))
            columns.append(pa.nulls(len(batch), arrow_type(schema)) if found is None else found[1])
        adds = len(fields) > len(row_schema.fields)
        made = replace(row_schema, optional=row_schema.optional and not adds, fields=tuple(fields))
        like = (
            rows
            if not self._rewrites
            else pa.StructArray.from_arrays([live], names=["x"], mask=pc.invert(live))
        )
        value = Column(made, struct_of(made, columns, like, len(batch)))
        result = replace(batch, value=value, headers=self._with_headers(batch, events))
        pieces = self._without_fields(result)
        return [each for piece in pieces for each in self._routed(piece)]

    def _rows(self, events: Events) -> tuple[Schema, pa.Array]:
        """The rows: after, or (rewrite) before where there is no after."""
        schema, after = events.schemas["after"], events.columns["after"]
        before = events.columns.get("before")
        if not self._rewrites or before is None or before.type != after.type:
            return schema, after
        index = np.arange(len(after))
        index[np.asarray(after.is_null())] += len(after)
        return schema, pa.concat_arrays([after, before]).take(pa.array(index))

    def _with_headers(self, batch: Batch, events: Events) -> tuple[tuple[Header, ...], ...] | None:
        if not self._headers:
            return batch.headers
        added: list[list[Header]] = [[] for _ in range(len(batch))]
        for each in self._headers:
            found = events.at(each.path)
            if found is not None:
                for row, value in enumerate(python_values(Column(*found))):
                    added[row].append(Header(each.name, value, found[0]))
        live = pc.is_valid(batch.value.values).to_pylist()
        return tuple(
            (*every, *(more if alive else ()))
            for every, more, alive in zip(headers_of(batch), added, live, strict=True)
        )

    def _without_fields(self, batch: Batch) -> list[Batch]:
        """Records in runs that leave out the same fields."""
        name = self.config.get("drop.fields.header.name")
        if not name or batch.headers is None:
            return [batch]
        wanted: list[tuple[Any, ...]] = []
        for every in batch.headers:
            found: list[Any] = [each.value for each in every if each.key == name]
            wanted.append(tuple(found[0]) if found and isinstance(found[0], (list, tuple)) else ())
        made: list[Batch] = []
        first = 0
        for row in range(1, len(batch) + 1):
            if row == len(batch) or wanted[row] != wanted[first]:
                made.append(self._dropped(batch.slice(first, row - first), wanted[first]))
                first = row
        return made

    def _dropped(self, batch: Batch, names: tuple[Any, ...]) -> Batch:
        schema = batch.value.schema
        if not names or schema is None or isinstance(batch.value.values, list):
            return batch
        compatible = self.config.get("drop.fields.keep.schema.compatible", True)
        kept = [
            index
            for index, each in enumerate(schema.fields)
            if each.name not in names or (compatible and not each.schema.optional)
        ]
        columns = fields_of(batch.value.values)
        made = replace(schema, fields=tuple(schema.fields[index] for index in kept))
        array = struct_of(made, [columns[index] for index in kept], batch.value.values, len(batch))
        return replace(batch, value=Column(made, array))

    def _routed(self, batch: Batch) -> Sequence[Batch]:
        if not self._route:
            return [batch]
        found = [found_in(each, (self._route,)) for each in python_values(batch.value)]
        return by_topic(batch, [batch.topic if each is None else str(each) for each in found])

    def _schemaless(self, batch: Batch, kinds: list[str]) -> Sequence[Batch]:
        made: list[Batch] = []
        values = list(batch.value.values)
        kept: list[int] = []
        headers = list(headers_of(batch))
        for row, (value, kind) in enumerate(zip(values, kinds, strict=True)):
            if kind == "other" or (kind == "tombstone" and self._keeps_tombstones):
                kept.append(row)
            elif kind == "event" and value["op"] not in _IGNORED:
                after = value.get("after")
                if after is None and self._empties:
                    values[row] = None
                elif after is None and not self._rewrites:
                    continue
                else:
                    new = dict(after if after is not None else value.get("before") or {})
                    if self._rewrites:
                        new[DELETED] = "true" if after is None else "false"
                    values[row] = new | {each.name: found_in(value, each.path) for each in self._fields}
                added = (Header(each.name, found_in(value, each.path)) for each in self._headers)
                headers[row] = (*headers[row], *added)
                kept.append(row)
        with_headers = tuple(headers) if self._headers or batch.headers is not None else None
        whole = replace(batch, value=Column(None, values), headers=with_headers)
        if kept:
            made += self._routed(whole.take(kept))
        return made


def _prefix(settings: Mapping[str, Any], name: str) -> str:
    given = settings.get(name)
    return "__" if given is None else str(given)


def _old_mode(deletes: Any, drops: Any) -> str | None:
    """Of older settings: deletes are dropped unless said otherwise, and so are tombstones."""
    if deletes is None and drops is None:
        return None
    dropped = True if drops is None else bool(drops)
    if deletes == "rewrite":
        return "rewrite" if dropped else "rewrite-with-tombstone"
    if deletes == "none":
        return "delete-to-tombstone"
    return "drop" if dropped else "tombstone"
