"""ReplaceField: leave fields out, keep only some, rename them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.errors import ConnectError
from moldau.connect.schema import Field, Schema
from moldau.connect.settings import Setting, SettingType
from moldau.connect.structs import fields_of, struct_of
from moldau.connect.transforms.base import (
    REPLACE_NULL,
    SideTransform,
    all_bad,
    require_map,
    require_struct,
    sides,
)

PURPOSE = "field replacement"
NAMES_MAX = 10_000
"""So many names of fields are remembered."""


def pairs_of(texts: Sequence[str]) -> dict[str, str]:
    """`old:new` each. ConnectError."""
    made = {}
    for text in texts:
        before, colon, after = text.strip().partition(":")
        if not colon or not before or not after or ":" in after:
            raise ConnectError(f"Invalid rename mapping: {text}")
        made[before.strip()] = after.strip()
    return made


def _renames_error(value: Any) -> str | None:
    try:
        pairs_of(value or ())
    except ConnectError as error:
        return str(error)
    return None


_NAMED_MAX = 8
"""Of more fields that are named, all of a record are looked at instead of these."""


class _Plan(dict[str, str | None]):
    """What becomes of each name that was seen; None: it is left out."""

    def __init__(self, decide: Callable[[str], str | None]) -> None:
        super().__init__()
        self._decide = decide

    def __missing__(self, name: str) -> str | None:
        if len(self) >= NAMES_MAX:
            self.clear()
        self[name] = self._decide(name)
        return self[name]


class ReplaceField(SideTransform):
    """Drops, keeps or renames fields."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("exclude", SettingType.LIST, "Fields to leave out; wins over include.", ()),
        Setting("include", SettingType.LIST, "The only fields to keep, if any are named.", ()),
        Setting("renames", SettingType.LIST, "New names: old:new, old:new.", (), check=_renames_error),
        REPLACE_NULL,
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: renames are no pairs."""
        super().configure(settings)
        self._exclude = frozenset(settings.get("exclude") or ())
        self._include = frozenset(settings.get("include") or ())
        self._renames = pairs_of(settings.get("renames") or ())
        self._plan = _Plan(lambda name: self._renames.get(name, name) if self._keeps(name) else None)

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def maps(self, values: list[dict[str, Any]], batch: Batch) -> list[Any] | None:
        """See SideTransform."""
        if self._include or len(self._exclude) + len(self._renames) > _NAMED_MAX:
            plan = self._plan
            return [
                {new: each for name, each in value.items() if (new := plan[name]) is not None}
                for value in values
            ]
        made = list(map(dict.copy, values))
        for name in self._exclude:
            for value in made:
                value.pop(name, None)
        if self._renames:
            self._rename(made)
        return made

    def _rename(self, made: list[dict[str, Any]]) -> None:
        """New names come last in a record; where one is there already, the order of the fields decides."""
        renamed, plan = [each for each in self._renames.items() if each[0] not in self._exclude], self._plan
        old_names = {old for old, _ in renamed}
        for row, value in enumerate(made):
            if any(new in value and new not in old_names for _, new in renamed):
                made[row] = {plan[name] or name: each for name, each in value.items()}
                continue
            found = [(new, value.pop(old)) for old, new in renamed if old in value]
            for new, each in found:
                value[new] = each

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        given = require_map(value, PURPOSE)
        plan = self._plan
        return {new: each for name, each in given.items() if (new := plan[name]) is not None}

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        require_struct(schema, array, PURPOSE)
        columns = fields_of(array)
        kept = [index for index, each in enumerate(schema.fields) if self._keeps(each.name)]
        fields: dict[str, Field] = {}
        for index in kept:
            each = schema.fields[index]
            name = self._renames.get(each.name, each.name)
            if name in fields:
                raise all_bad(array, f"Cannot create field because of field name duplication {name}")
            fields[name] = Field(name, each.schema)
        made = replace(schema, fields=tuple(fields.values()))
        return Column(made, struct_of(made, [columns[index] for index in kept], array, len(array)))


ReplaceFieldKey, ReplaceFieldValue = sides(ReplaceField)
