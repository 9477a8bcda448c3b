"""Where reading of a table stands, in Confluent's form, so that its connector's offsets go on here.

    {"incrementing": 17, "timestamp": 1700000000123, "timestamp_nanos": 123456000}

`timestamp` is in milliseconds, `timestamp_nanos` the whole fraction of its second.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moldau.connect.errors import ConnectError

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Reached:
    """The last row that was read: its number, its time."""

    number: int | None = None
    time: datetime.datetime | None = None
    """With a zone."""

    def offset(self) -> dict[str, Any]:
        """As it is kept in Kafka."""
        made: dict[str, Any] = {}
        if self.number is not None:
            made["incrementing"] = self.number
        if self.time is not None:
            whole = self.time - EPOCH
            made["timestamp"] = whole // datetime.timedelta(milliseconds=1)
            made["timestamp_nanos"] = self.time.microsecond * 1000
        return made


def reached(offset: Mapping[str, Any] | None) -> Reached:
    """Read an offset. ConnectError for what is none."""
    if not offset:
        return Reached()
    number, time_ms, nanos = (offset.get(name) for name in ("incrementing", "timestamp", "timestamp_nanos"))
    for name, value in (("incrementing", number), ("timestamp", time_ms), ("timestamp_nanos", nanos)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise ConnectError(f"{name} of an offset is a whole number, not {value!r}")
    time = None
    if time_ms is not None:
        try:
            time = EPOCH + datetime.timedelta(milliseconds=time_ms)
        except OverflowError:
            raise ConnectError(f"timestamp {time_ms} of an offset is outside of the calendar") from None
        if nanos is not None:
            time = time.replace(microsecond=nanos // 1000)
    return Reached(number, time)
