"""Which version of a subject has a schema: for look-ups, and to register nothing twice.

A schema is found by its guid. If it is not, it may be there in another guise: sent with its references
resolved, without the confluent:version that the registry put into its metadata, or without metadata and rules
that it had taken over from settings and earlier versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from moldau.services.registry.names import context_of
from moldau.services.registry.operations.core import Core, subject_not_found
from moldau.services.registry.operations.reading import candidates
from moldau.services.registry.operations.request import SchemaRequest, body_of, parse_request, parse_schema
from moldau.services.registry.operations.scope import config_in_scope, normalizes
from moldau.services.registry.operations.views import schema_view
from moldau.services.registry.parsing import Parsed
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.body import Body, Version
from moldau.services.registry.state.document import (
    VERSION_PROPERTY,
    Document,
    merge_metadata,
    merge_rule_sets,
    with_version,
    without_version,
)

_RESOLVED = "resolved"


def look_up(
    core: Core, subject: str, raw: Any, *, normalize: bool, wanted: str, deleted: bool
) -> dict[str, Any]:
    """The version that has the request's schema. RegistryProblem (SUBJECT_, SCHEMA_NOT_FOUND)."""
    request = parse_request(raw)
    refusal: RegistryProblem | None = None
    for name in candidates(core, subject):
        try:
            version = find_schema(core, name, request, normalize=normalize, deleted=deleted)
        except RegistryProblem as problem:
            # Its references may be in one context only.
            refusal = refusal or problem
            continue
        if version is not None:
            return schema_view(core, version, wanted)
    if refusal is not None:
        raise refusal
    if not core.state.has_subjects(subject, deleted=deleted):
        raise subject_not_found(subject)
    raise RegistryProblem(Code.SCHEMA_NOT_FOUND, "Schema not found")


def find_schema(
    core: Core, subject: str, request: SchemaRequest, *, normalize: bool, deleted: bool
) -> Version | None:
    """The version of exactly this subject that has a schema. RegistryProblem (INVALID_SCHEMA)."""
    normalize = normalizes(core, subject, normalize)
    parsed = parse_schema(core, subject, request, is_new=False)
    found = find_body(core, subject, request, parsed, normalize=normalize, deleted=deleted)
    latest = core.state.latest(subject)
    if found is not None or latest is None:
        return found
    inherited = with_inherited(core, subject, request, latest, None)
    if inherited == request:
        return None
    return find_body(core, subject, inherited, parsed, normalize=normalize, deleted=deleted)


def find_latest(core: Core, subject: str, request: SchemaRequest, *, normalize: bool) -> Version | None:
    """The latest version, if it has the schema: a request for the next one (version -1) is that then."""
    latest = core.state.latest(subject)
    if latest is None:
        return None
    parsed = parse_schema(core, subject, request, is_new=False)
    body = body_of(core, subject, request, parsed, normalize=normalizes(core, subject, normalize))
    return latest if same_schema(core, subject, body, parsed)(latest) else None


def find_body(
    core: Core, subject: str, request: SchemaRequest, parsed: Parsed, *, normalize: bool, deleted: bool
) -> Version | None:
    """As `find_schema`, for these metadata and rules only."""
    body = body_of(core, subject, request, parsed, normalize=normalize)
    exact = version_with(core, subject, body, deleted=deleted)
    if exact is not None:
        return exact
    same = same_schema(core, subject, body, parsed)
    versions = reversed(core.state.versions(subject))
    return next((each for each in versions if (deleted or not each.deleted) and same(each)), None)


def version_with(core: Core, subject: str, body: Body, *, deleted: bool) -> Version | None:
    """The version of a subject that has this very body."""
    context = context_of(subject)
    schema_id = core.state.id_of(context, body)
    if schema_id is None:
        return None
    number = core.state.place(context, schema_id, subject)
    version = None if number is None else core.state.get(subject, number)
    if version is None or (version.deleted and not deleted):
        return None
    return version if version.body.guid_bytes == body.guid_bytes else None


def same_schema(core: Core, subject: str, body: Body, parsed: Parsed) -> Callable[[Version], bool]:
    """Whether a version is a schema in another guise: with references, or with confluent:version."""
    has_number = VERSION_PROPERTY in (body.metadata or {}).get("properties", {})

    def same(version: Version) -> bool:
        other = version.body
        if other.schema_type != body.schema_type or other.rule_set != body.rule_set:
            return False
        numbers_differ = not has_number and other.metadata != body.metadata
        metadata = without_version(other.metadata) if numbers_differ else other.metadata
        if metadata != body.metadata:
            return False
        if other.text == body.text and other.references == body.references:
            return True
        if body.references or not other.references:
            return False
        resolved = core.parser.parse_version(version).formatted(_RESOLVED)
        return resolved == parsed.formatted(_RESOLVED)

    return same


def with_inherited(
    core: Core, subject: str, request: SchemaRequest, previous: Version | None, new_version: int | None
) -> SchemaRequest:
    """The request with the metadata and rules that it takes over: its own or the previous version's, between
    the defaults and the overrides of the settings.

    `new_version` is what it will be registered as, if it will be; metadata that have a confluent:version
    (or a request that asks for one) get this number.
    """
    config = config_in_scope(core, subject)
    metadata, rules = request.metadata, request.rule_set
    if previous is not None:
        metadata = previous.body.metadata if metadata is None else metadata
        rules = previous.body.rule_set if rules is None else rules
    metadata = _between(config, "Metadata", metadata, merge_metadata)
    rules = _between(config, "RuleSet", rules, merge_rule_sets)
    has_number = VERSION_PROPERTY in (metadata or {}).get("properties", {})
    if new_version is not None and (request.version != 0 or has_number):
        metadata = with_version(metadata, new_version)
    if metadata is None and rules is None:
        return request
    return replace(request, metadata=metadata, rule_set=rules)


def _between(
    config: dict[str, Any],
    name: str,
    own: Document | None,
    merge: Callable[[Document | None, Document | None], Document | None],
) -> Document | None:
    return merge(merge(config.get(f"default{name}"), own), config.get(f"override{name}"))
