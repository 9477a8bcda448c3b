"""Dates of PostgreSQL that Python has not (before Christ, beyond 9999, infinity): as texts, so that the row
is refused, and not the result that it is in."""

from __future__ import annotations

from typing import Any


def register_loaders(connection: Any) -> None:
    """With a connection of psycopg."""
    from psycopg import DataError
    from psycopg.types import datetime as types

    def tolerant(base: type[Any]) -> type[Any]:
        class Tolerant(base):  # type: ignore[misc]
            def load(self, data: Any) -> Any:
                try:
                    return super().load(data)
                except DataError:
                    return bytes(data).decode()

        return Tolerant

    for name, base in (
        ("date", types.DateLoader), ("timestamp", types.TimestampLoader),
        ("timestamptz", types.TimestamptzLoader), ("time", types.TimeLoader),
    ):  # fmt: skip
        connection.adapters.register_loader(name, tolerant(base))
