"""Kafka's predicates: which records a transform sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from moldau.common.core.java_patterns import compile_java
from moldau.common.core.patterns import PatternError
from moldau.connect.batch import Batch
from moldau.connect.building import is_null
from moldau.connect.errors import ConnectError
from moldau.connect.settings import REQUIRED, Setting, SettingType
from moldau.connect.transform import Predicate


def _empty(value: Any) -> str | None:
    return "String must be non-empty" if not value else None


def pattern_error(value: Any) -> str | None:
    """What is wrong with a pattern in Java's syntax, or None."""
    try:
        compile_java(str(value), linear=True)
    except PatternError as error:
        return f"Invalid regex: {error}"
    return None


class HasHeaderKey(Predicate):
    """True of records that have a header with this name."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("name", SettingType.STRING, "The header's name.", REQUIRED, check=_empty),
    )

    def test(self, batch: Batch) -> Sequence[bool]:
        """See Predicate."""
        if batch.headers is None:
            return [False] * len(batch)
        name = self.config["name"]
        return [any(each.key == name for each in headers) for headers in batch.headers]


class RecordIsTombstone(Predicate):
    """True of records whose value is null."""

    def test(self, batch: Batch) -> Sequence[bool]:
        """See Predicate."""
        return is_null(batch.value.values)


class TopicNameMatches(Predicate):
    """True of records of topics whose whole name matches a pattern."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "pattern",
            SettingType.STRING,
            "A regular expression of Java's for the topic's name (run in RE2).",
            REQUIRED,
            check=lambda value: _empty(value) or pattern_error(value),
        ),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: the pattern is none."""
        super().configure(settings)
        try:
            self._pattern = compile_java(str(settings["pattern"]), linear=True)
        except PatternError as error:
            raise ConnectError(f"pattern={settings['pattern']}: {error}") from None

    def test(self, batch: Batch) -> Sequence[bool]:
        """See Predicate."""
        return [self._pattern.fullmatch(batch.topic) is not None] * len(batch)
