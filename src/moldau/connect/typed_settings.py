"""A plugin's settings as values: texts read as the types of its rows, and what is wrong with them.

    values, problems = typed(Weather.settings, {"url": "http://…", "city.names": "Prague,Brno"})

Types are read as Kafka's ConfigDef reads them, and the sentences are Kafka's. What no row names stays a text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.connect.errors import ConnectError
from moldau.connect.settings import REQUIRED, Setting, SettingType

_RANGES = {SettingType.SHORT: 15, SettingType.INT: 31, SettingType.LONG: 63}
_EXPECTED = {
    SettingType.BOOLEAN: "Expected value to be either true or false",
    SettingType.SHORT: "Not a number of type SHORT",
    SettingType.INT: "Not a number of type INT",
    SettingType.LONG: "Not a number of type LONG",
    SettingType.DOUBLE: "Not a number of type DOUBLE",
}


def typed(rows: Sequence[Setting], given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The values by name (texts that no row names among them), and sentences by the name they are about."""
    values: dict[str, Any] = dict(given)
    problems: dict[str, list[str]] = {}
    for row in rows:
        values[row.name], wrong = typed_value(row, given.get(row.name))
        if wrong is not None:
            problems[row.name] = [wrong]
    return values, problems


def required_typed(rows: Sequence[Setting], given: Mapping[str, str], owner: str) -> dict[str, Any]:
    """The values. ConnectError with all that is wrong; `owner` is whose settings they are."""
    values, problems = typed(rows, given)
    if problems:
        raise ConnectError(f"{owner}: " + "; ".join(each for found in problems.values() for each in found))
    return values


def typed_value(row: Setting, text: str | None) -> tuple[Any, str | None]:
    """The value of one setting, and what is wrong with it (the value is then None)."""
    if text is None:
        if row.default is REQUIRED:
            return None, f'Missing required configuration "{row.name}" which has no default value.'
        return row.default, None
    value = _parsed(row.type, text)
    if value is None:
        return None, _invalid(row, text, _EXPECTED[row.type])
    if row.choices:
        found = next((each for each in row.choices if each.lower() == str(value).lower()), None)
        if found is None:
            return None, _invalid(row, text, f"String must be one of: {', '.join(row.choices)}")
        value = found
    wrong = row.check(value) if row.check is not None else None
    return (value, None) if wrong is None else (None, _invalid(row, text, wrong))


def _invalid(row: Setting, text: str, reason: str) -> str:
    shown = "[hidden]" if row.type is SettingType.PASSWORD else text
    return f"Invalid value {shown} for configuration {row.name}: {reason}"


def _parsed(kind: SettingType, text: str) -> Any:
    if kind is SettingType.PASSWORD:
        return text
    text = text.strip()
    if kind is SettingType.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower())
    if kind is SettingType.LIST:
        return [each.strip() for each in text.split(",")] if text else []
    if kind is SettingType.DOUBLE:
        try:
            number = float(text)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    if kind in _RANGES:
        try:
            whole = int(text)
        except ValueError:
            return None
        return whole if -(2 ** _RANGES[kind]) <= whole < 2 ** _RANGES[kind] else None
    return text
