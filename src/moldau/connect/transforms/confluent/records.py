"""Drop, TombstoneHandler, GzipDecompress."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.arrow_types import arrow_type
from moldau.connect.batch import Batch, Column
from moldau.connect.building import is_null
from moldau.connect.errors import BadRecords
from moldau.connect.schema import Schema, Type
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.transform import Transform
from moldau.connect.transforms.base import RowError, SideTransform, all_bad, java_class, sides

log = logging.getLogger("moldau.connect")
UNPACKED_BYTES_MAX = 64 << 20
"""A record that is larger unpacked is refused."""


class Drop(SideTransform):
    """Leaves out the key or the value: it is null."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "schema.behavior",
            SettingType.STRING,
            "nullify: without schema; retain: with the same, which must allow null; force_optional: made to.",
            "nullify",
            choices=("nullify", "retain", "force_optional"),
        ),
    )

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        schema = self.side(batch).schema
        behavior = self.config.get("schema.behavior", "nullify")
        if schema is None or behavior == "nullify":
            return [self.with_side(batch, Column(None, [None] * len(batch)))]
        if behavior == "retain" and not schema.optional:
            reason = "Cannot drop a key or value whose schema does not allow null (schema.behavior=retain)"
            raise BadRecords([(row, reason) for row in range(len(batch))])
        schema = schema.as_optional()
        return [self.with_side(batch, Column(schema, pa.nulls(len(batch), arrow_type(schema))))]

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """Not used."""
        return None

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """Not used."""
        return Column(schema, array)


class TombstoneHandler(Transform):
    """What becomes of records without a value."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "behavior",
            SettingType.STRING,
            "drop_silent, drop_warn: left out; ignore, warn: passed on; fail: refused.",
            "drop_warn",
            Importance.HIGH,
            choices=("drop_silent", "drop_warn", "ignore", "warn", "fail"),
        ),
    )

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        behavior = str(self.config.get("behavior", "drop_warn"))
        flags = is_null(batch.value.values)
        rows = [row for row, flag in enumerate(flags) if flag]
        if not rows or behavior == "ignore":
            return [batch]
        if behavior == "fail":
            raise BadRecords([(row, "Tombstone record encountered (behavior=fail)") for row in rows])
        if behavior.endswith("warn"):
            log.warning("%d records of %s have no value (TombstoneHandler)", len(rows), batch.topic)
        if behavior == "warn":
            return [batch]
        return [batch.take([row for row, flag in enumerate(flags) if not flag])]


class GzipDecompress(SideTransform):
    """Unpacks bytes that were packed with gzip."""

    settings: ClassVar[Sequence[Setting]] = ()

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """See SideTransform."""
        if not isinstance(value, (bytes, bytearray)):
            raise RowError(f"only bytes can be unpacked, found: {java_class(value)}")
        unpacking = zlib.decompressobj(31)
        try:
            made = unpacking.decompress(value, UNPACKED_BYTES_MAX)
        except zlib.error as error:
            raise RowError(f"Failed to decompress: {error}") from None
        if unpacking.unconsumed_tail:
            raise RowError(f"it has more than {UNPACKED_BYTES_MAX} bytes unpacked")
        if not unpacking.eof:
            raise RowError("Failed to decompress: the packed bytes end too early")
        return made

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """See SideTransform."""
        if schema.type is not Type.BYTES or pa.types.is_decimal(array.type):
            raise all_bad(array, f"only BYTES can be unpacked, found: {schema.type.name}")
        return Column(schema, pa.array(self._each(array.to_pylist(), batch), pa.binary()))


DropKey, DropValue = sides(Drop)
GzipDecompressKey, GzipDecompressValue = sides(GzipDecompress)
