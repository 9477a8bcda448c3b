"""Names of nested fields: `field.syntax.version=V2` (KIP-821).

a.b.c          field c of b of a
`a.b`.c        field c of a field named "a.b"
a\\`.b          a backslash before a backtick that is meant as such
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.connect.errors import ConnectError
from moldau.connect.settings import Importance, Setting, SettingType

SYNTAX = Setting(
    "field.syntax.version",
    SettingType.STRING,
    "V1: names are those of fields at the top. V2: dots lead to nested fields; names with dots stand in `.",
    "V1",
    Importance.HIGH,
    choices=("V1", "V2"),
)


def path_of(text: str, version: Any) -> tuple[str, ...]:
    """The names that lead to a field. ConnectError: backticks without an end."""
    if str(version or "V1").upper() != "V2":
        return (text,)
    made: list[str] = []
    at, end = 0, len(text)
    while at <= end:
        if text[at : at + 1] == "`":
            name, at = _quoted(text, at + 1)
        else:
            stop = text.find(".", at)
            stop = end if stop < 0 else stop
            name, at = text[at:stop].replace("\\`", "`"), stop
        made.append(name)
        at += 1
    return tuple(made)


def _quoted(text: str, at: int) -> tuple[str, int]:
    made = []
    while at < len(text):
        if text.startswith("\\`", at):
            made.append("`")
            at += 2
        elif text[at] == "`" and (at + 1 == len(text) or text[at + 1] == "."):
            return "".join(made), at + 1
        else:
            made.append(text[at])
            at += 1
    raise ConnectError(f"Incomplete backtick pair in path: [{text}]")


def found_in(value: Any, path: Sequence[str]) -> Any:
    """What a path leads to in a value without schema; None: nothing."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
