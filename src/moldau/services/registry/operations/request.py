"""The body of a request that brings a schema: checked, and turned into what is compared and kept.

    {"schema": text, "schemaType": "AVRO", "references": [..], "metadata": {..}, "ruleSet": {..},
     "version": n, "id": n, "schemaTagsToAdd": [..], "schemaTagsToRemove": [..]}

Without `schema`, a registration means the text of the latest version. `version` and `id` are for imports;
`version` -1 asks for the next one with confluent:version set in the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from moldau.schemas.schema import InvalidSchema, Reference
from moldau.schemas.tags import TagChange, with_tags
from moldau.services.registry.operations.core import Core
from moldau.services.registry.operations.tagging import parse_tag_changes
from moldau.services.registry.parsing import Parsed, invalid_schema
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.body import AVRO, Body, make_body
from moldau.services.registry.state.document import Document, check_rule_set, parse_metadata, parse_rule_set
from moldau.services.registry.state.records import UnknownRecord, parse_references

NO_ID = -1
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """What a request asks for."""

    schema_type: str
    text: str
    references: tuple[Reference, ...]
    metadata: Document | None
    rule_set: Document | None
    version: int
    id: int
    tag_changes: tuple[TagChange, ...] = ()
    """What becomes of tags within the text."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no text."""
        return not self.text.strip()

    def with_documents(self, metadata: Document | None, rule_set: Document | None) -> SchemaRequest:
        """The same schema with other metadata and rules."""
        return replace(self, metadata=metadata, rule_set=rule_set)


def parse_request(request: Mapping[str, Any]) -> SchemaRequest:
    """Take a body apart. RegistryProblem (422, INVALID_SCHEMA, INVALID_RULE_SET)."""
    text = _text(request, "schema") or ""
    try:
        references = parse_references(request.get("references"))
    except UnknownRecord as error:
        raise RegistryProblem(422, f"The references are not valid: {error}") from None
    for reference in references:
        _check_unicode(reference.name, "a reference's name")
        _check_unicode(reference.subject, "a reference's subject")
    rule_set = parse_rule_set(request.get("ruleSet") or request.get("ruleset"))
    check_rule_set(rule_set)
    changes = parse_tag_changes(request.get("schemaTagsToAdd"), request.get("schemaTagsToRemove"))
    return SchemaRequest(
        _text(request, "schemaType") or AVRO,
        text,
        references,
        parse_metadata(request.get("metadata")),
        rule_set,
        _number(request, "version", 0) or (-1 if changes else 0),
        _number(request, "id", NO_ID),
        changes,
    )


def parse_schema(core: Core, subject: str, request: SchemaRequest, *, is_new: bool) -> Parsed:
    """The request's schema; `is_new`: with the checks that schemas of long ago may fail. RegistryProblem."""
    if request.is_empty:
        raise RegistryProblem(Code.INVALID_SCHEMA, "Empty schema")
    parsed = core.parser.parse(subject, request.schema_type, request.text, request.references)
    validate = getattr(parsed.schema, "validate_new", None)
    if is_new and validate is not None:
        try:
            validate()
        except InvalidSchema as error:
            raise invalid_schema(request.schema_type, error) from None
    return parsed


def tagged(core: Core, subject: str, request: SchemaRequest) -> SchemaRequest:
    """The request with the text that has its tags. RegistryProblem (INVALID_SCHEMA)."""
    if not request.tag_changes:
        return request
    parsed = parse_schema(core, subject, request, is_new=False)
    try:
        text = with_tags(parsed.schema.schema_type, parsed.formatted(""), request.tag_changes)
    except InvalidSchema as error:
        raise RegistryProblem(Code.INVALID_SCHEMA, f"Invalid schema: {error}") from None
    return replace(request, text=text, tag_changes=())


def body_of(core: Core, subject: str, request: SchemaRequest, parsed: Parsed, *, normalize: bool) -> Body:
    """What would be kept of the request: its canonical (or normalised) text, and references with numbers."""
    references = tuple(
        each._replace(version=core.parser.referenced(subject, each).version) if each.version < 1 else each
        for each in request.references
    )
    text = parsed.normalized() if normalize else parsed.formatted("")
    _check_unicode(text, "its text")
    return make_body(request.schema_type, text, references, request.metadata, request.rule_set)


def _text(request: Mapping[str, Any], field: str) -> str | None:
    found = request.get(field)
    if found is None:
        return None
    if not isinstance(found, str):
        raise RegistryProblem(422, f"The field {field} must be a text")
    _check_unicode(found, f"the field {field}")
    return found


def _check_unicode(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RegistryProblem(Code.INVALID_SCHEMA, f"Invalid schema: {what} is not Unicode text") from None


def _number(request: Mapping[str, Any], field: str, default: int) -> int:
    found = request.get(field)
    if found is None:
        return default
    if not isinstance(found, int) or isinstance(found, bool) or not -1 <= found <= _INT32_MAX:
        raise RegistryProblem(422, f"The field {field} must be a number between -1 and {_INT32_MAX}")
    return found
