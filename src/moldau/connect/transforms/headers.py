"""DropHeaders, InsertHeader, HeaderFrom: what is done to headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.batch import Batch, Column, Header
from moldau.connect.converters.simple_header import parsed_text
from moldau.connect.errors import ConnectError
from moldau.connect.schema import Schema
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.structs import fields_of, struct_of
from moldau.connect.transform import Transform
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    SideTransform,
    all_bad,
    require_map,
    require_struct,
    sides,
)
from moldau.connect.values import completed, python_values

Headers = tuple[tuple[Header, ...], ...]


def headers_of(batch: Batch) -> Headers:
    """The headers, a tuple a record."""
    return batch.headers if batch.headers is not None else ((),) * len(batch)


class DropHeaders(Transform):
    """Takes headers of these names off."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("headers", SettingType.LIST, "The names of the headers.", REQUIRED, Importance.HIGH),
    )

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        if batch.headers is None:
            return [batch]
        names = frozenset(self.config.get("headers") or ())
        kept = tuple(tuple(each for each in every if each.key not in names) for every in batch.headers)
        return [replace(batch, headers=kept)]


class InsertHeader(Transform):
    """Adds one header, the same to all records."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("header", SettingType.STRING, "The header's name.", REQUIRED, Importance.HIGH),
        Setting(
            "value.literal",
            SettingType.STRING,
            "Its value; the type is guessed as SimpleHeaderConverter does.",
            REQUIRED,
            Importance.HIGH,
        ),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """See Transform."""
        super().configure(settings)
        value, schema = parsed_text(str(settings["value.literal"]))
        self._header = Header(str(settings["header"]), value, schema)

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        return [replace(batch, headers=tuple((*every, self._header) for every in headers_of(batch)))]


class HeaderFrom(SideTransform):
    """Copies or moves fields to headers."""

    nulls_pass = False
    fills_defaults = False
    settings: ClassVar[Sequence[Setting]] = (
        Setting("fields", SettingType.LIST, "The fields.", REQUIRED, Importance.HIGH),
        Setting(
            "headers", SettingType.LIST, "The headers' names, in the same order.", REQUIRED, Importance.HIGH
        ),
        Setting(
            "operation",
            SettingType.STRING,
            "move: the field is taken out; copy: it stays.",
            REQUIRED,
            Importance.HIGH,
            choices=("move", "copy"),
        ),
        REPLACE_NULL,
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: fields and headers do not match."""
        super().configure(settings)
        self._fields, self._names = list(settings["fields"]), list(settings["headers"])
        if len(self._fields) != len(self._names):
            raise ConnectError("'fields' config must have the same number of elements as 'headers' config.")
        self._moves = str(settings["operation"]).lower() == "move"
        self._purpose = f"header {'move' if self._moves else 'copy'}"

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        self._added: list[list[Header]] = [[] for _ in range(len(batch))]
        (made,) = super().apply(batch) or (batch,)
        headers = tuple((*every, *added) for every, added in zip(headers_of(batch), self._added, strict=True))
        return [replace(made, headers=headers)]

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        given = require_map(value, self._purpose)
        self._added[row] = [
            Header(name, given.get(field)) for field, name in zip(self._fields, self._names, strict=True)
        ]
        return {k: v for k, v in given.items() if k not in self._fields} if self._moves else given

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        require_struct(schema, array, self._purpose)
        columns = fields_of(array)
        fills = self.config.get("replace.null.with.default", True)
        filled = fields_of(completed(schema, array)[0]) if fills else columns
        for field, name in zip(self._fields, self._names, strict=True):
            index = next((i for i, each in enumerate(schema.fields) if each.name == field), None)
            if index is None:
                raise all_bad(array, f"Field '{field}' does not exist in the record")
            kind = schema.fields[index].schema
            for row, value in enumerate(python_values(Column(kind, filled[index]))):
                self._added[row].append(Header(name, value, kind))
        if not self._moves:
            return Column(schema, array)
        kept = [i for i, each in enumerate(schema.fields) if each.name not in self._fields]
        made = replace(schema, fields=tuple(schema.fields[i] for i in kept))
        return Column(made, struct_of(made, [columns[i] for i in kept], array, len(array)))


HeaderFromKey, HeaderFromValue = sides(HeaderFrom)
