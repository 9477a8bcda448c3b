"""SetSchemaMetadata: the schema's name and version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.schema import Schema
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.transforms.base import REPLACE_NULL, RowError, SideTransform, sides


class SetSchemaMetadata(SideTransform):
    """Gives the schema another name and version."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("schema.name", SettingType.STRING, "The schema's name.", None, Importance.HIGH),
        Setting("schema.version", SettingType.INT, "The schema's version.", None, Importance.HIGH),
        REPLACE_NULL,
    )

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        raise RowError("Schema required for [updating schema metadata]")

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        name, version = self.config.get("schema.name"), self.config.get("schema.version")
        made = replace(
            schema,
            name=schema.name if name is None else str(name),
            version=schema.version if version is None else int(version),
        )
        return Column(made, array)


SetSchemaMetadataKey, SetSchemaMetadataValue = sides(SetSchemaMetadata)
