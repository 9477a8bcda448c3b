"""Lines of kafka-console-producer's standard input as records (Kafka's LineMessageReader).

[headers \\t][key \\t]value        headers: name:value,name:value        the separators are properties
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

from moldau.tools.kafka.java.java_split import split_as_java
from moldau.tools.kafka.problems import ToolError

PROPERTIES: dict[str, str] = {
    "parse.key": "false",
    "parse.headers": "false",
    "ignore.error": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "null.marker": "",
}
"""Name -> default."""

Header = tuple[str, str | bytes | None]


class Line(NamedTuple):
    """A record as it was typed."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


class LineReader:
    """Takes lines apart."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        values = PROPERTIES | {name: value for name, value in properties.items() if name in PROPERTIES}
        self._key, self._headers, self._forgives = (
            values[name].strip().lower() == "true" for name in ("parse.key", "parse.headers", "ignore.error")
        )
        self._key_separator = values["key.separator"].encode()
        self._headers_delimiter = values["headers.delimiter"].encode()
        self._headers_separator = values["headers.separator"].encode()
        self._pair_separator = values["headers.key.separator"].encode()
        marker = properties.get("null.marker")
        self._null = None if marker is None else marker.encode()
        self._number = 0
        _require_distinct(values, marker)

    def parse(self, line: bytes) -> Line:
        """Return a line's record. ToolError, with the line's number, where a separator is missing."""
        self._number += 1
        rest = line
        headers: bytes | None = None
        key = None
        if self._headers:
            headers, rest = self._split(rest, self._headers_delimiter, "headers delimiter")
        if self._key:
            found, rest = self._split(rest, self._key_separator, "key separator")
            key = None if found is None else self._unless_null(found)
        return Line(key, self._unless_null(rest), self._pairs(headers))

    def _split(self, text: bytes, separator: bytes, what: str) -> tuple[bytes | None, bytes]:
        first, found, rest = text.partition(separator)
        if found:
            return first, rest
        if self._forgives:
            return None, text
        shown = text.decode(errors="replace")
        raise ToolError(f"No {what} found on line number {self._number}: '{shown}'")

    def _pairs(self, text: bytes | None) -> list[Header]:
        if text is None or text == self._null:
            return []
        pairs: list[Header] = []
        for pair in split_as_java(text, self._headers_separator):
            name, found, value = pair.partition(self._pair_separator)
            if not found and not self._forgives:
                shown = pair.decode(errors="replace")
                raise ToolError(
                    f"No header key separator found in pair '{shown}' on line number {self._number}"
                )
            if found and name == self._null:
                marker = name.decode(errors="replace")
                raise ToolError(
                    f"Header keys should not be equal to the null marker '{marker}' as they can't be null"
                )
            pairs.append((name.decode(errors="replace"), self._unless_null(value) if found else None))
        return pairs

    def _unless_null(self, data: bytes) -> bytes | None:
        return None if data == self._null else data


def _require_distinct(values: Mapping[str, str], marker: str | None) -> None:
    """Raise ToolError, in Kafka's words, for two separators that are the same."""
    separators = ("headers.delimiter", "headers.separator", "headers.key.separator")
    for first, second in combinations(separators, 2):
        if values[first] == values[second]:
            raise ToolError(f"{first} and {second} may not be equal")
    for name in ("key.separator", "headers.separator", "headers.delimiter", "headers.key.separator"):
        if values[name] == marker:
            raise ToolError(f"null.marker and {name} may not be equal")
