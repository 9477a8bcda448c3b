"""Metadata and rule sets: checked, put into Confluent's order, merged, hashed.

Both are kept as the dicts that are written and returned, in one canonical form: fields in Confluent's order,
names of maps and members of sets sorted, what is empty left out. So equal documents are equal dicts, and have
equal guids. Rules are executed by clients; a registry keeps, inherits and returns them.

    metadata  tags {path: [tag]}, properties {name: text}, sensitive [name]
    rule set  migrationRules, domainRules, encodingRules [rule], enableAt
    rule      name, doc, kind, mode, type, tags, params, expr, onSuccess, onFailure, disabled
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from moldau.services.registry.problems import Code, RegistryProblem

Document = dict[str, Any]
VERSION_PROPERTY = "confluent:version"
_RULE_LISTS = ("migrationRules", "domainRules", "encodingRules")
_KINDS = ("TRANSFORM", "CONDITION")
_MIGRATION_MODES = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_DOMAIN_MODES = ("WRITE", "READ", "WRITEREAD")
_MULTIPLE_ACTION_MODES = ("WRITEREAD", "UPDOWN")
_NAME_CHARACTERS_MAX = 64


class Hash(Protocol):
    """As hashlib's objects."""

    def update(self, data: bytes, /) -> None: ...


def parse_metadata(raw: Any) -> Document | None:
    """Metadata as a request or a record has them. RegistryProblem."""
    if raw is None:
        return None
    found = _object(raw, "metadata")
    tags = {
        str(path): sorted(set(_texts(names, "metadata.tags")))
        for path, names in sorted(_object(found.get("tags"), "metadata.tags").items())
    }
    properties = _properties(found.get("properties"), "metadata.properties")
    sensitive = sorted(set(_texts(found.get("sensitive"), "metadata.sensitive")))
    return _without_empty({"tags": tags, "properties": properties, "sensitive": sensitive})


def parse_rule_set(raw: Any) -> Document | None:
    """A rule set as a request or a record has it. RegistryProblem."""
    if raw is None:
        return None
    found = _object(raw, "ruleSet")
    rules: Document = {name: [_rule(each) for each in _list(found.get(name), name)] for name in _RULE_LISTS}
    rules["enableAt"] = _text(found.get("enableAt"), "enableAt")
    return _without_empty(rules)


def check_rule_set(rules: Document | None) -> None:
    """RegistryProblem for rules that no client could execute; records are not checked."""
    names: set[str] = set()
    for list_name in _RULE_LISTS:
        for rule in (rules or {}).get(list_name, ()):
            _check_rule(rule, migration=list_name == "migrationRules")
            if rule["name"] in names:
                raise _bad_rule(f"Found rule with duplicate name '{rule['name']}'")
            names.add(rule["name"])


def merge_metadata(old: Document | None, new: Document | None) -> Document | None:
    """Both; `new` wins where they differ."""
    if old is None or new is None:
        return new if old is None else old
    return parse_metadata(
        {
            "tags": {**old.get("tags", {}), **new.get("tags", {})},
            "properties": {**old.get("properties", {}), **new.get("properties", {})},
            "sensitive": [*old.get("sensitive", ()), *new.get("sensitive", ())],
        }
    )


def merge_rule_sets(old: Document | None, new: Document | None) -> Document | None:
    """The rules of both; of two with one name the one of `new`, behind the others."""
    if old is None or new is None:
        return new if old is None else old
    merged: Document = {}
    for list_name in _RULE_LISTS:
        named = {rule.get("name") for rule in new.get(list_name, ())}
        kept = [rule for rule in old.get(list_name, ()) if rule.get("name") not in named]
        merged[list_name] = [*kept, *new.get(list_name, ())]
    merged["enableAt"] = new.get("enableAt") or old.get("enableAt")
    return _without_empty(merged)


def without_rules(rules: Document | None, names: Sequence[str]) -> Document | None:
    """A rule set without the rules of these names; None if nothing is left."""
    if rules is None:
        return None
    kept = {
        list_name: [rule for rule in rules.get(list_name, ()) if rule.get("name") not in names]
        for list_name in _RULE_LISTS
    }
    return _without_empty({**kept, "enableAt": rules.get("enableAt")}) or None


def with_version(metadata: Document | None, version: int) -> Document:
    """Metadata whose confluent:version is this one."""
    merged = merge_metadata(metadata, {"properties": {VERSION_PROPERTY: str(version)}})
    assert merged is not None
    return merged


def without_version(metadata: Document | None) -> Document | None:
    """Metadata without confluent:version; None if nothing else is there."""
    if metadata is None or VERSION_PROPERTY not in metadata.get("properties", {}):
        return metadata
    properties = {name: text for name, text in metadata["properties"].items() if name != VERSION_PROPERTY}
    return _without_empty({**metadata, "properties": properties}) or None


def hash_metadata(digest: Hash, metadata: Document) -> None:
    """Add metadata to a guid's hash, as Confluent's Metadata.updateHash."""
    for path, names in metadata.get("tags", {}).items():
        digest.update(path.encode())
        for name in names:
            digest.update(name.encode())
    for name, text in metadata.get("properties", {}).items():
        digest.update(name.encode() + text.encode())
    for name in metadata.get("sensitive", ()):
        digest.update(name.encode())


def hash_rule_set(digest: Hash, rules: Document) -> None:
    """Add a rule set to a guid's hash, as Confluent's RuleSet.updateHash."""
    for list_name in _RULE_LISTS:
        for rule in rules.get(list_name, ()):
            for field in ("name", "doc", "kind", "mode", "type"):
                digest.update(rule.get(field, "").encode())
            for tag in rule.get("tags", ()):
                digest.update(tag.encode())
            for name, text in rule.get("params", {}).items():
                digest.update(name.encode() + text.encode())
            for field in ("expr", "onSuccess", "onFailure"):
                digest.update(rule.get(field, "").encode())
            if rule.get("disabled"):
                digest.update(b"\x01")


def _rule(raw: Any) -> Document:
    found = _object(raw, "a rule")
    names = ("name", "doc", "kind", "mode", "type")
    rule: Document = {field: _text(found.get(field), field) for field in names}
    rule["tags"] = sorted(set(_texts(found.get("tags"), "tags")))
    rule["params"] = _properties(found.get("params"), "params")
    for field in ("expr", "onSuccess", "onFailure"):
        rule[field] = _text(found.get(field), field)
    return {**_without_empty(rule), "disabled": bool(found.get("disabled", False))}


def _check_rule(rule: Document, *, migration: bool) -> None:
    """Confluent's RuleSet.validate and Rule.validate."""
    name = rule.get("name")
    if not name:
        raise _bad_rule("Missing rule name")
    if len(name) > _NAME_CHARACTERS_MAX:
        raise _bad_rule("Rule name too long")
    if not (name[0].isalpha() or name[0] == "_"):
        raise _bad_rule(f"Illegal initial character in rule name: {name}")
    if not all(character.isalnum() or character in "_-" for character in name):
        raise _bad_rule(f"Illegal character in rule name: {name}")
    if not rule.get("type"):
        raise _bad_rule("Missing rule type")
    if rule.get("kind") not in (None, *_KINDS):
        raise _bad_rule(f"Rules can only be {', '.join(_KINDS)}")
    mode = rule.get("mode")
    allowed = _MIGRATION_MODES if migration else _DOMAIN_MODES
    if mode not in (None, *allowed):
        raise _bad_rule(f"{'Migration' if migration else 'Domain'} rules can only be {', '.join(allowed)}")
    actions = (rule.get("onSuccess", ""), rule.get("onFailure", ""))
    if mode is not None and mode not in _MULTIPLE_ACTION_MODES and any("," in each for each in actions):
        raise _bad_rule("Multiple actions only valid with WRITEREAD and UPDOWN")


def _bad_rule(message: str) -> RegistryProblem:
    return RegistryProblem(Code.INVALID_RULE_SET, f"Invalid rule set: {message}")


def _bad(what: str, wanted: str) -> RegistryProblem:
    return RegistryProblem(422, f"{what} must be {wanted}")


def _object(raw: Any, what: str) -> Mapping[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise _bad(what, "an object")
    return raw


def _list(raw: Any, what: str) -> Sequence[Any]:
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple):
        raise _bad(what, "a list")
    return raw


def _text(raw: Any, what: str) -> str | None:
    """A text; numbers and truth values become one, as Jackson makes them."""
    if raw is None:
        return None
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, int | float):
        return str(raw)
    if not isinstance(raw, str):
        raise _bad(what, "a text")
    try:
        raw.encode()
    except UnicodeEncodeError:
        raise _bad(what, "Unicode text") from None
    return raw


def _texts(raw: Any, what: str) -> list[str]:
    return [text for each in _list(raw, what) if (text := _text(each, what)) is not None]


def _properties(raw: Any, what: str) -> dict[str, str]:
    pairs = ((_text(name, what), _text(text, what)) for name, text in _object(raw, what).items())
    return dict(sorted((name, text) for name, text in pairs if name is not None and text is not None))


def _without_empty(document: Mapping[str, Any]) -> Document:
    return {name: each for name, each in document.items() if each not in (None, "", [], {})}
