"""Registration: what is written for a schema that comes in, and which id it has.

    mode -> text and metadata taken over -> parse -> there already? -> compatible? -> records

In import modes a schema keeps the id and version that it had elsewhere, and is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from moldau.services.registry.names import DEFAULT_CONTEXT, context_of, qualify
from moldau.services.registry.operations.comparing import incompatible_lines
from moldau.services.registry.operations.core import Core
from moldau.services.registry.operations.finding import (
    find_body,
    find_latest,
    find_schema,
    version_with,
    with_inherited,
)
from moldau.services.registry.operations.request import (
    SchemaRequest,
    body_of,
    parse_request,
    parse_schema,
    tagged,
)
from moldau.services.registry.operations.scope import (
    READONLY,
    READONLY_OVERRIDE,
    READWRITE,
    config_in_scope,
    is_importing,
    mode_in_scope,
    normalizes,
)
from moldau.services.registry.operations.views import registered_view
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.body import Body, Version
from moldau.services.registry.state.highest_ids import IMPORTED_ID_MAX
from moldau.services.registry.state.records import Key, KeyType, Record, context_value, schema_value
from moldau.services.registry.topic.rounds import Decision

IdFor = Callable[[str, Body], int]
"""The id of a body in a context: the one it has, or a new one."""
_INT32_MAX = 2**31 - 1
"""The highest id and version: what is higher no client and no record can hold."""
_DEFAULTS = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")


def depends_on(subject: str, raw: Mapping[str, Any]) -> frozenset[str] | None:
    """What a registration must not be committed together with: another one of its subject. Imports, which
    bring ids, go alone.
    """
    request = parse_request(raw)
    return frozenset((subject,)) if request.id < 0 and request.version <= 0 else None


def is_repeatable(raw: Mapping[str, Any]) -> bool:
    """Whether twice does what once does. With changes of tags each request makes a version."""
    return not (raw.get("schemaTagsToAdd") or raw.get("schemaTagsToRemove"))


def registered_already(
    core: Core, subject: str, raw: Mapping[str, Any], *, normalize: bool, wanted: str
) -> dict[str, Any] | None:
    """The answer for a schema that is there, which any instance can give. RegistryProblem."""
    request = parse_request(raw)
    config = config_in_scope(core, subject)
    is_changed = request.is_empty or bool(request.tag_changes)
    if is_changed or request.version > 0 or any(config.get(each) is not None for each in _DEFAULTS):
        return None
    if request.version < 0:
        version = find_latest(core, subject, request, normalize=normalize)
    else:
        version = find_schema(core, subject, request, normalize=normalize, deleted=False)
    if version is None or request.id not in (-1, version.id):
        return None
    return registered_view(core, version, wanted, is_text_theirs=True)


def decide_registration(
    core: Core, subject: str, raw: Mapping[str, Any], id_for: IdFor, *, normalize: bool, wanted: str
) -> Decision:
    """RegistryProblem (NOT_PERMITTED, INVALID_SCHEMA, INCOMPATIBLE)."""
    request = parse_request(raw)
    is_text_theirs = not request.is_empty and not request.tag_changes
    importing = _check_mode(core, subject, request)
    versions = core.state.versions(subject)
    live = [each for each in versions if not each.deleted]
    new_version = versions[-1].version + 1 if versions else 1
    if not importing:
        request = _taken_over(core, subject, request, live[-1] if live else None, new_version)
    request = tagged(core, subject, request)
    parsed = parse_schema(core, subject, request, is_new=request.id < 0 and not importing)
    normalize = normalizes(core, subject, normalize)
    body = body_of(core, subject, request, parsed, normalize=normalize)
    if request.version == 0:
        there = version_with(core, subject, body, deleted=False) or find_body(
            core, subject, request, parsed, normalize=normalize, deleted=False
        )
        if there is not None and request.id in (-1, there.id):
            return Decision([], registered_view(core, there, wanted, is_text_theirs=is_text_theirs))
    if not importing:
        lines = incompatible_lines(core, subject, parsed, request.metadata, live)
        if lines:
            raise RegistryProblem(
                Code.INCOMPATIBLE,
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
                f"details: [{', '.join(lines)}]",
            )
    number = _number(request, new_version, importing)
    context = context_of(subject)
    if request.id >= 0:
        _check_id(core, context, request.id, body)
    schema_id = request.id if request.id >= 0 else id_for(context, body)
    if schema_id > _INT32_MAX:
        raise RegistryProblem(
            Code.NOT_PERMITTED,
            f"No id is left in context {context}: {_INT32_MAX} was given. An administrator can have new "
            "schemas take lower ones (moldau.registry.ids.resume.from)",
        )
    version = Version(subject, number, schema_id, body, deleted=False, timestamp_ms=0)
    records = _context_records(core, context)
    records += [
        Record(Key(KeyType.SCHEMA, subject, each.version), None)
        for each in versions
        if each.deleted and each.id == schema_id and each.version < number
    ]
    records.append(Record(Key(KeyType.SCHEMA, subject, number), schema_value(version)))
    return Decision(records, registered_view(core, version, wanted, is_text_theirs=is_text_theirs))


def check_writable(core: Core, subject: str) -> str:
    """The mode that holds. RegistryProblem (NOT_PERMITTED) where nothing may be written."""
    mode = mode_in_scope(core, subject)
    if mode in (READONLY, READONLY_OVERRIDE):
        raise RegistryProblem(Code.NOT_PERMITTED, f"{_place(subject)} is in read-only mode")
    return mode


def _check_mode(core: Core, subject: str, request: SchemaRequest) -> bool:
    """Whether the subject imports. RegistryProblem (NOT_PERMITTED)."""
    mode = check_writable(core, subject)
    if request.id >= 0 and not is_importing(mode):
        raise RegistryProblem(Code.NOT_PERMITTED, f"{_place(subject)} is not in import mode")
    if request.id < 0 and mode != READWRITE:
        raise RegistryProblem(Code.NOT_PERMITTED, f"{_place(subject)} is not in read-write mode")
    return is_importing(mode)


def _place(subject: str) -> str:
    context = context_of(subject)
    shown = "" if context == DEFAULT_CONTEXT else qualify(context, "")
    return f"Subject {subject} in context {shown}"


def _taken_over(
    core: Core, subject: str, request: SchemaRequest, previous: Version | None, new_version: int
) -> SchemaRequest:
    """The request with what it leaves to the previous version and to the settings."""
    if request.is_empty:
        if previous is None:
            raise RegistryProblem(Code.INVALID_SCHEMA, "Empty schema")
        body = previous.body
        request = replace(request, text=body.text, schema_type=body.schema_type, references=body.references)
    return with_inherited(core, subject, request, previous, new_version)


def _number(request: SchemaRequest, new_version: int, importing: bool) -> int:
    if request.version <= 0:
        if new_version > _INT32_MAX:
            raise RegistryProblem(
                Code.NOT_PERMITTED, "No version is left: the latest is the highest there is"
            )
        return new_version
    if request.version != new_version and not importing:
        raise RegistryProblem(Code.INVALID_SCHEMA, "Version is not one more than previous version")
    return request.version


def _check_id(core: Core, context: str, schema_id: int, body: Body) -> None:
    places = core.state.places(context, schema_id)
    if schema_id > IMPORTED_ID_MAX and not places:
        raise RegistryProblem(
            Code.NOT_PERMITTED,
            f"An import may bring no id above {IMPORTED_ID_MAX}: those are for new schemas",
        )
    for subject, number in places.items():
        other = core.state.get(subject, number)
        if other is not None and other.body.guid_bytes != body.guid_bytes:
            raise RegistryProblem(
                Code.NOT_PERMITTED,
                f"Overwrite new schema with id {schema_id} in context {context} is not permitted.",
            )


def _context_records(core: Core, context: str) -> list[Record]:
    if context == DEFAULT_CONTEXT or core.state.has_context_record(context):
        return []
    return [Record(Key(KeyType.CONTEXT, context), context_value(context))]
