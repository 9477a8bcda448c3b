"""Confluent's Filter: leaves out, or keeps, the records that a condition holds for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.errors import BadRecords, ConnectError
from moldau.connect.schema import Schema
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.transforms.base import SideTransform, sides
from moldau.connect.transforms.confluent.json_condition import condition
from moldau.connect.values import python_values


def _condition_error(value: Any) -> str | None:
    try:
        condition(str(value))
    except ConnectError as error:
        return str(error)
    return None


class Filter(SideTransform):
    """Keeps (include) or leaves out (exclude) what the condition finds something in."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "filter.condition",
            SettingType.STRING,
            "A path of JSONPath: $.a, $[?(@.amount > 10 && @.kind == 'x')].",
            REQUIRED,
            Importance.HIGH,
            check=_condition_error,
        ),
        Setting(
            "filter.type",
            SettingType.STRING,
            "include: keep the records in which it finds something; exclude: leave them out.",
            REQUIRED,
            Importance.HIGH,
            choices=("include", "exclude"),
        ),
        Setting(
            "missing.or.null.behavior",
            SettingType.STRING,
            "Of records without key or value: fail, include, exclude.",
            "fail",
            choices=("fail", "include", "exclude"),
        ),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: the condition is none."""
        super().configure(settings)
        self._finds = condition(str(settings["filter.condition"]))
        self._keeps = str(settings["filter.type"]).lower() == "include"
        self._missing = str(settings.get("missing.or.null.behavior") or "fail").lower()

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        kept: list[int] = []
        bad: list[tuple[int, str]] = []
        for row, value in enumerate(python_values(self.side(batch))):
            if value is None:
                if self._missing == "fail":
                    bad.append((row, "the record has nothing that the filter's condition could be about"))
                elif self._missing == "include":
                    kept.append(row)
            elif self._finds(value) is self._keeps:
                kept.append(row)
        if bad:
            raise BadRecords(bad)
        if len(kept) == len(batch):
            return [batch]
        return [batch.take(kept)] if kept else []

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """Not used."""
        return value

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """Not used."""
        return Column(schema, array)


FilterKey, FilterValue = sides(Filter)
