"""Patterns of java.text.SimpleDateFormat, in UTC: dates as texts and texts as dates.

    y year  M month (MMM Jan, MMMM January)  d day  D day of the year  E weekday  u weekday (1 Monday)
    H hour 0-23  k 1-24  K 0-11  h 1-12  m minute  s second  S millisecond  a AM/PM
    z zone's name  Z +0100  X Z or +01 (XX +0100, XXX +01:00)     '...' text, '' an apostrophe

Not here: weeks (w, W, F), eras (G), other languages than English.
"""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from moldau.common.core.patterns import Pattern, compile_pattern
from moldau.connect.errors import ConnectError

_MONTHS = list(calendar.month_name)[1:]
_DAYS = list(calendar.day_name)
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class NoDate(ValueError):
    """A text is no date of a pattern."""


class JavaDates:
    """One pattern. ConnectError: it cannot be understood."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._tokens = _tokens(pattern)
        self._reader: tuple[Pattern, Sequence[str]] | None = None
        self.text_of: Callable[[int], str] = lru_cache(maxsize=1024)(self._text_of)

    def _text_of(self, milliseconds: int) -> str:
        """The text of a moment (milliseconds since 1970). OverflowError: a year that Python does not have."""
        moment = EPOCH + datetime.timedelta(milliseconds=milliseconds)
        return "".join(
            token if letter == "'" else _written(letter, len(token), moment) for letter, token in self._tokens
        )

    def milliseconds_of(self, text: str) -> int:
        """The moment that a text means; what is behind it is ignored, as Java does. NoDate."""
        if self._reader is None:
            self._reader = _reader(self._tokens)
        pattern, names = self._reader
        found = pattern.search(text)
        if found is None:
            raise NoDate
        try:
            return _moment({name: found[name] or "" for name in names})
        except (ValueError, OverflowError):
            raise NoDate from None


def _tokens(pattern: str) -> list[tuple[str, str]]:
    made: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("''", at):
            made.append(("'", "'"))
            at += 2
            continue
        found = _TOKEN.match(pattern, at)
        if found is None:
            raise ConnectError(f"the date pattern {pattern!r} has an apostrophe without an end")
        if found[2]:
            if found[2] not in "yYMLdDEuHkKhmsSazZX":
                raise ConnectError(f"the date pattern {pattern!r}: the letter {found[2]} is not known here")
            made.append((found[2], found[0]))
        else:
            made.append(("'", found[1].replace("''", "'") if found[3] is None else found[3]))
        at = found.end()
    return made


def _written(letter: str, count: int, moment: datetime.datetime) -> str:
    if letter in "yY":
        return f"{moment.year % 100:02d}" if count == 2 else str(moment.year).zfill(count)
    if letter in "ML":
        if count >= 3:
            return _MONTHS[moment.month - 1][: 3 if count == 3 else None]
        return str(moment.month).zfill(count)
    if letter == "E":
        return _DAYS[moment.weekday()][: 3 if count < 4 else None]
    if letter == "a":
        return "AM" if moment.hour < 12 else "PM"
    if letter == "z":
        return "UTC" if count < 4 else "Coordinated Universal Time"
    if letter in "ZX":
        return "Z" if letter == "X" else "+0000"
    number = {
        "d": moment.day,
        "D": moment.timetuple().tm_yday,
        "u": moment.isoweekday(),
        "H": moment.hour,
        "k": moment.hour or 24,
        "K": moment.hour % 12,
        "h": moment.hour % 12 or 12,
        "m": moment.minute,
        "s": moment.second,
        "S": moment.microsecond // 1000,
    }[letter]
    return str(number).zfill(count)


def _reader(tokens: list[tuple[str, str]]) -> tuple[Pattern, Sequence[str]]:
    """Numbers of a fixed width where another number follows at once, else of any."""
    made: list[str] = []
    names: list[str] = []
    for index, (letter, token) in enumerate(tokens):
        if letter == "'":
            made.append(re.escape(token))
            continue
        follows = index + 1 < len(tokens) and tokens[index + 1][0] in "yYdDuHkKhmsSM"
        width = f"{{{len(token)}}}" if follows else "{1,18}"
        if (letter in "ML" and len(token) >= 3) or letter == "E":
            inner = "[A-Za-z]{3,9}"
        elif letter == "a":
            inner = "[AaPp][Mm]"
        elif letter in "zZX":
            inner = r"Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?"
        else:
            inner = f"-?[0-9]{width}" if letter in "yY" else f"[0-9]{width}"
        name = {"Y": "y", "L": "M", "Z": "z", "X": "z"}.get(letter, letter)
        names.append(f"{name}_{index}")
        made.append(f"(?P<{name}_{index}>{inner})")
    return compile_pattern(r"^\s*" + "".join(made)), names


def _moment(found: dict[str, str]) -> int:
    given = {name[0]: (text, int(name.partition("_")[2])) for name, text in found.items()}

    def number(letter: str, default: int) -> int:
        return int(given[letter][0]) if letter in given else default

    year = number("y", 1970)
    if "y" in given and len(given["y"][0]) == 2:
        year += 2000 if 2000 + year <= datetime.date.today().year + 20 else 1900
    month = _month(given["M"][0]) if "M" in given else 1
    hour = number("H", number("k", 0) % 24)
    if "h" in given or "K" in given:
        hour = number("h", number("K", 0)) % 12
        hour += 12 if "a" in given and given["a"][0].lower() == "pm" else 0
    days = datetime.date(year, 1, 1).toordinal() - EPOCH.date().toordinal()
    if "D" in given:
        days += number("D", 1) - 1
    else:  # Java is lenient: the 40th day of January is in February
        years, month = divmod(month - 1, 12)
        first = datetime.date(year + years, month + 1, 1)
        days = first.toordinal() - EPOCH.date().toordinal() + number("d", 1) - 1
    seconds = ((days * 24 + hour) * 60 + number("m", 0)) * 60 + number("s", 0)
    return (seconds - _zone_seconds(given["z"][0] if "z" in given else "Z")) * 1000 + number("S", 0)


def _month(text: str) -> int:
    if text.isdigit():
        return int(text)
    for index, name in enumerate(_MONTHS, 1):
        if text.lower() in (name.lower(), name[:3].lower()):
            return index
    raise NoDate


def _zone_seconds(text: str) -> int:
    if text in ("Z", "UTC", "GMT"):
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    seconds = (int(digits[:2]) * 60 + int(digits[2:])) * 60
    return -seconds if text[0] == "-" else seconds
