"""What is kept of parsed schemas, and what a schema may refer to."""

import pytest
from memory_registry import MemoryRegistry

from moldau.services.registry import parsing
from moldau.services.registry.problems import Code


def test_the_cache_keeps_what_was_used_last_and_nothing_too_heavy() -> None:
    cache: parsing.Cache[str] = parsing.Cache(3, 10)
    for name in "abc":
        cache.put(name, name, 3)
    cache.get("a")
    cache.put("d", "d", 3)
    cache.put("huge", "huge", 11)
    assert [cache.get(name) for name in ("a", "b", "c", "d", "huge")] == ["a", None, "c", "d", None]


@pytest.mark.parametrize(("schema_type", "kept"), [("AVRO", 5), ("PROTOBUF", 1)])
def test_what_keeps_its_tree_weighs_more(
    schema_type: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may look schemas up decides how many are parsed."""
    monkeypatch.setattr(parsing, "_CACHED_CHARACTERS_MAX", 1_000)
    registry = MemoryRegistry()
    for number in range(9):
        text = f'syntax = "proto3"; message M{number} {{}} //'
        if schema_type == "AVRO":
            text = f'{{"type":"fixed","name":"F{number}","size":1}}'
        registry.compatibility(
            "s", None, {"schema": text.ljust(200 if kept == 5 else 100), "schemaType": schema_type}
        )
    assert len(registry._core.parser._parsed._entries) == kept


def test_what_a_schema_refers_to_is_bounded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_REFERENCED_CHARACTERS_MAX", 200)
    registry = MemoryRegistry()
    for name in "ab":
        registry.register(name, {"schema": f'{{"type":"fixed","name":"{name * 90}","size":1}}'})
    references = [{"name": name * 90, "subject": name, "version": 1} for name in "ab"]
    assert registry.register("c", {"schema": '"int"', "references": references[:1]})["id"] == 3
    refused = registry.refusal(registry.register, "d", {"schema": '"int"', "references": references})
    assert refused[0] == Code.INVALID_SCHEMA
