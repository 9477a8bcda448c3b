"""A connector's settings as rows: what validates them, and what a user interface makes a form of.

The names of types, importances and widths are Kafka's (ConfigDef): they are in the answers of
`/config/validate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class SettingType(Enum):
    """What a setting's text is read as."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(Enum):
    """Which settings a user has to look at first."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """How wide an entry field is."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()
"""As a default: the setting must be given."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a connector, converter, transform or predicate."""

    name: str
    type: SettingType
    doc: str
    default: Any = REQUIRED
    """None: may be left out, and is None then."""
    importance: Importance = Importance.MEDIUM
    group: str | None = None
    display_name: str | None = None
    width: Width = Width.NONE
    order: int = -1
    dependents: Sequence[str] = ()
    choices: Sequence[str] = ()
    """The only valid values (any case), if there are any; also what is recommended."""
    check: Callable[[Any], str | None] | None = None
    """Given the parsed value: what is wrong with it, or None."""
    recommend: Callable[[Mapping[str, str]], Sequence[Any]] | None = None
    """Given all settings: values to offer."""
    without_effect: str = ""
    """Taken because another product's connector has it, and why it does nothing here; told in validate and
    log."""
