"""The shape of `PUT /connector-plugins/…/config/validate`: what user interfaces make their forms of.

{name, error_count, groups, configs: [{definition: {name, type, required, default_value, …},
                                        value: {name, value, recommended_values, errors, visible}}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.connect.settings import REQUIRED, Setting, SettingType
from moldau.services.connect.runtime.hiding import without

HIDDEN = "[hidden]"


@dataclass(slots=True)
class Value:
    """One setting's row of an answer."""

    row: Setting
    name: str
    """With the prefix under which it stands in the configuration."""
    value: str | None = None
    """As text; secrets are hidden."""
    recommended: Sequence[str] = ()
    errors: list[str] = field(default_factory=list)
    group: str | None = None
    order: int = -1


@dataclass(slots=True)
class Infos:
    """An answer while it grows; each name has one row."""

    name: str
    values: dict[str, Value] = field(default_factory=dict)

    @property
    def error_count(self) -> int:
        """As Kafka counts: all sentences."""
        return sum(len(each.errors) for each in self.values.values())

    def add(self, value: Value) -> None:
        """A row; one of the same name keeps its place and its errors."""
        before = self.values.get(value.name)
        if before is not None:
            before.errors += value.errors
            return
        self.values[value.name] = value

    def blame(self, name: str, sentence: str, otherwise: str = "connector.class") -> None:
        """An error at a setting, or where the answer does not have it at another."""
        (self.values.get(name) or self.values[otherwise]).errors.append(sentence)

    def is_blamed(self, name: str) -> bool:
        """Whether there is an error at this setting."""
        value = self.values.get(name)
        return value is not None and bool(value.errors)

    def sentences(self) -> list[str]:
        """All errors."""
        return [sentence for value in self.values.values() for sentence in value.errors]

    def hide(self, secrets: Sequence[str]) -> None:
        """What was filled in for references is in no text of the answer, whatever a check has said."""
        if not secrets:
            return
        self.name = without(secrets, self.name)
        for each in self.values.values():
            each.value = None if each.value is None else without(secrets, each.value)
            each.errors = [without(secrets, sentence) for sentence in each.errors]
            each.recommended = [without(secrets, text) for text in each.recommended]

    def as_json(self) -> dict[str, Any]:
        """The answer's body."""
        groups = dict.fromkeys(value.group for value in self.values.values() if value.group)
        return {
            "name": self.name,
            "error_count": self.error_count,
            "groups": list(groups),
            "configs": [_config(value) for value in self.values.values()],
        }


def _config(value: Value) -> Mapping[str, Any]:
    return {
        "definition": definition(value.row, value.name, value.group, value.order),
        "value": {
            "name": value.name,
            "value": value.value,
            "recommended_values": list(value.recommended),
            "errors": value.errors,
            "visible": True,
        },
    }


def definition(row: Setting, name: str, group: str | None, order: int) -> dict[str, Any]:
    """One row as `GET /connector-plugins/…/config` has it."""
    doc = row.doc if not row.without_effect else f"{row.doc} (No effect here: {row.without_effect}.)"
    return {
        "name": name,
        "type": row.type.value,
        "required": row.default is REQUIRED,
        "default_value": None if row.default is REQUIRED else text_of(row.default, row.type),
        "importance": row.importance.value,
        "documentation": doc,
        "group": group,
        "width": row.width.value,
        "display_name": row.display_name or name,
        "dependents": list(row.dependents),
        "order": order,
    }


def text_of(value: Any, kind: SettingType) -> str | None:
    """A value as Kafka writes it."""
    if value is None:
        return None
    if kind is SettingType.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
