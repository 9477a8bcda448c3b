"""Timestamps and durations as users write them, parsed to milliseconds.

1700000000000  1700000000        milliseconds (13 digits) or seconds (9 or 10 digits) since 1970
2026-02-14  2026-02-14T09:30  2026-02-14T09:30:00.250+01:00      UTC unless a zone is given
1h30m  90s  3ms  7d  P1DT2H      durations; as a timestamp: that long ago, with or without a minus sign
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from moldau.tools.shared.errors import UsageError

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SIMPLE = re.compile(r"(?:(\d+(?:\.\d+)?)(ms|s|m|h|d|w))")
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.I
)


def parse_duration_ms(text: str) -> int:
    """Parse `1h30m`, `250ms` or ISO 8601's `PT1H30M`. Raises UsageError."""
    words = text.strip()
    if (iso := _ISO.fullmatch(words)) and any(iso.groups()):
        return round(
            sum(float(amount) * _UNITS_MS[unit] for unit, amount in iso.groupdict().items() if amount)
        )
    pieces = _SIMPLE.findall(words)
    if pieces and "".join(amount + unit for amount, unit in pieces) == words:
        return round(sum(float(amount) * _UNITS_MS[unit] for amount, unit in pieces))
    raise UsageError(f"{text!r} is not a duration: write for example 90s, 1h30m, 7d or PT1H30M")


def parse_moment_ms(text: str, now_ms: int) -> int:
    """Parse a timestamp (see the module's table) to milliseconds since 1970. Raises UsageError."""
    words = text.strip()
    if words == "now":
        return now_ms
    if words.isdigit() and len(words) == 13:
        return int(words)
    if words.isdigit() and len(words) in (9, 10):
        return int(words) * 1_000
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        pass
    else:
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
    try:
        return now_ms - parse_duration_ms(words.removeprefix("-"))
    except UsageError:
        raise UsageError(
            f"{text!r} is not a moment: write milliseconds (13 digits), a date such as 2026-02-14T09:30:00Z, "
            "or how long ago, such as 1h30m"
        ) from None
