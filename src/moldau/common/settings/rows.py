"""One row of a settings table: the name as Kafka spells it, type, default, check, scope, synonyms,
documentation.

A value has two forms. Text is what files, the environment and the Kafka protocol carry; the parsed value is
what the code uses (`int`, `bool`, `str`, `float`, a tuple of strings, or None where the setting may be
unset). `Setting.parse` leads from text to value or raises `SettingError`, whose sentence says what was wrong
and what would be right; `Setting.text` leads back.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any


class Kind(IntEnum):
    """The type of a setting, numbered as DescribeConfigs reports it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(IntEnum):
    """Whether a broker setting may change while the broker runs, and for whom."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2

    @property
    def label(self) -> str:
        """The term of Kafka's documentation."""
        return self.name.lower().replace("_", "-")


class SettingError(ValueError):
    """An invalid value; the message is a sentence for the user."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name
        self.sentence = sentence


Check = Callable[[Any], str | None]
"""Returns None for a good value, else what is wrong with it."""


class Guard:
    """The check of a setting that would protect something, had it an effect: it refuses what Moldau cannot
    do."""

    __slots__ = ("_complaint",)

    def __init__(self, complaint: Check) -> None:
        self._complaint = complaint

    def __call__(self, value: Any) -> str | None:
        return self._complaint(value)


MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
SEGMENT_BYTES_MIN = 1_048_576
"""The smallest segment.bytes that a topic may have."""
_RANGES = {
    Kind.SHORT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), MAX_INT),
    Kind.LONG: (-(2**63), MAX_LONG),
}


class Setting:
    """One row. The table sets `name` from the attribute that the row is assigned to."""

    __slots__ = (
        "attribute",
        "check",
        "default",
        "documentation",
        "effective",
        "kind",
        "name",
        "nullable",
        "scope",
        "synonyms",
        "valid",
    )

    def __init__(
        self,
        kind: Kind,
        default: Any,
        documentation: str,
        check: Check | None = None,
        valid: str = "",
        scope: Scope = Scope.READ_ONLY,
        synonyms: tuple[str, ...] = (),
        effective: bool = True,
    ) -> None:
        self.kind = kind
        self.default = default
        self.documentation = documentation
        self.check = check
        self.valid = valid
        self.scope = scope
        self.synonyms = synonyms
        self.effective = effective
        self.nullable = default is None
        self.name = ""
        self.attribute = ""

    @property
    def sensitive(self) -> bool:
        """Whether the value is secret."""
        return self.kind is Kind.PASSWORD

    @property
    def help(self) -> str:
        """The documentation sentence, which says so if the setting has no effect."""
        if self.effective or isinstance(self.check, Guard):
            return self.documentation
        return f"{self.documentation} Accepted for compatibility; it has no effect in this version of Moldau."

    def parse(self, text: str) -> Any:
        """The parsed and checked value of `text`. SettingError."""
        try:
            value = parsed(self.kind, text.strip())
        except ValueError as error:
            raise self._error(text, str(error)) from None
        if self.check is not None and (complaint := self.check(value)) is not None:
            raise self._error(text, complaint)
        return value

    def text(self, value: Any) -> str | None:
        """The text form of a value, as it is stored and described."""
        if value is None:
            return None
        if self.kind is Kind.BOOLEAN:
            return "true" if value else "false"
        if self.kind is Kind.LIST:
            return ",".join(value)
        return str(value)

    def _error(self, text: str, complaint: str) -> SettingError:
        shown = "[hidden]" if self.sensitive else text
        return SettingError(self.name, f"Invalid value {shown} for configuration {self.name}: {complaint}")


def parsed(kind: Kind, text: str) -> Any:
    """The value of a text of this kind, not checked. ValueError."""
    if kind is Kind.BOOLEAN:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError("Expected value to be either true or false")
    if kind is Kind.LIST:
        return tuple(part.strip() for part in text.split(",")) if text else ()
    if kind is Kind.DOUBLE:
        try:
            return float(text)
        except ValueError:
            raise ValueError("Not a number of type DOUBLE") from None
    if kind in _RANGES:
        low, high = _RANGES[kind]
        digits = text[1:] if text[:1] in "+-" else text
        if not (digits.isascii() and digits.isdigit()) or not low <= int(text) <= high:
            raise ValueError(f"Not a number of type {kind.name}")
        return int(text)
    return text
