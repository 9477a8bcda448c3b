"""Converters: a record's bytes <-> a column with or without schema. Of keys and values alike, a whole run at
a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from moldau.connect.batch import Column, Header
from moldau.connect.settings import Setting


class Converted(NamedTuple):
    """Consecutive payloads of one schema."""

    first: int
    """The row of the first one."""
    column: Column


class Refused(NamedTuple):
    """A payload that cannot be converted."""

    row: int
    reason: str


class Converter(ABC):
    """Base of converters. Configured once, then used by one thread."""

    settings: ClassVar[Sequence[Setting]] = ()
    version: ClassVar[str] = "1"

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        """`settings`: those behind `key.converter.` or `value.converter.`, typed."""
        self.config = settings
        self.is_key = is_key

    @abstractmethod
    def to_columns(self, topic: str, payloads: pa.Array) -> tuple[Sequence[Converted], Sequence[Refused]]:
        """From binary (null: a tombstone, or no key). Rows that are refused are in no column; the runs are
        in order."""

    @abstractmethod
    def to_payloads(self, topic: str, column: Column) -> tuple[pa.Array, Sequence[Refused]]:
        """To binary, a row a row (refused ones are null there). Retriable where a registry is away."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections."""


class HeaderConverter(ABC):
    """Base of header converters: one header at a time, since a record has few, and they repeat."""

    settings: ClassVar[Sequence[Setting]] = ()
    version: ClassVar[str] = "1"

    def configure(self, settings: Mapping[str, Any]) -> None:
        """`settings`: those behind `header.converter.`, typed."""
        self.config = settings

    @abstractmethod
    def to_header(self, topic: str, name: str, payload: bytes | None) -> Header:
        """From a header's bytes. BadRecord: they cannot be converted."""

    @abstractmethod
    def to_payload(self, topic: str, header: Header) -> bytes | None:
        """To a header's bytes. BadRecord."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections."""
