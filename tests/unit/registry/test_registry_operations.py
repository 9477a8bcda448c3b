"""Any sequence of operations on the registry: ids stay what they are, and the log says all there is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from memory_registry import MemoryRegistry, record

from moldau.services.registry.problems import RegistryProblem
from moldau.services.registry.state.state import State

SUBJECTS = st.sampled_from(("a", "b", ":.c:a", ":.c:d"))
PLACES = st.sampled_from(("", "a", ":.c:", ":.c:a"))
TEXTS = st.integers(0, 5)
VERSIONS = st.sampled_from(("1", "2", "3", "latest"))


class RegistryMachine(RuleBasedStateMachine):
    """Operations that may all be refused; whatever was answered must stay true."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = MemoryRegistry({"schema.compatibility.level": "none"})
        self.text_of_id: dict[tuple[str, int], str] = {}

    def _try(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except RegistryProblem:
            return None

    @rule(subject=SUBJECTS, text=TEXTS, refers=st.booleans())
    def register(self, subject: str, text: int, refers: bool) -> None:
        request: dict[str, Any] = {"schema": f'{{"type":"record","name":"r{text}","fields":[]}}'}
        if refers:
            request["references"] = [{"name": "other", "subject": "a", "version": 1}]
        self._register(subject, request)

    @rule(subject=SUBJECTS, text=TEXTS, schema_id=st.integers(1, 9), version=st.integers(1, 5))
    def import_schema(self, subject: str, text: int, schema_id: int, version: int) -> None:
        text_of = f'{{"type":"record","name":"r{text}","fields":[]}}'
        context = ".c" if subject.startswith(":") else "."
        known = self.text_of_id.get((context, schema_id))
        if known not in (None, text_of):
            return  # whoever imports an id that was given before, by hand, may do so
        self._register(subject, {"schema": text_of, "id": schema_id, "version": version})

    def _register(self, subject: str, request: dict[str, Any]) -> None:
        answer = self._try(self.registry.register, subject, request)
        if answer is None:
            return
        context = ".c" if subject.startswith(":") else "."
        assert self.text_of_id.setdefault((context, answer["id"]), request["schema"]) == request["schema"]
        found = self.registry.version(subject, str(answer["version"]))
        assert (found["id"], found["schema"]) == (answer["id"], request["schema"])
        assert self.registry.schema_by_id(answer["id"], subject)["schema"] == request["schema"]

    @rule(subject=SUBJECTS, version=VERSIONS, permanent=st.booleans())
    def delete_version(self, subject: str, version: str, permanent: bool) -> None:
        self._try(self.registry.delete_version, subject, version, permanent=permanent)

    @rule(subject=SUBJECTS, permanent=st.booleans())
    def delete_subject(self, subject: str, permanent: bool) -> None:
        deleted = self._try(self.registry.delete_subject, subject, permanent=permanent)
        if deleted is not None:
            assert subject not in self.registry.subjects()
            assert (subject in self.registry.subjects(deleted=True)) == (not permanent)

    @rule(place=PLACES, mode=st.sampled_from(("READWRITE", "IMPORT", "READONLY")), force=st.booleans())
    def set_mode(self, place: str, mode: str, force: bool) -> None:
        self._try(self.registry.set_mode, place, {"mode": mode}, force=force)

    @rule(place=PLACES)
    def delete_mode(self, place: str) -> None:
        self._try(self.registry.delete_mode, place)

    @rule(place=PLACES, level=st.sampled_from(("NONE", "FULL")))
    def set_config(self, place: str, level: str) -> None:
        self._try(self.registry.set_config, place, {"compatibility": level})

    @invariant()
    def the_log_says_all(self) -> None:
        assert_same(self.registry.state, self.registry.replayed())

    @invariant()
    def the_compacted_log_says_all(self) -> None:
        log = self.registry.log
        last = {key: index for index, (key, _) in enumerate(log)}
        state = State()
        for index, (key, value) in enumerate(log):
            if last[key] == index and value is not None:  # tombstones go, too, after a day
                state.replay(key, value, 1_000 + index, index)
        assert_same(self.registry.state, state)

    @invariant()
    def references_keep_what_they_mean(self) -> None:
        for name in self.registry.state.names("*"):
            for version in self.registry.state.versions(name):
                for reference in version.body.references:
                    if not version.deleted and not name.startswith(":"):
                        assert self.registry.state.get(reference.subject, reference.version) is not None


def assert_same(one: State, other: State) -> None:
    """Both answer everything alike."""
    names = one.names("*")
    assert other.names("*") == names
    for name in names:
        versions, others = one.versions(name), other.versions(name)
        assert [each._replace(body=None) for each in versions] == [  # type: ignore[arg-type]
            each._replace(body=None)  # type: ignore[arg-type]
            for each in others
        ]
        assert [each.body.guid for each in versions] == [each.body.guid for each in others]
        for version in versions:
            assert one.referrers(name, version.version) == other.referrers(name, version.version)
    for context in (".", ".c"):
        assert one.max_id(context) == other.max_id(context)
        for schema_id in range(1, 12):
            assert one.places(context, schema_id) == other.places(context, schema_id)
    assert one.configs() == other.configs()
    assert one.modes() == other.modes()
    assert one.contexts() == other.contexts()


TestRegistry = RegistryMachine.TestCase
TestRegistry.settings = settings(max_examples=60, stateful_step_count=25)


def test_other_contexts_are_searched_only_for_what_a_subject_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = MemoryRegistry()
    body = record("one")
    registry.register("a", body)
    registry.register(":.dev:b", record("two"))
    assert registry.has_id(1, "a")
    assert registry.has_id(1, ":.dev:b")
    assert not registry.has_id(1, "b")
    assert registry.schema_by_id(1, "b")["subject"] == ":.dev:b"
    monkeypatch.setattr(registry.state, "contexts", lambda: pytest.fail("all contexts were listed"))
    assert registry.schema_by_id(1, "a")["subject"] == "a"
    assert registry.version("a", "latest")["version"] == 1
    assert registry.look_up("a", body)["id"] == 1


def test_a_prefix_may_end_within_the_name_of_a_context() -> None:
    registry = MemoryRegistry()
    for name in ("a", ":.prod:a", ":.production:b", ":.dev:a"):
        registry.register(name, {"schema": '"int"'})
    assert registry.subjects(":.prod") == [":.prod:a", ":.production:b"]
    assert registry.subjects(":.prod:") == [":.prod:a"]
    assert registry.subjects(":.") == ["a", ":.dev:a", ":.prod:a", ":.production:b"]
    assert registry.subjects(":.prod:", "a", ":.p") == ["a", ":.prod:a", ":.production:b"]
    assert [each["subject"] for each in registry.schemas("b", ":.dev:")] == [":.dev:a"]
    assert [each["subject"] for each in registry.schemas(":.prod")] == [":.prod:a", ":.production:b"]
