"""RegexRouter and TimestampRouter: the topic becomes another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from moldau.common.core.java_patterns import compile_java
from moldau.common.core.patterns import Match, PatternError
from moldau.connect.batch import Batch
from moldau.connect.errors import BadRecords, ConnectError
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.transform import Transform
from moldau.connect.transforms.java_dates import JavaDates
from moldau.connect.transforms.predicates import pattern_error

TargetT = TypeVar("TargetT")


def by_topic(batch: Batch, topics: Sequence[str]) -> Sequence[Batch]:
    """The batch in runs of records of one topic, each with its topic."""
    return [replace(run, topic=topic) for run, topic in in_runs(batch, topics)]


def in_runs(batch: Batch, targets: Sequence[TargetT]) -> list[tuple[Batch, TargetT]]:
    """The batch cut where the records' targets change."""
    made: list[tuple[Batch, TargetT]] = []
    first = 0
    for row in range(1, len(targets) + 1):
        if row == len(targets) or targets[row] != targets[first]:
            made.append((batch.slice(first, row - first), targets[first]))
            first = row
    return made


def group_names(pattern: str) -> dict[str, int]:
    """The numbers of a pattern's named groups."""
    made: dict[str, int] = {}
    count, at, in_class = 0, 0, 0
    while at < len(pattern):
        if pattern.startswith("\\Q", at):
            at = (pattern.find("\\E", at) + 1) or len(pattern)
        elif pattern[at] == "\\":
            at += 1
        elif pattern[at] in "[]":
            in_class += 1 if pattern[at] == "[" else -1
        elif pattern[at] == "(" and not in_class:
            name = _NAMED.match(pattern, at)
            if name is not None or pattern[at + 1 : at + 2] != "?":
                count += 1
            if name is not None:
                made[name[1]] = count
        at += 1
    return made


_NAMED = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_REFERENCE = re.compile(r"\$(?:([0-9])|\{([a-zA-Z][a-zA-Z0-9]*)\})")


def java_replacement(text: str, names: Mapping[str, int], count: int) -> Callable[[Match], str]:
    """A replacement of Java's ($1, ${name}, \\ before a sign that is meant as such), for a pattern with
    so many groups. ConnectError."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        if text[at] == "\\":
            if at + 1 >= len(text):
                raise ConnectError(
                    "the replacement ends with a backslash: character to be escaped is missing"
                )
            parts.append(text[at + 1])
            at += 2
        elif text[at] == "$":
            found = _REFERENCE.match(text, at)
            if found is None:
                raise ConnectError(f"the replacement {text!r}: a $ without a group; write \\$ for the sign")
            number = int(found[1]) if found[1] else names.get(found[2], count + 1)
            if number > count:
                raise ConnectError(f"the replacement {text!r}: there is no group {found[1] or found[2]}")
            parts.append(number)
            at = found.end()
        else:
            parts.append(text[at])
            at += 1

    def replaced(match: Match) -> str:
        return "".join((match[part] or "") if isinstance(part, int) else part for part in parts)

    return replaced


class RegexRouter(Transform):
    """Renames topics whose whole name matches a pattern."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "regex",
            SettingType.STRING,
            "A regular expression of Java's (run in RE2).",
            REQUIRED,
            Importance.HIGH,
            check=pattern_error,
        ),
        Setting(
            "replacement",
            SettingType.STRING,
            "The new name; $1 is the first group.",
            REQUIRED,
            Importance.HIGH,
        ),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: pattern or replacement are none."""
        super().configure(settings)
        try:
            self._pattern = compile_java(str(settings["regex"]), linear=True)
        except PatternError as error:
            raise ConnectError(f"regex={settings['regex']}: {error}") from None
        names = group_names(str(settings["regex"]))
        self._replaced = java_replacement(str(settings["replacement"]), names, self._pattern.groups)
        self._topics: dict[str, str] = {}

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        topic = self._topics.get(batch.topic)
        if topic is None:
            found = self._pattern.fullmatch(batch.topic)
            topic = batch.topic if found is None else self._replaced(found)
            if len(self._topics) > 10_000:
                self._topics.clear()
            self._topics[batch.topic] = topic
        return [replace(batch, topic=topic)]


class TimestampRouter(Transform):
    """Puts the record's time into the topic's name."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "topic.format",
            SettingType.STRING,
            "The new name; ${topic} and ${timestamp} are put in.",
            "${topic}-${timestamp}",
            Importance.HIGH,
        ),
        Setting(
            "timestamp.format",
            SettingType.STRING,
            "The time's pattern (java.text.SimpleDateFormat), in UTC.",
            "yyyyMMdd",
            Importance.HIGH,
        ),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: the pattern is none."""
        super().configure(settings)
        self._dates = JavaDates(str(settings.get("timestamp.format") or "yyyyMMdd"))
        self._format = str(settings.get("topic.format") or "${topic}-${timestamp}")

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        topics: list[str] = []
        bad: list[tuple[int, str]] = []
        with_topic = self._format.replace("${topic}", batch.topic)
        for row, time in enumerate(batch.timestamps_ms.to_pylist()):
            if time is None:
                bad.append((row, f"Timestamp missing on record: of topic {batch.topic}"))
                continue
            try:
                topics.append(with_topic.replace("${timestamp}", self._dates.text_of(time)))
            except OverflowError:
                bad.append((row, f"the timestamp {time} is outside of the years 1 to 9999"))
        if bad:
            raise BadRecords(bad)
        return by_topic(batch, topics)
