"""One schema: by subject and version, by id, by guid, by metadata; and what refers to it.

A name without a context that is not in the default context is looked for in all others, as in Confluent's
registry: clients that know no contexts find schemas of an import.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from moldau.services.registry.names import DEFAULT_CONTEXT, parse_name, qualify
from moldau.services.registry.operations.core import (
    Core,
    find_version,
    page,
    parse_version_number,
    subject_not_found,
    version_not_found,
)
from moldau.services.registry.operations.views import id_view, schema_view
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.body import Version


def candidates(core: Core, subject: str) -> Iterator[str]:
    """The names that a subject may have: its own, and, without a context, those in all contexts; there may
    be very many, so the others are only made when its own was not it.
    """
    yield subject
    parsed = parse_name(subject)
    if parsed.context == DEFAULT_CONTEXT and parsed.subject:
        yield from (qualify(context, parsed.subject) for context in core.state.contexts())


def read_version(core: Core, subject: str, text: str, *, deleted: bool) -> Version:
    """A version. RegistryProblem (SUBJECT_NOT_FOUND, VERSION_NOT_FOUND, INVALID_VERSION)."""
    number = parse_version_number(text)
    for name in candidates(core, subject):
        version = find_version(core, name, number, deleted=deleted)
        if version is not None:
            return version
    if not core.state.has_subjects(subject, deleted=deleted):
        raise subject_not_found(subject)
    raise version_not_found(number)


def referenced_by(core: Core, subject: str, text: str, offset: int, limit: int) -> list[int]:
    """The ids of the schemas that refer to a version."""
    version = read_version(core, subject, text, deleted=True)
    settings = core.settings
    ids = core.state.referrers(version.subject, version.version)
    return page(ids, offset, limit, settings.schema_search_default_limit, settings.schema_search_max_limit)


def read_with_metadata(
    core: Core, subject: str, properties: Mapping[str, str], wanted: str, *, deleted: bool
) -> dict[str, Any]:
    """The newest version whose metadata have these properties. RegistryProblem (…_NOT_FOUND)."""
    for version in reversed(core.state.versions(subject)):
        found = (version.body.metadata or {}).get("properties", {})
        if (deleted or not version.deleted) and properties.items() <= found.items():
            return schema_view(core, version, wanted)
    if not core.state.has_subjects(subject, deleted=deleted):
        raise subject_not_found(subject)
    raise RegistryProblem(Code.SCHEMA_NOT_FOUND, "Schema not found")


def has_id(core: Core, schema_id: int, subject: str | None) -> bool:
    """Whether `find_id` finds it where it looks first, which takes no time."""
    parsed = parse_name(subject or "")
    if not parsed.subject:
        return core.state.any_place(parsed.context, schema_id) is not None
    return core.state.place(parsed.context, schema_id, parsed.qualified) is not None


def find_id(core: Core, schema_id: int, subject: str | None) -> Version | None:
    """A version with this id: of the subject, if it has one, else of any subject of its context."""
    if subject is None or not parse_name(subject).subject:
        return core.state.any_place(parse_name(subject or "").context, schema_id)
    for name in candidates(core, subject):
        number = core.state.place(parse_name(name).context, schema_id, name)
        version = None if number is None else core.state.get(name, number)
        if version is not None:
            return version
    parsed = parse_name(subject)
    return core.state.any_place(parsed.context, schema_id) if parsed.context == DEFAULT_CONTEXT else None


def read_id(
    core: Core, schema_id: int, subject: str | None, wanted: str, reference_format: str, *, with_max: bool
) -> dict[str, Any]:
    """A schema by its id. RegistryProblem (SCHEMA_NOT_FOUND)."""
    version = find_id(core, schema_id, subject)
    if version is None:
        raise schema_not_found(schema_id)
    view = id_view(core, version, wanted, reference_format, with_subject=subject is not None)
    if with_max:
        view["maxId"] = core.state.max_id(parse_name(version.subject).context)
    return view


def places_of_id(core: Core, schema_id: int, subject: str | None, *, deleted: bool) -> list[Version]:
    """The versions that have an id, in the context where it was found. RegistryProblem."""
    version = find_id(core, schema_id, subject)
    if version is None:
        raise schema_not_found(schema_id)
    context = parse_name(version.subject).context
    found = (core.state.get(*place) for place in sorted(core.state.places(context, schema_id).items()))
    return [each for each in found if each is not None and (deleted or not each.deleted)]


def read_guid(core: Core, guid: str, wanted: str) -> dict[str, Any]:
    """A schema by its guid. RegistryProblem (SCHEMA_NOT_FOUND)."""
    for place in ids_of_guid(core, guid):
        version = core.state.any_place(place["context"], place["id"])
        if version is not None:
            return id_view(core, version, wanted)
    raise schema_not_found(guid)


def ids_of_guid(core: Core, guid: str) -> list[dict[str, Any]]:
    """The id that a guid has in each context. RegistryProblem (SCHEMA_NOT_FOUND)."""
    try:
        guid_bytes = uuid.UUID(guid).bytes
    except ValueError:
        raise schema_not_found(guid) from None
    contexts = (DEFAULT_CONTEXT, *core.state.contexts())
    found = [(context, core.state.id_of_guid(context, guid_bytes)) for context in contexts]
    ids = [{"context": context, "id": schema_id} for context, schema_id in found if schema_id is not None]
    if not ids:
        raise schema_not_found(guid)
    return ids


def schema_not_found(what: object) -> RegistryProblem:
    """The refusal for an id or guid that nobody has."""
    return RegistryProblem(Code.SCHEMA_NOT_FOUND, f"Schema {what} not found")
