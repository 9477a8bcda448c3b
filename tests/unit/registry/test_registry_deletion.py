"""Deletion in two steps, settings and modes: what is allowed when, and what is left."""

import pytest
from memory_registry import MemoryRegistry, record

from moldau.services.registry.problems import Code


@pytest.fixture
def registry() -> MemoryRegistry:
    registry = MemoryRegistry({"schema.compatibility.level": "none"})
    for name in ("one", "two", "three"):
        registry.register("a", record(name))
    return registry


def compacted(log: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """What is left of a log: the last record of each key."""
    last = {key: index for index, (key, _) in enumerate(log)}
    return [each for index, each in enumerate(log) if last[each[0]] == index and each[1] is not None]


def test_a_version_is_deleted_softly_and_then_for_good(registry: MemoryRegistry) -> None:
    assert registry.refusal(registry.delete_version, "a", "1", permanent=True)[0] == (
        Code.VERSION_NOT_SOFT_DELETED
    )
    assert registry.delete_version("a", "1") == 1
    assert registry.refusal(registry.delete_version, "a", "1")[0] == Code.VERSION_SOFT_DELETED
    assert registry.versions("a") == [2, 3]
    assert registry.versions("a", deleted=True) == [1, 2, 3]
    assert registry.versions("a", deleted_only=True) == [1]
    assert registry.versions("a", deleted_as_negative=True) == [-1, 2, 3]
    assert registry.refusal(registry.version, "a", "1")[0] == Code.VERSION_NOT_FOUND
    assert registry.version("a", "1", deleted=True)["deleted"] is True
    assert registry.schema_by_id(1)["deleted"] is True
    assert registry.delete_version("a", "1", permanent=True) == 1
    assert registry.refusal(registry.schema_by_id, 1)[0] == Code.SCHEMA_NOT_FOUND


def test_the_latest_version_is_the_newest_that_is_left(registry: MemoryRegistry) -> None:
    assert registry.delete_version("a", "latest") == 3
    assert registry.version("a", "latest")["version"] == 2
    assert registry.delete_version("a", "-1") == 2


def test_a_subject_is_deleted_softly_and_then_for_good(registry: MemoryRegistry) -> None:
    registry.set_config("a", {"compatibility": "FULL"})
    registry.set_mode("a", {"mode": "READWRITE"})
    refused = registry.refusal(registry.delete_subject, "a", permanent=True)
    assert refused[0] == Code.SUBJECT_NOT_SOFT_DELETED
    assert registry.delete_subject("a") == [1, 2, 3]
    assert registry.subjects() == []
    assert registry.subjects(deleted=True) == ["a"]
    assert registry.subjects(deleted_only=True) == ["a"]
    assert registry.refusal(registry.delete_subject, "a")[0] == Code.SUBJECT_SOFT_DELETED
    assert registry.refusal(registry.versions, "a")[0] == Code.SUBJECT_NOT_FOUND
    assert registry.delete_subject("a", permanent=True) == [1, 2, 3]
    assert registry.subjects(deleted=True) == []
    assert registry.refusal(registry.config, "a")[0] == Code.NO_SUBJECT_LEVEL
    assert registry.refusal(registry.delete_subject, "a")[0] == Code.SUBJECT_NOT_FOUND


def test_versions_go_on_after_a_soft_deletion(registry: MemoryRegistry) -> None:
    registry.delete_subject("a")
    again = registry.register("a", record("one"))
    assert (again["id"], again["version"]) == (1, 4)
    # The old version with this id is gone; others are found by id still.
    assert registry.versions("a", deleted=True) == [2, 3, 4]


def test_ids_are_not_given_again_when_all_is_deleted_for_good(registry: MemoryRegistry) -> None:
    registry.delete_subject("a")
    registry.delete_subject("a", permanent=True)
    assert registry.register("b", record("new"))["id"] == 4
    assert registry.replayed().max_id(".") == 4


def test_ids_of_very_many_contexts_are_kept_in_small_records() -> None:
    registry = MemoryRegistry()
    names = [f":.ci-{number}:a" for number in range(600)]
    for name in names:
        registry.register(name, record("one"))
        registry.register(name, record("one", "b", default=True))
    for name in names:
        registry.delete_subject(name)
        registry.delete_subject(name, permanent=True)
    assert max(len(value or b"") for _, value in registry.log) < 1_000
    registry.log = compacted(registry.log)
    state = registry.replayed()
    assert state.names("*") == []
    assert {state.max_id(f".ci-{number}") for number in range(600)} == {2}
    assert state.repairs() == []


def test_highest_ids_in_one_record_for_all_contexts_are_kept() -> None:
    registry = MemoryRegistry()
    registry.log = [(b'{"keytype":"NOOP","magic":0}', b'{"maxIds":{".":3,".dev":7,".prod":9}}')]
    registry.state.replay(*registry.log[0], 0, 0)
    assert registry.register("a", record("one"))["id"] == 4
    registry.delete_subject("a")
    registry.delete_subject("a", permanent=True)
    registry.log = compacted(registry.log)
    state = registry.replayed()
    assert [state.max_id(context) for context in (".", ".dev", ".prod")] == [4, 7, 9]
    assert registry.register(":.dev:a", record("one"))["id"] == 8


def test_a_deleted_subject_stays_deleted_after_compaction(registry: MemoryRegistry) -> None:
    registry.delete_subject("a")
    registry.register("a", record("four"))
    registry.delete_subject("a")
    registry.log = compacted(registry.log)
    assert [each.deleted for each in registry.replayed().versions("a")] == [True] * 4


def test_a_context_is_deleted_when_it_is_empty(registry: MemoryRegistry) -> None:
    registry.register(":.dev:x", record("x"))
    assert registry.refusal(registry.delete_context, ".dev")[0] == Code.CONTEXT_NOT_EMPTY
    registry.delete_subject(":.dev:x")
    assert registry.refusal(registry.delete_context, "dev")[0] == Code.CONTEXT_NOT_EMPTY
    registry.delete_subject(":.dev:x", permanent=True)
    registry.delete_context(":.dev:")
    assert registry.contexts() == ["."]


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
def test_a_read_only_subject_takes_no_writes(registry: MemoryRegistry, mode: str) -> None:
    registry.set_mode("a", {"mode": mode})
    assert registry.refusal(registry.register, "a", record("four"))[0] == Code.NOT_PERMITTED
    assert registry.refusal(registry.delete_version, "a", "1")[0] == Code.NOT_PERMITTED
    assert registry.refusal(registry.delete_subject, "a")[0] == Code.NOT_PERMITTED
    assert registry.refusal(registry.set_config, "a", {"compatibility": "FULL"})[0] == Code.NOT_PERMITTED
    assert registry.register("a", record("one"))["version"] == 1
    assert registry.register("b", record("one"))["version"] == 1


def test_modes_are_inherited_and_overridden(registry: MemoryRegistry) -> None:
    registry.set_mode(":.dev:", {"mode": "readonly"})
    assert registry.mode(":.dev:x", default_to_global=True) == {"mode": "READONLY"}
    assert registry.mode() == {"mode": "READWRITE"}
    assert registry.refusal(registry.mode, "a")[0] == Code.NO_SUBJECT_MODE
    registry.set_mode("a", {"mode": "READWRITE"})
    registry.set_mode(None, {"mode": "READONLY_OVERRIDE"})
    assert registry.mode("a", default_to_global=True) == {"mode": "READONLY_OVERRIDE"}
    assert registry.delete_mode("a") == {"mode": "READWRITE"}
    assert registry.refusal(registry.delete_mode, "a")[0] == Code.SUBJECT_NOT_FOUND
    assert registry.refusal(registry.set_mode, "a", {"mode": "SIDEWAYS"})[0] == Code.INVALID_MODE
    assert registry.delete_mode(None, recursive=True) == {"mode": "READONLY_OVERRIDE"}


def test_a_context_forgets_the_modes_of_its_subjects(registry: MemoryRegistry) -> None:
    registry.register(":.dev:x", record("x"))
    registry.set_mode(":.dev:", {"mode": "READONLY"})
    registry.set_mode(":.dev:x", {"mode": "READWRITE"})
    registry.delete_mode(":.dev:", recursive=True)
    assert registry.refusal(registry.mode, ":.dev:x")[0] == Code.NO_SUBJECT_MODE


def test_an_import_needs_an_empty_place(registry: MemoryRegistry) -> None:
    assert registry.refusal(registry.set_mode, "a", {"mode": "IMPORT"})[0] == Code.NOT_PERMITTED
    registry.delete_subject("a")
    assert registry.set_mode("a", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    assert registry.subjects(deleted=True) == []
    registry.register("b", record("x"))
    assert registry.set_mode("b", {"mode": "IMPORT"}, force=True) == {"mode": "IMPORT"}


def test_forwarding_needs_no_empty_place(registry: MemoryRegistry) -> None:
    registry.delete_version("a", "1")
    assert registry.set_mode("a", {"mode": "FORWARD"}) == {"mode": "FORWARD"}
    assert registry.versions("a", deleted=True) == [1, 2, 3]
    assert registry.refusal(registry.register, "a", record("four"))[0] == Code.NOT_PERMITTED


def test_modes_may_be_fixed() -> None:
    registry = MemoryRegistry({"mode.mutability": "false"})
    assert registry.refusal(registry.set_mode, None, {"mode": "READONLY"})[0] == Code.NOT_PERMITTED


def test_settings_are_inherited(registry: MemoryRegistry) -> None:
    assert registry.config() == {"compatibilityLevel": "NONE"}
    assert registry.set_config(":.dev:", {"compatibility": "full"}) == {"compatibility": "FULL"}
    assert registry.config(":.dev:x", default_to_global=True) == {"compatibilityLevel": "FULL"}
    assert registry.set_config("a", {"alias": "b"}) == {"alias": "b"}
    assert registry.config("a", default_to_global=True) == {"alias": "b", "compatibilityLevel": "NONE"}
    assert registry.set_config("a", {"alias": None, "compatibility": "BACKWARD"}) == {
        "compatibility": "BACKWARD"
    }
    assert registry.delete_config("a") == {"compatibilityLevel": "BACKWARD"}
    assert registry.refusal(registry.delete_config, "a")[0] == Code.SUBJECT_NOT_FOUND
    assert registry.refusal(registry.set_config, "a", {"compatibility": "SOME"})[0] == Code.INVALID_LEVEL
    assert registry.refusal(registry.set_config, "a", {"normalize": "yes"})[0] == 422
    assert registry.delete_config(None) == {"compatibilityLevel": "NONE"}


def test_lists_come_in_pages(registry: MemoryRegistry) -> None:
    for number in range(30):
        registry.register(f"s{number:02}", record("x"))
    assert registry.subjects(limit=3, offset=2) == ["s01", "s02", "s03"]
    assert registry.subjects("s2", limit=2) == ["s20", "s21"]
    assert len(registry.subjects()) == 31
    assert [each["version"] for each in registry.schemas("a", latest_only=True)] == [3]
    assert registry.versions("a", offset=1, limit=1) == [2]
    few = MemoryRegistry({"subject.search.default.limit": "2", "subject.search.max.limit": "3"})
    for name in "abcd":
        few.register(name, record("x"))
    assert few.subjects() == ["a", "b"]
    assert few.subjects(limit=3) == ["a", "b", "c"]
    assert few.subjects(limit=4) == ["a", "b"]
