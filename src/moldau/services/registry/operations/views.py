"""A schema as responses show it, with the fields and order of Confluent's registry (8.x)."""

from __future__ import annotations

from typing import Any

from moldau.services.registry.names import qualified_like
from moldau.services.registry.operations.core import Core
from moldau.services.registry.state.body import Version
from moldau.services.registry.state.records import reference_value

QUALIFIED = "qualified"


def schema_view(core: Core, version: Version, wanted: str = "", reference_format: str = "") -> dict[str, Any]:
    """A version of a subject. RegistryProblem if it has to be printed anew and cannot be parsed."""
    return {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "guid": version.body.guid,
        **_body(core, version, wanted, reference_format, schema_first=False),
        "ts": version.timestamp_ms,
        "deleted": version.deleted,
    }


def id_view(
    core: Core,
    version: Version,
    wanted: str = "",
    reference_format: str = "",
    *,
    with_subject: bool = False,
) -> dict[str, Any]:
    """A schema that was asked for by its id."""
    place = {"subject": version.subject, "version": version.version} if with_subject else {}
    return {
        **place,
        "guid": version.body.guid,
        **_body(core, version, wanted, reference_format, schema_first=True),
        "ts": version.timestamp_ms,
        "deleted": version.deleted,
    }


def registered_view(
    core: Core, version: Version, wanted: str = "", *, is_text_theirs: bool = False
) -> dict[str, Any]:
    """The answer to a registration: `id` first, which is all that older clients know.

    The schema comes only where it is more than its author sent, as from Confluent's registry: clients keep
    what they are answered, and those that sent a Protobuf schema in base64 cannot read its text.
    """
    answer: dict[str, Any] = {"id": version.id, "version": version.version, "guid": version.body.guid}
    is_more = not is_text_theirs or version.body.metadata is not None or version.body.rule_set is not None
    if is_more or wanted.strip():
        answer |= _body(core, version, wanted, "", schema_first=False)
    return answer


def _body(
    core: Core, version: Version, wanted: str, reference_format: str, *, schema_first: bool
) -> dict[str, Any]:
    body = version.body
    text = body.text
    if wanted.strip():
        text = core.parser.parse_version(version).formatted(wanted)
    fields: dict[str, Any] = {"schemaType": body.schema_type}
    if schema_first:
        fields["schema"] = text
    references = _references(version, reference_format)
    if references:
        fields["references"] = references
    if body.metadata is not None:
        fields["metadata"] = body.metadata
    if body.rule_set is not None:
        fields["ruleSet"] = body.rule_set
    fields["schema"] = text
    return fields


def _references(version: Version, reference_format: str) -> list[dict[str, Any]]:
    """References as they were registered, or (QUALIFIED) with the context of their subjects."""
    references = version.body.references
    if reference_format.strip().lower() == QUALIFIED:
        references = tuple(
            each._replace(subject=qualified_like(each.subject, version.subject)) for each in references
        )
    return [reference_value(each) for each in references]
