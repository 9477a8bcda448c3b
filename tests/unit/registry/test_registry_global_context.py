"""The global context `.__GLOBAL`: settings for all contexts that have none of their own, and nothing else."""

import pytest
from memory_registry import MemoryRegistry, record

from moldau.services.registry.problems import Code

GLOBAL = ":.__GLOBAL:"
INCOMPATIBLE = int(Code.INCOMPATIBLE)


def level(registry: MemoryRegistry, subject: str | None) -> str:
    found: str = registry.config(subject, default_to_global=True)["compatibilityLevel"]
    return found


@pytest.mark.parametrize("subject", [None, "a", ":.c:", ":.c:a", GLOBAL])
def test_its_level_holds_where_none_is_set(subject: str | None) -> None:
    registry = MemoryRegistry()
    assert level(registry, subject) == "BACKWARD"
    registry.set_config(GLOBAL, {"compatibility": "FULL"})
    assert level(registry, subject) == "FULL"
    registry.delete_config(GLOBAL)
    assert level(registry, subject) == "BACKWARD"


def test_nearer_levels_come_first() -> None:
    registry = MemoryRegistry()
    registry.set_config(GLOBAL, {"compatibility": "FULL"})
    registry.set_config(None, {"compatibility": "NONE"})
    assert (level(registry, "a"), level(registry, ":.c:a")) == ("NONE", "FULL")
    registry.set_config(":.c:", {"compatibility": "FORWARD"})
    assert (level(registry, ":.c:a"), level(registry, ":.d:a")) == ("FORWARD", "FULL")
    registry.set_config(":.c:a", {"compatibility": "BACKWARD"})
    assert (level(registry, ":.c:a"), level(registry, ":.c:b")) == ("BACKWARD", "FORWARD")


def test_the_default_context_tells_only_its_own_settings() -> None:
    registry = MemoryRegistry()
    registry.set_config(GLOBAL, {"compatibility": "FULL"})
    registry.set_mode(GLOBAL, {"mode": "READONLY"})
    assert registry.config() == {"compatibilityLevel": "BACKWARD"}
    assert registry.mode() == {"mode": "READWRITE"}
    assert registry.mode(default_to_global=True) == {"mode": "READONLY"}
    assert registry.config(GLOBAL) == {"compatibilityLevel": "FULL"}


def test_it_tells_the_defaults_where_nothing_is_set() -> None:
    registry = MemoryRegistry()
    assert registry.config(GLOBAL) == {"compatibilityLevel": "BACKWARD"}
    assert registry.mode(GLOBAL) == {"mode": "READWRITE"}
    code, _ = registry.refusal(registry.config, ":.c:")
    assert code == Code.NO_SUBJECT_LEVEL


@pytest.mark.parametrize("subject", ["a", ":.c:a"])
def test_its_level_and_mode_hold_for_registrations(subject: str) -> None:
    registry = MemoryRegistry()
    registry.set_config(GLOBAL, {"compatibility": "NONE"})
    registry.register(subject, record("R", "a"))
    registry.register(subject, record("R", "b"))
    registry.set_config(GLOBAL, {"compatibility": "FULL"})
    assert registry.refusal(registry.register, subject, record("R", "c"))[0] == INCOMPATIBLE
    registry.set_mode(GLOBAL, {"mode": "READONLY"})
    code, message = registry.refusal(registry.register, subject, record("R", "b", "d", default=True))
    assert (code, "read-only mode" in message) == (Code.NOT_PERMITTED, True)


@pytest.mark.parametrize("subject", [":.__GLOBAL:a", GLOBAL])
def test_no_subject_is_registered_there(subject: str) -> None:
    registry = MemoryRegistry()
    assert registry.refusal(registry.register, subject, record("R", "a"))[0] == Code.INVALID_SUBJECT
    assert not registry.log


def test_an_import_of_all_contexts_needs_all_to_be_empty() -> None:
    registry = MemoryRegistry()
    registry.register(":.c:a", record("R", "a"))
    code, _ = registry.refusal(registry.set_mode, GLOBAL, {"mode": "IMPORT"})
    assert code == Code.NOT_PERMITTED
    registry.set_mode(GLOBAL, {"mode": "IMPORT"}, force=True)
    assert registry.mode(":.c:a", default_to_global=True) == {"mode": "IMPORT"}
