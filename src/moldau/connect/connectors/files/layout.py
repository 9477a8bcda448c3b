"""Where a record's file is: FOLDER/TOPIC/…/TOPIC+PARTITION+FIRST_OFFSET.parquet, as Confluent's sinks name
files.

    default   partition=3
    time      path.format=year=YYYY/month=MM/day=dd/hour=HH   of the record's time (UTC, or `timezone`)
    field     region=EU/kind=a                                of the value's fields
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from moldau.connect.batch import Batch
from moldau.connect.building import field_column
from moldau.connect.errors import BadRecord
from moldau.connect.values import python_values

_PARTS = {
    "YYYY": "%Y", "yyyy": "%Y", "MM": "%m", "dd": "%d", "DD": "%j", "HH": "%H", "mm": "%M", "ss": "%S",
}  # fmt: skip
_TOKEN = re.compile(r"'([^']*)'|YYYY|yyyy|MM|dd|DD|HH|mm|ss|[A-Za-z]+|.", re.DOTALL)
_NONE = "__HIVE_DEFAULT_PARTITION__"


def strftime_format(joda: str) -> str:
    """A path format as strftime has it: 'year'=YYYY/'month'=MM. What is no part of a time stays as it is."""
    made = []
    for found in _TOKEN.finditer(joda):
        text = found.group(1) if found.group(1) is not None else found.group(0)
        is_part = found.group(1) is None and text in _PARTS
        made.append(_PARTS[text] if is_part else text.replace("%", "%%"))
    return "".join(made)


class Layout:
    """Folders of a batch's records."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._kind: str = settings["partitioner"]
        self._format = strftime_format(settings["path.format"])
        zone = settings["timezone"]
        self._zone = UTC if zone.upper() == "UTC" else ZoneInfo(zone)
        self._fields: Sequence[str] = settings["partition.field.name"]

    def folders(self, batch: Batch) -> Sequence[str]:
        """Of each row, relative to the topic's. BadRecord, ConnectError: there is no such field."""
        assert batch.origin is not None
        if self._kind == "default":
            return [f"partition={batch.origin.partition}"] * len(batch)
        if self._kind == "time":
            return self._by_time(batch)
        columns = [python_values(field_column(batch.value, name)) for name in self._fields]
        return [
            "/".join(f"{name}={_safe(value)}" for name, value in zip(self._fields, row, strict=True))
            for row in zip(*columns, strict=True)
        ]

    def _by_time(self, batch: Batch) -> Sequence[str]:
        known: dict[int, str] = {}
        made = []
        for row, timestamp_ms in enumerate(batch.timestamps_ms.to_pylist()):
            if timestamp_ms is None:
                raise BadRecord("the record has no time", row)
            minute = timestamp_ms // 60_000
            text = known.get(minute)
            if text is None or "%S" in self._format:
                moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone(self._zone)
                text = known[minute] = moment.strftime(self._format)
            made.append(text)
        return made


def _safe(value: Any) -> str:
    """A value as the name of a folder, as Hive and Spark write it."""
    if value is None or value == "":
        return _NONE
    return (
        quote(str(value), safe=" !$&'()+,-.;@[]^_`{}~")
        if str(value) not in (".", "..")
        else "%2E" * len(str(value))
    )


def file_name(topic: str, partition: int, first: int, ending: str) -> str:
    """TOPIC+PARTITION+FIRST_OFFSET.ENDING"""
    return f"{topic}+{partition}+{first:010}.{ending}"
