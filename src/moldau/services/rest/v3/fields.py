"""Fields of JSON objects that clients send: present or not, of the right type, within limits.

Every function takes an object and a field's name, and raises HttpProblem 400 in a sentence that names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.services.http.problems import HttpProblem
from moldau.services.rest import embedded

INT32_MAX = 2**31 - 1
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")


def text(data: Mapping[str, Any], name: str) -> str:
    """A text that must be there."""
    found = optional_text(data, name)
    if found is None:
        raise HttpProblem(400, f"{name} is missing.")
    return found


def optional_text(data: Mapping[str, Any], name: str) -> str | None:
    """A text, or None where it is null or absent."""
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise HttpProblem(400, f"{name} must be a text, and not {shown(value)}.")
    return value


def optional_scalar(data: Mapping[str, Any], name: str) -> str | None:
    """As `optional_text`; also the text of a number, true or false, as Jackson reads them."""
    value = data.get(name)
    return json.dumps(value) if isinstance(value, int | float) else optional_text(data, name)


def optional_number(data: Mapping[str, Any], name: str, least: int = -1, most: int = INT32_MAX) -> int | None:
    """A whole number, or None where it is null or absent."""
    value = data.get(name)
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):  # as Jackson reads it
        value = int(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise HttpProblem(400, f"{name} must be a whole number, and not {shown(value)}.")
    if not least <= value <= most:
        raise HttpProblem(400, f"{name} must lie between {least} and {most}, and not be {value}.")
    return value


def known(data: dict[str, Any], names: Sequence[str], what: str) -> dict[str, Any]:
    """The object, which has no other fields: a misspelt validate_only would change what was to be tried."""
    for name in data:
        if name not in names:
            raise HttpProblem(
                400, f"{what} has a field {shown(name)} that is not known: there are {', '.join(names)}."
            )
    return data


def flag(data: Mapping[str, Any], name: str) -> bool:
    """True or false; false where it is null or absent."""
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise HttpProblem(400, f"{name} must be true or false, and not {shown(value)}.")
    return bool(value)


def objects(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects; empty where it is null or absent."""
    value = data.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise HttpProblem(400, f"{name} must be a list of objects.")
    return value


def optional_object(data: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """An object, or None where it is null or absent."""
    value = data.get(name)
    if value is not None and not isinstance(value, dict):
        raise HttpProblem(400, f"{name} must be an object, and not {shown(value)}.")
    return value


def numbers(data: Mapping[str, Any], name: str) -> list[int]:
    """A list of whole numbers that must be there."""
    value = data.get(name)
    if not isinstance(value, list) or not all(
        isinstance(each, int) and not isinstance(each, bool) and 0 <= each <= INT32_MAX for each in value
    ):
        raise HttpProblem(400, f"{name} must be a list of whole numbers.")
    return value


def shown(value: Any) -> str:
    """A value in an error message, shortened."""
    words = repr(value[:60]) if isinstance(value, str) else embedded.shown(value)
    return words if len(words) <= 40 else words[:37] + "..."
