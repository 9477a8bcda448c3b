"""Tags of records and fields that are changed on the way: of a schema that comes in, or of a version.

    POST /subjects/{s}/versions                {.., "schemaTagsToAdd": [T], "schemaTagsToRemove": [T]}
    POST /subjects/{s}/versions/{v}/tags       {"newVersion", "tagsToAdd": [T], "tagsToRemove": [T],
                                                "metadata", "ruleSet" or "rulesToMerge", "rulesToRemove"}
    T    {"schemaEntity": {"entityPath": "shop.Order.item", "entityType": "sr_field"}, "tags": ["PII"]}

The schema with the tags is registered as the next version, with its number as confluent:version. Not here:
propagateSchemaTags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.schemas.tags import TagChange
from moldau.services.registry.operations.core import (
    Core,
    find_version,
    parse_version_number,
    subject_not_found,
    version_not_found,
)
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.document import (
    Document,
    check_rule_set,
    merge_rule_sets,
    parse_rule_set,
    without_rules,
)
from moldau.services.registry.state.records import reference_value

_ENTITY_TYPES = {"sr_record": False, "sr_field": True}
_CHANGES_MAX = 1_000
_PATH_CHARACTERS_MAX = 1_000
"""Each is looked for in a schema that may have 1 MB."""


def parse_tag_changes(added: Any, removed: Any) -> tuple[TagChange, ...]:
    """The changes that two lists of tags ask for, by entity. RegistryProblem (422)."""
    found: dict[tuple[str, bool], TagChange] = {}
    for given, is_added in ((added, True), (removed, False)):
        if given is not None and not isinstance(given, list):
            raise _bad("a list of tags must be a list")
        for each in given or ():
            path, is_field, tags = _tags(each)
            before = found.get((path, is_field), TagChange(path, is_field))
            if is_added:
                found[path, is_field] = before._replace(added=(*before.added, *tags))
            else:
                found[path, is_field] = before._replace(removed=(*before.removed, *tags))
    if len(found) > _CHANGES_MAX:
        raise _bad(f"more than {_CHANGES_MAX} entities are named")
    return tuple(found.values())


def tagging_request(core: Core, subject: str, version: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The registration that changes the tags of a version. RegistryProblem (…_NOT_FOUND, 42210, 422)."""
    number = parse_version_number(version)
    found = find_version(core, subject, number, deleted=False)
    if found is None:
        if not core.state.has_subjects(subject, deleted=False):
            raise subject_not_found(subject)
        raise version_not_found(number)
    new_version = raw.get("newVersion")
    if new_version is not None and (not isinstance(new_version, int) or isinstance(new_version, bool)):
        raise _bad("newVersion must be a number")
    metadata = raw.get("metadata")
    return {
        "schema": found.body.text,
        "schemaType": found.body.schema_type,
        "references": [reference_value(each) for each in found.body.references],
        "metadata": found.body.metadata if metadata is None else metadata,
        "ruleSet": _rules(core, subject, raw, new_version),
        "version": new_version or -1,
        "schemaTagsToAdd": raw.get("tagsToAdd"),
        "schemaTagsToRemove": raw.get("tagsToRemove"),
    }


def _rules(core: Core, subject: str, raw: Mapping[str, Any], new_version: int | None) -> Document | None:
    """The rules of the request, or those of the version before with some merged and some removed."""
    own, merged, removed = (raw.get(each) for each in ("ruleSet", "rulesToMerge", "rulesToRemove"))
    if merged is None and removed is None:
        return own
    if own is not None:
        raise RegistryProblem(
            Code.INVALID_RULE_SET,
            "Invalid rule set: ruleSet should be omitted if specifying rulesToMerge or rulesToRemove",
        )
    if removed is not None and not isinstance(removed, list):
        raise _bad("rulesToRemove must be a list of names")
    more = parse_rule_set(merged)
    check_rule_set(more)
    before = find_version(core, subject, new_version - 1 if new_version else None, deleted=False)
    rules = merge_rule_sets(None if before is None else before.body.rule_set, more)
    return without_rules(rules, [each for each in removed or () if isinstance(each, str)])


def _tags(raw: Any) -> tuple[str, bool, list[str]]:
    entity = raw.get("schemaEntity") if isinstance(raw, dict) else None
    path = entity.get("entityPath") if isinstance(entity, dict) else None
    kind = _ENTITY_TYPES.get(str(entity.get("entityType"))) if isinstance(entity, dict) else None
    tags = raw.get("tags") if isinstance(raw, dict) else None
    if not isinstance(path, str) or not path or kind is None:
        raise _bad("a tag needs a schemaEntity: entityPath, and entityType sr_record or sr_field")
    if len(path) > _PATH_CHARACTERS_MAX:
        raise _bad(f"an entityPath has more than {_PATH_CHARACTERS_MAX} characters")
    if not isinstance(tags, list) or not all(isinstance(each, str) for each in tags):
        raise _bad("tags must be a list of texts")
    return path.removeprefix("."), kind, tags


def _bad(sentence: str) -> RegistryProblem:
    return RegistryProblem(422, f"The tags are not valid: {sentence}")
