"""ExtractTopic and MessageTimestampRouter: the topic by what a record says."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from moldau.connect.batch import Batch, Column
from moldau.connect.errors import BadRecords
from moldau.connect.schema import Schema
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.transform import Transform
from moldau.connect.transforms.base import SideTransform, java_class, sides
from moldau.connect.transforms.field_path import found_in, path_of
from moldau.connect.transforms.java_dates import JavaDates
from moldau.connect.transforms.routers import by_topic
from moldau.connect.values import python_values, timestamp_ms


class ExtractTopic(SideTransform):
    """Takes the topic's name from the key or value, or a field of it."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("field", SettingType.STRING, "The field (a.b is nested); empty: the whole.", ""),
        Setting(
            "skip.missing.or.null",
            SettingType.BOOLEAN,
            "A record without it keeps its topic; false: it is refused.",
            False,
            Importance.LOW,
        ),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """See Transform."""
        super().configure(settings)
        field = str(settings.get("field") or "")
        self._path = path_of(field, "V2") if field else ()

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        found = [found_in(each, self._path) for each in python_values(self.side(batch))]
        return _routed(batch, found, bool(self.config.get("skip.missing.or.null")), self.config.get("field"))

    def value(self, value: Any, row: int, batch: Batch) -> Any:
        """Not used."""
        return value

    def column(self, schema: Schema, array: pa.Array, batch: Batch) -> Column:
        """Not used."""
        return Column(schema, array)


class ExtractTopicHeader(Transform):
    """Takes the topic's name from a header."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("field", SettingType.STRING, "The header's name.", REQUIRED),
        ExtractTopic.settings[1],
    )

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        name = self.config["field"]
        found = [
            next((each.value for each in reversed(every) if each.key == name), None)
            for every in batch.headers or ((),) * len(batch)
        ]
        return _routed(batch, found, bool(self.config.get("skip.missing.or.null")), name)


def _routed(batch: Batch, found: Sequence[Any], skips: bool, what: Any) -> Sequence[Batch]:
    bad: list[tuple[int, str]] = []
    topics: list[str] = []
    for row, topic in enumerate(found):
        if isinstance(topic, str) and topic:
            topics.append(topic)
        elif skips and topic in (None, ""):
            topics.append(batch.topic)
        else:
            kind = java_class(topic)
            bad.append(
                (row, f"Failed to extract topic from {what or 'the record'}: found {kind}, not a text")
            )
    if bad:
        raise BadRecords(bad)
    return by_topic(batch, topics)


class MessageTimestampRouter(Transform):
    """Puts a moment that the value has into the topic's name."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "message.timestamp.keys",
            SettingType.LIST,
            "Fields with the moment (a.b is nested); the first that is there counts.",
            REQUIRED,
            Importance.HIGH,
        ),
        Setting(
            "message.timestamp.format",
            SettingType.STRING,
            "How it is written into the name (java.text.SimpleDateFormat), in UTC.",
            "yyyy-MM-dd",
            Importance.HIGH,
        ),
        Setting(
            "topic.format",
            SettingType.STRING,
            "The new name; ${topic} and ${timestamp} are put in.",
            "${topic}-${timestamp}",
            Importance.HIGH,
        ),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: the pattern is none."""
        super().configure(settings)
        self._paths = [path_of(each, "V2") for each in settings["message.timestamp.keys"]]
        self._dates = JavaDates(str(settings.get("message.timestamp.format") or "yyyy-MM-dd"))

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        pattern = str(self.config.get("topic.format") or "${topic}-${timestamp}")
        with_topic = pattern.replace("${topic}", batch.topic)
        topics: list[str] = []
        bad: list[tuple[int, str]] = []
        for row, value in enumerate(python_values(batch.value)):
            found = next((each for path in self._paths if (each := found_in(value, path)) is not None), None)
            try:
                topics.append(with_topic.replace("${timestamp}", self._dates.text_of(_moment_ms(found))))
            except (ValueError, OverflowError):
                bad.append(
                    (row, f"no moment in {self.config['message.timestamp.keys']}: found {found!r}"[:300])
                )
        if bad:
            raise BadRecords(bad)
        return by_topic(batch, topics)


def _moment_ms(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        return timestamp_ms(datetime.datetime.fromisoformat(value))
    if isinstance(value, datetime.datetime):
        return timestamp_ms(value)
    raise ValueError


ExtractTopicKey, ExtractTopicValue = sides(ExtractTopic)
