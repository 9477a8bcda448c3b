"""Which schemas, tables and columns are captured: Debezium's include and exclude lists.

Each entry is a regular expression of a whole name, in any case: `schema`, `schema.table`,
`schema.table.column`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from moldau.common.core.java_patterns import compile_java
from moldau.common.core.patterns import Pattern, PatternError
from moldau.connect.settings import Importance, Setting, SettingType


def pattern_of(text: str) -> Pattern:
    """A pattern of Java's, in any case of letters, in linear time. PatternError."""
    return compile_java(f"(?i){text.strip()}", linear=True)


def _valid(value: Any) -> str | None:
    for each in value:
        try:
            pattern_of(each)
        except PatternError as error:
            return f"{each!r} is no regular expression: {error}"
    return None


def _list(name: str, doc: str) -> Setting:
    return Setting(name, SettingType.LIST, doc, [], Importance.HIGH, "Tables", check=_valid)


TABLE_SETTINGS = (
    _list(
        "table.include.list", "Regular expressions of `schema.table`: what is captured; empty: all tables."
    ),
    _list("table.exclude.list", "Regular expressions of `schema.table`: what is not captured."),
    _list(
        "column.include.list", "Regular expressions of `schema.table.column`: columns in records; empty: all."
    ),
    _list("column.exclude.list", "Regular expressions of `schema.table.column`: columns not in records."),
)


@lru_cache(maxsize=10_000)
def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(pattern_of(each).fullmatch(name) for each in patterns)


class Choice:
    """The lists of a connector. `level`: the name of what tables are in, `schema` or `database`."""

    def __init__(self, settings: Mapping[str, Any], level: str) -> None:
        self._lists: dict[str, tuple[str, ...]] = {
            f"{what}.{kind}": tuple(settings[f"{what}.{kind}.list"])
            for what in (level, "table", "column")
            for kind in ("include", "exclude")
        }
        self._level = level

    def _chosen(self, what: str, name: str) -> bool:
        included, excluded = self._lists[f"{what}.include"], self._lists[f"{what}.exclude"]
        return (not included or _matches(included, name)) and not _matches(excluded, name)

    def table(self, schema: str, table: str) -> bool:
        """Whether a table is captured."""
        return self._chosen(self._level, schema) and self._chosen("table", f"{schema}.{table}")

    def columns(self, schema: str, table: str, names: Sequence[str]) -> list[int]:
        """Which columns are in records."""
        return [
            place for place, name in enumerate(names) if self._chosen("column", f"{schema}.{table}.{name}")
        ]


def check_lists(settings: Mapping[str, Any], level: str) -> dict[str, list[str]]:
    """Include and exclude lists of one kind contradict one another."""
    wrong = {}
    for what in (level, "table", "column"):
        if settings[f"{what}.include.list"] and settings[f"{what}.exclude.list"]:
            name = f"{what}.exclude.list"
            wrong[name] = [f"{what}.include.list and {name} cannot be given together"]
    return wrong
