"""ByLogicalTableRouter: events of many tables (shards) into one topic, their keys told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from moldau.common.core.java_patterns import compile_java
from moldau.common.core.patterns import PatternError
from moldau.connect.batch import Batch, Column
from moldau.connect.errors import ConnectError
from moldau.connect.schema import Field, Schema, Type
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.structs import fields_of, struct_of
from moldau.connect.transform import Transform
from moldau.connect.transforms.predicates import pattern_error
from moldau.connect.transforms.routers import group_names, java_replacement


def _optional_pattern_error(value: Any) -> str | None:
    return None if value in (None, "") else pattern_error(value)


class ByLogicalTableRouter(Transform):
    """Renames topics by a pattern, and puts the table's name into the key."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "topic.regex",
            SettingType.STRING,
            "A regular expression of Java's for topics of tables.",
            REQUIRED,
            Importance.HIGH,
            check=pattern_error,
        ),
        Setting(
            "topic.replacement",
            SettingType.STRING,
            "The topic's new name; $1 is a group.",
            REQUIRED,
            Importance.HIGH,
        ),
        Setting(
            "key.enforce.uniqueness",
            SettingType.BOOLEAN,
            "Add a field with the table to the key, so that equal keys of two tables differ.",
            True,
        ),
        Setting(
            "key.field.name", SettingType.STRING, "The name of that field.", "__dbz__physicalTableIdentifier"
        ),
        Setting(
            "key.field.regex",
            SettingType.STRING,
            "A regular expression for the topic, to make that field's value of.",
            None,
            check=_optional_pattern_error,
        ),
        Setting("key.field.replacement", SettingType.STRING, "The value of that field.", None),
    )

    def configure(self, settings: Mapping[str, Any]) -> None:
        """ConnectError: a pattern or replacement is none."""
        super().configure(settings)
        self._topic = _Renaming(str(settings["topic.regex"]), str(settings["topic.replacement"]))
        pattern, replacement = settings.get("key.field.regex"), settings.get("key.field.replacement")
        if (pattern in (None, "")) is not (replacement in (None, "")):
            raise ConnectError("key.field.regex and key.field.replacement go together: give both")
        self._key = _Renaming(str(pattern), str(replacement)) if pattern else None
        self._field = str(settings.get("key.field.name") or "__dbz__physicalTableIdentifier")
        self._marks_keys = bool(settings.get("key.enforce.uniqueness", True))

    def apply(self, batch: Batch) -> Sequence[Batch]:
        """See Transform."""
        topic = self._topic.of(batch.topic)
        if topic is None:
            return [batch]
        value = batch.value
        if value.schema is not None and value.schema.type is Type.STRUCT:
            suffix = ".Envelope" if (value.schema.name or "").endswith(".Envelope") else ".Value"
            value = replace(value, schema=replace(value.schema, name=f"{topic}{suffix}"))
        key = self._marked(batch.key, batch.topic, topic) if self._marks_keys else batch.key
        return [replace(batch, topic=topic, key=key, value=value)]

    def _marked(self, key: Column, table: str, topic: str) -> Column:
        mark = table if self._key is None else self._key.of(table) or table
        schema, values = key.schema, key.values
        if isinstance(values, list):
            return Column(
                None, [each | {self._field: mark} if isinstance(each, dict) else each for each in values]
            )
        if schema is None or schema.type is not Type.STRUCT:
            return key
        fields = (*schema.fields, Field(self._field, Schema(Type.STRING)))
        made = replace(schema, name=f"{topic}.Key", fields=fields)
        columns = [*fields_of(values), pa.repeat(pa.scalar(mark), len(key))]
        return Column(made, struct_of(made, columns, values, len(key)))


class _Renaming:
    def __init__(self, pattern: str, replacement: str) -> None:
        try:
            self._pattern = compile_java(pattern, linear=True)
        except PatternError as error:
            raise ConnectError(f"the pattern {pattern}: {error}") from None
        self._replaced = java_replacement(replacement, group_names(pattern), self._pattern.groups)

    def of(self, name: str) -> str | None:
        """The new name, or None where the pattern does not match."""
        found = self._pattern.fullmatch(name)
        return None if found is None else self._replaced(found)
