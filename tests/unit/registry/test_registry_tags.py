"""Tags by request: of a version, which becomes the next one, and of a schema that is registered."""

import json
from typing import Any

import pytest
from memory_registry import MemoryRegistry

from moldau.services.registry.operations.registering import is_repeatable
from moldau.services.registry.problems import Code

TEXT = '{"type":"record","name":"myrecord","fields":[{"name":"f1","type":"string"}]}'
TAGGED = TEXT[:-1] + ',"confluent:tags":["TAG1","TAG2"]}'


def tags(path: str, *names: str, kind: str = "sr_record") -> list[dict[str, Any]]:
    return [{"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(names)}]


def rule(name: str, tag: str = "PII") -> dict[str, Any]:
    return {"name": name, "type": "CEL", "tags": [tag], "disabled": False}


@pytest.fixture
def registry() -> MemoryRegistry:
    registry = MemoryRegistry()
    registry.register("a", {"schema": TEXT})
    return registry


@pytest.mark.parametrize("new_version", [None, 2])
def test_a_version_with_tags_is_the_next_one(registry: MemoryRegistry, new_version: int | None) -> None:
    request = {"newVersion": new_version, "tagsToAdd": tags("myrecord", "TAG1", "TAG2")}
    answer = registry.change_tags("a", "latest", request)
    assert (answer["id"], answer["version"], answer["schema"]) == (2, 2, TAGGED)
    latest = registry.version("a", "latest")
    assert latest["schema"] == TAGGED
    assert latest["metadata"] == {"properties": {"confluent:version": "2"}}
    registry.change_tags("a", "2", {"tagsToRemove": tags(".myrecord", "TAG2")})
    third = registry.version("a", "3")
    assert third["schema"] == TEXT[:-1] + ',"confluent:tags":["TAG1"]}'
    assert third["metadata"] == {"properties": {"confluent:version": "3"}}
    assert registry.version("a", "1")["schema"] == TEXT


def test_tags_in_another_context(registry: MemoryRegistry) -> None:
    registry.register(":.ctx:a", {"schema": TEXT})
    answer = registry.change_tags(":.ctx:a", "1", {"tagsToAdd": tags("myrecord.f1", "T", kind="sr_field")})
    assert (answer["id"], answer["version"]) == (2, 2)
    assert json.loads(answer["schema"])["fields"] == [
        {"name": "f1", "type": "string", "confluent:tags": ["T"]}
    ]


def test_rules_are_merged_and_removed(registry: MemoryRegistry) -> None:
    first = {"domainRules": [rule("one"), rule("two"), rule("three")], "migrationRules": [rule("up")]}
    registry.change_tags("a", "latest", {"newVersion": 2, "rulesToMerge": first, "rulesToRemove": ["four"]})
    merged = {"domainRules": [rule("five"), rule("two", "B")]}
    answer = registry.change_tags("a", "2", {"rulesToMerge": merged, "rulesToRemove": ["one", "up"]})
    assert answer["ruleSet"] == {"domainRules": [rule("three"), rule("five"), rule("two", "B")]}


@pytest.mark.parametrize(
    ("subject", "version", "request_", "code"),
    [
        ("none", "1", {}, Code.SUBJECT_NOT_FOUND),
        ("a", "2", {}, Code.VERSION_NOT_FOUND),
        ("a", "x", {}, Code.INVALID_VERSION),
        ("a", "1", {"newVersion": 1}, Code.INVALID_SCHEMA),
        ("a", "1", {"tagsToAdd": tags("does.not.exist", "T", kind="sr_field")}, Code.INVALID_SCHEMA),
        ("a", "1", {"ruleSet": {}, "rulesToRemove": []}, Code.INVALID_RULE_SET),
        ("a", "1", {"rulesToMerge": {"domainRules": [{"name": "1"}]}}, Code.INVALID_RULE_SET),
        ("a", "1", {"tagsToAdd": tags("myrecord", "T", kind="sr_message")}, 422),
        ("a", "1", {"tagsToAdd": {}}, 422),
        ("a", "1", {"tagsToAdd": [7]}, 422),
        ("a", "1", {"newVersion": "2"}, 422),
        ("a", "1", {"tagsToAdd": tags("object." + "x." * 500_000, "T")}, 422),
        ("a", "1", {"tagsToAdd": [each for n in range(1_001) for each in tags(f"r{n}", "T")]}, 422),
    ],
)
def test_what_cannot_be_tagged_is_refused(
    registry: MemoryRegistry, subject: str, version: str, request_: dict[str, Any], code: int
) -> None:
    assert registry.refusal(registry.change_tags, subject, version, request_)[0] == code
    assert registry.versions("a") == [1]


def test_a_schema_is_registered_with_tags(registry: MemoryRegistry) -> None:
    request = {"schema": TEXT, "schemaTagsToAdd": tags("myrecord", "TAG1", "TAG2")}
    answer = registry.register("a", request)
    assert (answer["version"], answer["schema"]) == (2, TAGGED)
    assert answer["metadata"] == {"properties": {"confluent:version": "2"}}
    request = {"schema": TAGGED, "schemaTagsToRemove": tags("myrecord", "TAG1", "TAG2")}
    assert registry.register("a", request)["schema"] == TEXT
    assert registry.versions("a") == [1, 2, 3]


def test_a_registration_with_tags_is_not_sent_twice(registry: MemoryRegistry) -> None:
    """Nor decided twice when it may have been committed: each one makes a version."""
    request = {"schema": TEXT, "schemaTagsToAdd": tags("myrecord", "TAG1")}
    assert [registry.register("a", request)["version"] for _ in range(2)] == [2, 3]
    assert not is_repeatable(request)
    assert not registry.is_repeatable
    plain = {"schema": TEXT}
    assert [registry.register("b", plain)["version"] for _ in range(2)] == [1, 1]
    assert is_repeatable(plain)
    assert registry.is_repeatable
