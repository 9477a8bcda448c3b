"""Differences for people: what a registry's verbose messages say, and two texts line by line.

The messages are Confluent's: `{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'...',
additionalInfo:'...'}`, then lines about the earlier version and the level.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_MESSAGE = re.compile(
    r"""\{errorType:(['"])(?P<kind>\w+)\1,\s*description:(['"])(?P<text>.*?)\3"""
    r"""(?:,\s*additionalInfo:(['"])(?P<additional>.*)\5)?\}""",
    re.S,
)
_VERSION = re.compile(r"\{oldSchemaVersion: (\d+)\}")
_LEVEL = re.compile(r"compatibility: '(\w+)'")
_WORDS_OF_LEVELS = {
    "BACKWARD": "readers of the new schema must understand what the latest version wrote",
    "BACKWARD_TRANSITIVE": "readers of the new schema must understand what every version wrote",
    "FORWARD": "readers of the latest version must understand what the new schema writes",
    "FORWARD_TRANSITIVE": "readers of every version must understand what the new schema writes",
    "FULL": "the new schema and the latest version must understand each other",
    "FULL_TRANSITIVE": "the new schema and every version must understand each other",
}
_REMEDIES = {
    "READER_FIELD_MISSING_DEFAULT_VALUE": "give the new field a default",
    "TYPE_MISMATCH": "keep the type, or one that the old one can be promoted to (int, long, float, double)",
    "NAME_MISMATCH": "keep the name, or add the old one to `aliases`",
    "MISSING_ENUM_SYMBOLS": "keep the symbols, or give the enum a default",
    "MISSING_UNION_BRANCH": "keep the branches of the union",
    "FIELD_SCALAR_KIND_CHANGED": "give the field a new number and name instead of another type",
    "FIELD_NAME_TYPE_CHANGED": "give the field a new number and name instead of another type",
    "REQUIRED_FIELD_REMOVED": "keep the required field",
    "MESSAGE_REMOVED": "keep the message",
}


class Found(NamedTuple):
    """One difference, as a registry told it."""

    kind: str
    description: str
    additional: str

    @property
    def remedy(self) -> str:
        """What usually helps; "" where that depends."""
        return _REMEDIES.get(self.kind, "")


class Verdict(NamedTuple):
    """What a registry's messages say: differences, the version and level they are about, other lines."""

    differences: list[Found]
    version: int | None
    level: str | None
    other: list[str]

    @property
    def level_in_words(self) -> str:
        """What the level demands."""
        return _WORDS_OF_LEVELS.get(self.level or "", "")


def read_messages(messages: Iterable[str]) -> Verdict:
    """The verbose messages of a registry, taken apart."""
    differences, other = [], []
    version: int | None = None
    level: str | None = None
    for message in messages:
        match = _MESSAGE.fullmatch(message.strip())
        if match is not None:
            differences.append(Found(match["kind"], match["text"], match["additional"] or ""))
        elif (found := _VERSION.search(message)) is not None:
            version = int(found[1])
        elif (found := _LEVEL.search(message)) is not None:
            level = found[1]
        elif not message.startswith("{oldSchema:"):
            other.append(message)
    return Verdict(differences, version, level, other)


def pretty(text: str) -> str:
    """A schema as people read it: JSON indented, anything else as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text.rstrip("\n")


def line_differences(old: str, new: str, old_name: str, new_name: str) -> Sequence[str]:
    """The lines of a unified diff of two schemas; empty if they read the same."""
    return list(
        difflib.unified_diff(
            pretty(old).splitlines(), pretty(new).splitlines(), old_name, new_name, n=3, lineterm=""
        )
    )
