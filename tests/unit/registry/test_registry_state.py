"""The registry's state: what records add up to, what is left of what was deleted, records of others."""

import gc
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept import kept

from moldau.schemas.schema import Reference
from moldau.services.registry.state.body import Version, make_body
from moldau.services.registry.state.records import Key, KeyType, Record, encode_json, encode_key, schema_value
from moldau.services.registry.state.state import State

Log = list[tuple[bytes, bytes | None]]


def record(key: Key, value: dict[str, Any] | None) -> tuple[bytes, bytes | None]:
    return encode_key(key), None if value is None else encode_json(value)


def schema(
    subject: str,
    version: int,
    schema_id: int,
    text: str = "",
    *references: Reference,
    deleted: bool = False,
) -> tuple[bytes, bytes | None]:
    body = make_body("AVRO", text or f'"{schema_id}"', references)
    value = schema_value(Version(subject, version, schema_id, body, deleted, 0))
    return record(Key(KeyType.SCHEMA, subject, version), value)


def tombstone(subject: str, version: int) -> tuple[bytes, bytes | None]:
    return record(Key(KeyType.SCHEMA, subject, version), None)


def state_of(*log: tuple[bytes, bytes | None]) -> State:
    state = State()
    for offset, (key, value) in enumerate(log):
        state.replay(key, value, 1000 + offset, offset)
    return state


def test_equal_schemas_share_one_id_and_one_body() -> None:
    state = state_of(schema("a", 1, 1, "x"), schema("b", 1, 1, "x"))
    assert state.places(".", 1) == {"a": 1, "b": 1}
    one, other = state.get("a", 1), state.get("b", 1)
    assert one is not None
    assert other is not None
    assert one.body is other.body
    assert state.id_of(".", one.body) == 1
    assert one.timestamp_ms == 1000


def test_a_schema_deleted_for_good_uses_no_memory() -> None:
    state = state_of(*(schema("a", number, number, f"text {number}") for number in range(1, 50)))
    for number in range(1, 50):
        state.replay(*tombstone("a", number), 0, 100 + number)
    gc.collect()
    assert kept(state) <= 2, "the context alone"
    assert state.names(".") == []
    assert state.max_id(".") == 49


def test_the_highest_id_outlives_compaction() -> None:
    state = state_of(schema("a", 1, 1), schema("a", 2, 9), tombstone("a", 2))
    repairs = state.repairs()
    assert [each.key.keytype for each in repairs] == [KeyType.NOOP]
    after_compaction = state_of(schema("a", 1, 1), *state.encode(repairs))
    assert after_compaction.max_id(".") == 9
    assert after_compaction.repairs() == []


def test_an_id_of_an_aborted_registration_is_not_given_again() -> None:
    state = State()
    state.replay_aborted(*schema("a", 1, 5))
    assert state.get("a", 1) is None
    assert state.max_id(".") == 5
    assert [each.key for each in state.repairs()] == [Key(KeyType.SCHEMA, "a", 1), Key(KeyType.NOOP)]
    state.replay(*schema("a", 1, 6), 0, 3)
    assert state.repairs() == []


def test_what_aborted_records_said_is_overwritten_with_what_is_true() -> None:
    # A registry whose consumer reads uncommitted records has taken these over.
    state = state_of(schema("a", 1, 1), record(Key(KeyType.MODE, "a"), {"subject": "a", "mode": "IMPORT"}))
    before = dict([schema("a", 1, 1)])
    state.replay_aborted(*record(Key(KeyType.DELETE_SUBJECT, "a"), {"subject": "a", "version": 1}))
    state.replay_aborted(*record(Key(KeyType.MODE, "a"), None))
    state.replay_aborted(*record(Key(KeyType.CONFIG, "b"), {"compatibilityLevel": "NONE"}))
    repairs = dict(state.encode(state.repairs()))
    assert repairs == {
        **before,
        encode_key(Key(KeyType.MODE, "a")): b'{"subject":"a","mode":"IMPORT"}',
        encode_key(Key(KeyType.CONFIG, "b")): None,
    }


def test_an_id_of_another_text_is_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        state = state_of(schema("a", 1, 1, "x"), schema("b", 1, 1, "y"))
    assert state.get("b", 1) is None
    assert "the id 1 of another schema" in caplog.text
    assert state_of(schema("a", 1, 1, "x"), schema(":.c:b", 1, 1, "y")).get(":.c:b", 1) is not None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"junk", b"{}"),
        (b'{"keytype":"EXPORTER","name":"e"}', b"{}"),
        (encode_key(Key(KeyType.SCHEMA, "s", 1)), b"junk"),
        (encode_key(Key(KeyType.SCHEMA, "s", 1)), b'{"subject":"s","version":1,"schema":"x"}'),
        (encode_key(Key(KeyType.SCHEMA, "s", 1)), b'{"id":1,"schema":7}'),
        (encode_key(Key(KeyType.SCHEMA, "s", 1)), b'{"id":1,"schema":"x","metadata":[]}'),
        (encode_key(Key(KeyType.SCHEMA, "s", 1)), b'{"id":1,"schema":"x","schemaType":[1]}'),
        (encode_key(Key(KeyType.SCHEMA, "s", 1)), b'{"id":-1,"schema":"x"}'),
        (encode_key(Key(KeyType.SCHEMA, "s", 1)), b'{"id":1,"schema":"\\uD800"}'),
        (encode_key(Key(KeyType.SCHEMA, "s", 1)), b'{"id":1,"schema":"\xed\xa0\x80"}'),
        (b'{"keytype":"SCHEMA","subject":"\\udfff","version":1}', b'{"id":1,"schema":"x"}'),
        (encode_key(Key(KeyType.CONFIG, "s")), b'{"defaultMetadata":{"properties":[]}}'),
        (encode_key(Key(KeyType.MODE, "s")), b'{"mode":{}}'),
        (encode_key(Key(KeyType.DELETE_SUBJECT, "s")), b"{}"),
        (encode_key(Key(KeyType.NOOP)), b'{"maxIds":{".":"many"}}'),
    ],
)
def test_a_record_that_is_not_understood_is_skipped_with_a_line(
    key: bytes, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        state = state_of((key, value), schema("a", 1, 1))
    assert "the record at offset 0" in caplog.text
    assert [version.version for version in state.versions("a")] == [1]


def test_a_record_without_key_is_skipped() -> None:
    state = State()
    state.replay(None, b"{}", 0, 0)
    assert state.names(".") == []


def test_references_count_while_the_referring_schema_is_not_deleted() -> None:
    refers = Reference("a", "a", 1)
    state = state_of(schema("a", 1, 1), schema("b", 1, 2, "b", refers), schema("c", 1, 2, "b", refers))
    assert state.referrers("a", 1) == [2]
    state.replay(*schema("b", 1, 2, "b", refers, deleted=True), 0, 3)
    assert state.referrers("a", 1) == [2]
    state.replay(*record(Key(KeyType.DELETE_SUBJECT, "c"), {"subject": "c", "version": 1}), 0, 4)
    assert state.referrers("a", 1) == []


def test_a_reference_means_the_context_of_the_referring_schema() -> None:
    state = state_of(
        schema(":.c:a", 1, 1),
        schema(":.c:b", 1, 2, "b", Reference("a", "a", 1)),
        schema("z", 1, 1, "z", Reference("a", ":.c:a", 1)),
    )
    assert state.referrers(":.c:a", 1) == [1, 2]
    assert state.referrers("a", 1) == []


def test_contexts_have_subjects_and_ids_of_their_own() -> None:
    state = state_of(
        record(Key(KeyType.CONTEXT, ".c"), {"tenant": "default", "context": ".c"}),
        schema(":.c:a", 1, 1, "x"),
        schema("a", 1, 1, "y"),
    )
    assert state.contexts() == [".c"]
    assert state.names("*") == ["a", ":.c:a"]
    assert state.names(".c", "a") == [":.c:a"]
    assert state.matching(":.c:") == [":.c:a"]
    assert state.max_id(".c") == 1
    state.replay(*tombstone(":.c:a", 1), 0, 3)
    assert state.contexts() == [".c"]
    state.replay(*record(Key(KeyType.CONTEXT, ".c"), None), 0, 4)
    assert state.contexts() == []


def test_a_key_spelled_by_another_registry_keeps_its_spelling() -> None:
    # As Karapace writes it: other order, spaces. Compaction goes by the key's bytes.
    key = Key(KeyType.SCHEMA, "a", 1)
    theirs = json.dumps({"subject": "a", "version": 1, "magic": 1, "keytype": "SCHEMA"}).encode()
    state = state_of((theirs, schema("a", 1, 1)[1]))
    assert state.get("a", 1) is not None
    written = state.encode([Record(key, None)])
    assert written[-1] == (theirs, None)
    state.replay(theirs, None, 0, 1)
    assert state.get("a", 1) is None


SUBJECTS = ("a", "b", ":.c:a")
VERSIONS = st.integers(1, 4)
STEPS = st.one_of(
    st.tuples(
        st.just("put"), st.sampled_from(SUBJECTS), VERSIONS, st.integers(1, 5), st.booleans(), st.booleans()
    ),
    st.tuples(st.just("remove"), st.sampled_from(SUBJECTS), VERSIONS),
    st.tuples(st.just("delete"), st.sampled_from(SUBJECTS), VERSIONS),
    st.tuples(st.just("clear"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("config"), st.sampled_from(SUBJECTS), st.booleans()),
)


class Model:
    """The same by brute force: the live versions, and every question answered by looking at all of them."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, int], tuple[int, bool, bool]] = {}
        self.configs: set[str] = set()
        self.max_ids: dict[str, int] = {}

    def put(self, subject: str, version: int, schema_id: int, deleted: bool, refers: bool) -> None:
        self.live[subject, version] = (schema_id, deleted, refers)
        context = subject[1:3] if subject.startswith(":") else "."
        self.max_ids[context] = max(self.max_ids.get(context, 0), schema_id)

    def remove(self, subject: str, version: int) -> None:
        self.live.pop((subject, version), None)

    def delete(self, subject: str, last: int) -> None:
        for (name, version), (schema_id, _, refers) in self.live.items():
            if name == subject and version <= last:
                self.live[name, version] = (schema_id, True, refers)

    def clear(self, subject: str) -> None:
        for (name, version), (_, deleted, _) in list(self.live.items()):
            if name == subject and deleted:
                del self.live[name, version]

    def config(self, subject: str, there: bool) -> None:
        (self.configs.add if there else self.configs.discard)(subject)


def log_of(steps: list[tuple[Any, ...]]) -> Log:
    log: Log = []
    for name, subject, *rest in steps:
        if name == "put":
            version, schema_id, deleted, refers = rest
            references = (Reference("r", "a", 1),) if refers else ()
            log.append(schema(subject, version, schema_id, f"text {schema_id}", *references, deleted=deleted))
        elif name == "remove":
            log.append(tombstone(subject, rest[0]))
        elif name == "delete":
            log.append(record(Key(KeyType.DELETE_SUBJECT, subject), {"subject": subject, "version": rest[0]}))
        elif name == "clear":
            log.append(record(Key(KeyType.CLEAR_SUBJECT, subject), {"subject": subject}))
        else:
            value = {"compatibilityLevel": "FULL"} if rest[0] else None
            log.append(record(Key(KeyType.CONFIG, subject), value))
    return log


@given(st.lists(STEPS, max_size=40))
def test_the_state_is_that_of_a_model(steps: list[tuple[Any, ...]]) -> None:
    state, model = state_of(*log_of(steps)), Model()
    for name, *rest in steps:
        getattr(model, name)(*rest)
    for subject in SUBJECTS:
        assert [(each.version, each.id, each.deleted) for each in state.versions(subject)] == [
            (version, schema_id, deleted)
            for (name, version), (schema_id, deleted, _) in sorted(model.live.items())
            if name == subject
        ]
        assert (state.config(subject) is not None) == (subject in model.configs)
    for context in (".", ".c"):
        inside = {key: each for key, each in model.live.items() if (key[0][1:3] == ".c") == (context == ".c")}
        assert state.max_id(context) == model.max_ids.get(context, 0)
        assert state.names(context) == sorted({name for name, _ in inside})
        for schema_id in range(1, 6):
            subjects = {name for (name, _), each in inside.items() if each[0] == schema_id}
            places = state.places(context, schema_id)
            assert set(places) == subjects
            assert all(inside[name, version][0] == schema_id for name, version in places.items())
        referring = {
            schema_id
            for (name, _), (schema_id, deleted, refers) in model.live.items()
            if refers and not deleted and (name.startswith(":") == (context == ".c"))
        }
        assert state.referrers("a" if context == "." else ":.c:a", 1) == sorted(referring)


@given(st.lists(STEPS, max_size=30), st.integers(0, 30))
def test_a_compacted_log_gives_the_same_state(steps: list[tuple[Any, ...]], dirty: int) -> None:
    """Compaction keeps the last record of each key in the clean part; deletions of subjects come after the
    versions they mean, so replay gives the same versions.
    """
    steps = [step for step in steps if step[0] in ("put", "remove", "config")]
    log = log_of(steps)
    clean, tail = log[:dirty], log[dirty:]
    last = {key: index for index, (key, _) in enumerate(clean)}
    compacted = [each for index, each in enumerate(clean) if last[each[0]] == index]
    whole, short = state_of(*log), state_of(*compacted, *tail)
    for subject in SUBJECTS:
        assert [each._replace(timestamp_ms=0, body=None) for each in short.versions(subject)] == [  # type: ignore[arg-type]
            each._replace(timestamp_ms=0, body=None)  # type: ignore[arg-type]
            for each in whole.versions(subject)
        ]
        assert short.config(subject) == whole.config(subject)
