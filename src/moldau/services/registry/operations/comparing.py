"""Compatibility: whether a schema may follow the versions of a subject."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.schemas.schema import ParsedSchema, SchemaType
from moldau.services.registry.operations.core import (
    Core,
    find_version,
    parse_version_number,
    version_not_found,
)
from moldau.services.registry.operations.request import parse_request, parse_schema
from moldau.services.registry.operations.scope import (
    config_in_scope,
    level_of,
    normalizes,
    policy_of,
    validates_fields,
)
from moldau.services.registry.parsing import Parsed
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.body import Version
from moldau.services.registry.state.document import Document

_RESERVED = "confluent:reserved"


def compatibility(
    core: Core,
    subject: str,
    version: str | None,
    raw: Mapping[str, Any],
    *,
    normalize: bool,
    verbose: bool,
) -> dict[str, Any]:
    """Whether a request's schema fits a version, or (None) those that the level names. RegistryProblem; a
    schema that is not valid is one that does not fit, if `verbose`, as in Confluent's registry.
    """
    request = parse_request(raw)
    if version is None:
        previous = [each for each in core.state.versions(subject) if not each.deleted]
    else:
        number = parse_version_number(version)
        found = find_version(core, subject, number, deleted=False)
        if found is None and number is not None:
            raise version_not_found(number)
        previous = [] if found is None else [found]
    try:
        parsed = parse_schema(core, subject, request, is_new=True)
        if normalizes(core, subject, normalize):
            text = parsed.normalized()
            parsed = core.parser.parse(subject, request.schema_type, text, request.references)
        lines = incompatible_lines(core, subject, parsed, request.metadata, previous)
    except RegistryProblem as problem:
        if not verbose or problem.error_code != Code.INVALID_SCHEMA:
            raise
        lines = [problem.message]
    return {"is_compatible": not lines, **({"messages": lines} if verbose else {})}


def incompatible_lines(
    core: Core,
    subject: str,
    new: Parsed,
    metadata: Document | None,
    previous: Sequence[Version],
) -> list[str]:
    """Why a schema may not follow these versions (oldest first), in Confluent's lines; empty: it may."""
    config = config_in_scope(core, subject)
    level, checks_fields = level_of(core, config), validates_fields(core, config)
    lines = _reserved_lines(core, new.schema, metadata, previous) if checks_fields else []
    group = config.get("compatibilityGroup")
    if isinstance(group, str) and group:
        value = _property(metadata, group)
        previous = [each for each in previous if _property(each.body.metadata, group) == value]
    if not level.transitive:
        previous = previous[-1:]
    found = core.parser.incompatible_lines(level, policy_of(config), new, previous, checks_fields)
    lines += found
    if lines and not found:
        flag = str(checks_fields).lower()
        lines.append(f"{{validateFields: '{flag}', compatibility: '{level.value}'}}")
    return lines


def _property(metadata: Document | None, name: str) -> str | None:
    found = (metadata or {}).get("properties", {}).get(name)
    return None if found is None else str(found)


def _reserved_lines(
    core: Core, new: ParsedSchema, metadata: Document | None, previous: Sequence[Version]
) -> list[str]:
    """Reserved fields (confluent:reserved) stay reserved, and no schema has them."""
    reserved = _reserved(metadata)
    before = _reserved(previous[-1].body.metadata) if previous else set()
    lines = [
        f"The new schema has reserved field {field} removed from its metadata which is present in the old "
        "schema's metadata."
        for field in sorted(before - reserved)
    ]
    return lines + [
        f"The new schema has field that conflicts with the reserved field {field}."
        for field in sorted(reserved & _top_level_fields(new))
    ]


def _reserved(metadata: Document | None) -> set[str]:
    text = _property(metadata, _RESERVED) or ""
    return {field.strip() for field in text.split(",") if field.strip()}


def _top_level_fields(schema: ParsedSchema) -> set[str]:
    """The names of the fields of a record, the properties of an object, the fields of a message."""
    if schema.schema_type is SchemaType.PROTOBUF:
        from moldau.schemas.protobuf.parsed import ProtobufSchema

        assert isinstance(schema, ProtobufSchema)
        messages = schema.file.messages[:1]
        choices = [one_of.fields for message in messages for one_of in message.one_ofs]
        fields = [*(message.fields for message in messages), *choices]
        return {field.name for part in fields for field in part}
    found = json.loads(schema.canonical)
    if not isinstance(found, dict):
        return set()
    if schema.schema_type is SchemaType.JSON:
        properties = found.get("properties")
        return set(properties) if isinstance(properties, dict) else set()
    return {field["name"] for field in found.get("fields", ()) if isinstance(field, dict)}
