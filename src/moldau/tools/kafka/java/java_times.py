"""Moments and durations as Java's parsers take them, for kafka-consumer-groups.

2026-02-14T09:30:00.000      UTC, unless Z, +01, +0100 or +01:00 follows; the milliseconds must be there
P1D  PT2H30M  P1DT-0.5S      ISO 8601, days and below
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from moldau.tools.kafka.problems import ToolError

_MOMENT = re.compile(
    r"(?P<plain>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})(?:Z|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)?"
)
_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<d>[+-]?[0-9]+)D)?"
    r"(?P<time>T(?:(?P<h>[+-]?[0-9]+)H)?(?:(?P<m>[+-]?[0-9]+)M)?(?:(?P<s>[+-]?[0-9]+(?:[.,][0-9]{0,9})?)S)?)?",
    re.IGNORECASE,
)
_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_MS_MAX = 2**63


def moment_ms(text: str) -> int:
    """Return milliseconds since 1970. ToolError in Java's words."""
    if "T" not in text:
        raise ToolError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to "
            "ISO8601 format"
        )
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise _unparseable(text)
    offset = timedelta(hours=int(found["hours"] or 0), minutes=int(found["minutes"] or 0))
    try:
        zone = timezone(-offset if found["sign"] == "-" else offset) if found["sign"] else UTC
        moment = datetime.fromisoformat(found["plain"]).replace(tzinfo=zone)
    except ValueError:
        raise _unparseable(text) from None
    return round(moment.timestamp() * 1000)


def _unparseable(text: str) -> ToolError:
    """The error of Java, which has added the zone."""
    shown = text if re.search(r"(Z|[+-]\d\d(:?\d\d)?)$", text.partition("T")[2]) else f"{text}Z"
    return ToolError(f'java.text.ParseException: Unparseable date: "{shown}"')


def duration_ms(text: str) -> int:
    """Return milliseconds. ToolError in Java's words."""
    found = _DURATION.fullmatch(text)
    amounts = {unit: found[unit] for unit in _UNITS_MS if found[unit] is not None} if found else {}
    if found is None or not amounts or (found["time"] or "").upper() == "T":
        raise ToolError("Text cannot be parsed to a Duration")
    total = Decimal()
    for unit, amount in amounts.items():
        total += Decimal(amount.replace(",", ".")) * _UNITS_MS[unit]
    if abs(total) >= _MS_MAX:
        raise ToolError("Text cannot be parsed to a Duration: overflow")
    return round(-total if found["sign"] == "-" else total)
