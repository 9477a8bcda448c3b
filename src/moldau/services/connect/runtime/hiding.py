"""Secrets do not get into logs, status or errors: their values are replaced in every text that leaves a
task."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from moldau.connect.settings import Setting, SettingType

HIDDEN = "[hidden]"
_LENGTH_MIN = 3
_SUSPECT = re.compile(r"password|secret|token|credential|api[._-]?key|sasl\.jaas|private", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"://[^\s/:@]*:([^\s/@]+)@")


class Hiding:
    """Knows the secrets of one connector."""

    def __init__(self, config: Mapping[str, str], rows: Iterable[Setting] = ()) -> None:
        secret_names = {row.name for row in rows if row.type is SettingType.PASSWORD}
        found: set[str] = set()
        for name, value in config.items():
            is_secret = name in secret_names or _SUSPECT.search(name) is not None
            found |= {value} if is_secret else set()
            found |= set(_within(value, is_secret))
        found = {each for each in found if len(each) >= _LENGTH_MIN} - {"true", "false", "none"}
        self._secrets = sorted(found, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without them."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        return text


def _within(value: str, is_secret: bool) -> Iterator[str]:
    """Secrets that are parts of a value: passwords in addresses, and in a secret JSON document (of a tap, of
    dlt) what its names say."""
    for password in _IN_ADDRESS.findall(value):
        yield password
        yield unquote(password)
    if is_secret and value.lstrip().startswith(("{", "[")):
        try:
            yield from _leaves(json.loads(value), False)
        except (ValueError, RecursionError):
            return


def _leaves(value: Any, named: bool) -> Iterator[str]:
    """The texts below names that speak of a secret."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, named or _SUSPECT.search(name) is not None)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, named)
    elif named and isinstance(value, str):
        yield value


def filled_in(raw: Mapping[str, str], resolved: Mapping[str, str]) -> tuple[str, ...]:
    """What config providers filled in, the longest first: whole values, and of each the part in which it
    differs from what was given."""
    found: set[str] = set()
    for name, given in raw.items():
        value = resolved.get(name, given)
        if value != given:
            found |= {value, _difference(given, value)}
    return tuple(sorted((each for each in found if len(each) >= _LENGTH_MIN), key=len, reverse=True))


def _difference(given: str, value: str) -> str:
    start = _common(given, value)
    end = _common(given[start:][::-1], value[start:][::-1])
    return value[start : len(value) - end]


def _common(one: str, other: str) -> int:
    """How many characters they have in common at the beginning."""
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )


def without(secrets: Iterable[str], text: str) -> str:
    """The text with them hidden."""
    for each in secrets:
        text = text.replace(each, HIDDEN)
    return text
