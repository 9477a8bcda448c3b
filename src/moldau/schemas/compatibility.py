"""Levels of compatibility: which way a new schema must fit earlier versions, and which of them.

    BACKWARD   the new schema reads what the earlier one wrote     (consumers are updated first)
    FORWARD    the earlier schema reads what the new one writes    (producers are updated first)
    FULL       both
    ..._TRANSITIVE   not only with the latest version: with all

What differs is the languages' knowledge (`ParsedSchema.differences`); here is who reads whom, and the lines
in which Confluent's registry tells it (`verbose=true`, and the message of error 409).

Not here: which level a subject has, groups of versions that are compared (registry).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from moldau.schemas.schema import Difference, ParsedSchema, SchemaType

PRINTED_SCHEMA_CHARACTERS_MAX = 10 * 1024
"""Confluent's registry prints no more of the earlier schema in its messages."""

_OTHER_LANGUAGE = Difference("DIFFERENT_SCHEMA_TYPE", "", "Incompatible because of different schema type")


class Level(StrEnum):
    """The levels, by the names that Confluent's registry gives them."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def transitive(self) -> bool:
        """All versions are compared, not only the latest."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


class Policy(StrEnum):
    """How strictly JSON Schemas are compared (setting `compatibilityPolicy`): lenient lets properties come
    and go in content models that are open, though values can then clash."""

    STRICT = "STRICT"
    LENIENT = "LENIENT"


class Incompatibility(NamedTuple):
    """One reason why a new schema does not fit an earlier one."""

    difference: Difference
    reader: str
    """"new" or "old": which of the two cannot read what the other wrote."""
    previous: int
    """The earlier schema: its index in the list that was given to `check`."""


@runtime_checkable
class _HasPolicies(Protocol):
    def differences_lenient(self, writer: ParsedSchema) -> list[Difference]: ...


def check(
    level: Level, new: ParsedSchema, previous: Sequence[ParsedSchema], policy: Policy = Policy.STRICT
) -> list[Incompatibility]:
    """Why `new` may not follow the schemas in `previous` (oldest first); empty: it may.

    With a transitive level, the reasons are those of the latest version that does not fit. Heavy for large
    schemas: not on an event loop. TooComplex if a comparison would take too long.
    """
    if level is Level.NONE:
        return []
    count = len(previous)
    for index in range(count - 1, -1 if level.transitive else max(count - 2, -1), -1):
        found = _compare(level, new, previous[index], index, policy)
        if found:
            return found
    return []


def _compare(
    level: Level, new: ParsedSchema, old: ParsedSchema, index: int, policy: Policy
) -> list[Incompatibility]:
    if new.schema_type is not old.schema_type:
        return [Incompatibility(_OTHER_LANGUAGE, "new", index)]
    found: list[Incompatibility] = []
    if level.old_reads_new:
        found += [Incompatibility(each, "old", index) for each in _differences(old, new, policy)]
    if level.new_reads_old:
        found += [Incompatibility(each, "new", index) for each in _differences(new, old, policy)]
    return found


def _differences(reader: ParsedSchema, writer: ParsedSchema, policy: Policy) -> list[Difference]:
    if policy is Policy.LENIENT and isinstance(reader, _HasPolicies):
        return reader.differences_lenient(writer)
    return reader.differences(writer)


def messages(
    level: Level,
    found: Sequence[Incompatibility],
    previous: Sequence[ParsedSchema],
    versions: Sequence[int] = (),
    validate_fields: bool = False,
) -> list[str]:
    """What `check` found, in the lines of Confluent's registry.

    `previous` as given to `check`; `versions` are their versions. First the differences, then the earlier
    schema that they are about, then the level. Empty if nothing was found.
    """
    if not found:
        return []
    lines = [_line(each, previous[each.previous].schema_type) for each in found]
    about = found[-1].previous
    # As in Confluent's registry, the earlier schema is not named where only its part as the reader was
    # refused and the level is FULL, nor where it has another language.
    named = level is not Level.NONE and found[-1].difference is not _OTHER_LANGUAGE
    if named and (found[-1].reader == "new" or not level.new_reads_old):
        if about < len(versions):
            lines.append(f"{{oldSchemaVersion: {versions[about]}}}")
        lines.append(_old_schema(previous[about].canonical))
    lines.append(f"{{validateFields: '{str(validate_fields).lower()}', compatibility: '{level.value}'}}")
    return lines


def _line(each: Incompatibility, language: SchemaType) -> str:
    kind, _, description, additional = each.difference
    text = described(each)
    if each.difference is _OTHER_LANGUAGE:
        return f'{{errorType:"{kind}", description:"{description}", additionalInfo:""}}'
    if language is SchemaType.AVRO:
        return f"{{errorType:'{kind}', description:'{text}', additionalInfo:'{additional}'}}"
    return f'{{errorType:"{kind}", description:"{text}"}}'


def described(each: Incompatibility) -> str:
    """The sentence about a difference, with "new" and "old" where it tells the two schemas apart."""
    writer = "old" if each.reader == "new" else "new"
    return each.difference.description.replace("{reader}", each.reader).replace("{writer}", writer)


def _old_schema(canonical: str) -> str:
    if len(canonical) <= PRINTED_SCHEMA_CHARACTERS_MAX:
        return f"{{oldSchema: '{canonical}'}}"
    return f"{{oldSchema: <truncated> '{canonical[:PRINTED_SCHEMA_CHARACTERS_MAX]}...'}}"
