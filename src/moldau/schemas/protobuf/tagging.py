"""Tags of Protobuf's messages and fields: `tags` of the options confluent.message_meta and field_meta."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.schemas.protobuf.elements import Field, Kind, Message, Option
from moldau.schemas.protobuf.normalizing import merged
from moldau.schemas.protobuf.parser import parse_text
from moldau.schemas.protobuf.printer import canonical_text
from moldau.schemas.schema import InvalidSchema
from moldau.schemas.tags import TagChange

_MESSAGE_META, _FIELD_META = "confluent.message_meta", "confluent.field_meta"
_TAGS = "tags"


def with_tags(canonical: str, changes: Sequence[TagChange]) -> str:
    """See moldau.schemas.tags."""
    file = parse_text(canonical)
    for change in changes:
        message, rest = _message(file.messages, change)
        if change.is_field:
            field = _field(message, rest, change)
            field.options = _changed(field.options, _FIELD_META, change)
        else:
            message.options = _changed(message.options, _MESSAGE_META, change)
    return canonical_text(file)


def _message(messages: Sequence[Message], change: TagChange) -> tuple[Message, list[str]]:
    """The message, and what is left of a field's path: its name, or a oneof and its name."""
    steps, found = change.steps, None
    while steps:
        inner = next((each for each in messages if each.name == steps[0]), None)
        if inner is None or (change.is_field and len(steps) == 1):
            break
        found, messages = inner, [each for each in inner.types if isinstance(each, Message)]
        steps = steps[1:]
    if found is None or len(steps) > (2 if change.is_field else 0):
        name = steps[0] if steps else change.path
        raise InvalidSchema(f"No matching Message with name '{name}' found in the schema")
    return found, steps


def _field(message: Message, steps: list[str], change: TagChange) -> Field:
    if len(steps) == 1:
        fields = [*message.fields, *(field for one_of in message.one_ofs for field in one_of.fields)]
    else:
        fields = [field for each in message.one_ofs if each.name == steps[0] for field in each.fields]
    for field in fields:
        if field.name == steps[-1]:
            return field
    raise InvalidSchema(f"No matching Field with name '{change.steps[-1]}' found in the schema")


def _changed(options: Sequence[Option], name: str, change: TagChange) -> list[Option]:
    """The options, those of this name made one map."""
    ours = [each for each in options if each.name.removeprefix(".") == name]
    values = {}
    if ours:
        meta = merged(ours)
        if meta.kind is not Kind.MAP:
            raise InvalidSchema(f"The option ({name}) is no map")
        values = dict(meta.value)
    before = values.pop(_TAGS, [])
    if tags := change.applied([str(each) for each in (before if isinstance(before, list) else [before])]):
        values[_TAGS] = tags
    others = [each for each in options if each not in ours]
    return [*others, Option(name, Kind.MAP, values, parenthesized=True)] if values else others
