"""The statement that reads what is new, by mode; a pure function of names and of where reading stands.

    incrementing             number > N                                              order by number
    timestamp                time > T and time < end                                 order by time
    timestamp+incrementing   time < end and (time > T or time = T and number > N)    order by time, number

`end` is the database's time less `timestamp.delay.interval.ms`: a row of the current moment waits, because
another of the same moment may come after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moldau.connect.connectors.jdbc.source_offset import Reached


class Columns(NamedTuple):
    """What the mode goes by, as expressions of the statement."""

    number: str | None
    time: str | None


def time_expression(dialect: str, names: Sequence[str]) -> str:
    """The first time that is not null; names are quoted."""
    one = names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"
    if dialect != "sqlite":
        return one
    numeric = f"strftime('%Y-%m-%d %H:%M:%f', {one} / 1000.0, 'unixepoch')"
    return f"CASE typeof({one}) WHEN 'integer' THEN {numeric} ELSE strftime('%Y-%m-%d %H:%M:%f', {one}) END"


def statement(
    source: str, columns: Columns, reached: Reached, end: Any, parameter: Callable[[Any], Any], suffix: str
) -> tuple[str, dict[str, Any]]:
    """SQL with named parameters, and those. `source`: behind FROM; `parameter`: an instant as the driver
    compares it."""
    number, time = columns
    conditions, order, values = [], [], {}
    if time is not None:
        order.append(time)
        conditions.append(f"{time} < :end")
        values["end"] = parameter(end)
        if reached.time is not None:
            values["time"] = parameter(reached.time)
            later = f"{time} > :time"
            if number is not None and reached.number is not None:
                later = f"({later} OR ({time} = :time AND {number} > :number))"
                values["number"] = reached.number
            conditions.append(later)
    elif number is not None and reached.number is not None:
        conditions.append(f"{number} > :number")
        values["number"] = reached.number
    if number is not None:
        order.append(number)
    text = f"SELECT * FROM {source}"
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    if order:
        text += f" ORDER BY {', '.join(order)}"
    return (f"{text} {suffix}" if suffix else text), values
