"""Registration and look-up: ids, versions, references, imports, what is taken over from settings."""

import json
from typing import Any

import pytest
from memory_registry import MemoryRegistry, record

from moldau.services.registry.problems import Code
from moldau.services.registry.state.body import AVRO, make_body
from moldau.services.registry.state.highest_ids import IMPORTED_ID_MAX
from moldau.services.registry.state.state import State
from moldau.services.registry.topic.writer import TopicWriter

OPTIONAL = {
    "schema": '{"type":"record","name":"r","fields":[{"name":"a","type":"string"},'
    '{"name":"b","type":"int","default":0}]}'
}


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def test_a_schema_has_one_id_in_all_subjects_of_a_context(registry: MemoryRegistry) -> None:
    first = registry.register("a", record("r", "x"))
    assert (first["id"], first["version"]) == (1, 1)
    assert registry.register("b", record("r", "x"))["id"] == 1
    assert registry.register("c", record("s", "x"))["id"] == 2
    assert registry.register(":.dev:a", record("other", "x"))["id"] == 1
    assert registry.subjects_of_id(1) == ["a", "b"]
    assert registry.subjects_of_id(1, ":.dev:") == [":.dev:a"]
    assert registry.contexts() == [".", ".dev"]


def test_a_schema_that_is_there_is_not_written_again(registry: MemoryRegistry) -> None:
    registry.register("a", record("r", "x"))
    written = len(registry.log)
    spaced = {"schema": record("r", "x")["schema"].replace(",", " , ")}
    assert registry.register("a", spaced)["version"] == 1
    assert len(registry.log) == written


def test_what_does_not_fit_the_earlier_version_is_refused_with_the_reasons(registry: MemoryRegistry) -> None:
    registry.register("a", record("r", "a"))
    code, message = registry.refusal(registry.register, "a", record("r", "a", "b"))
    assert code == Code.INCOMPATIBLE
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in message
    assert "oldSchemaVersion: 1" in message
    assert "compatibility: 'BACKWARD'" in message
    assert registry.register("a", OPTIONAL)["version"] == 2


def test_a_transitive_level_compares_with_all_versions(registry: MemoryRegistry) -> None:
    registry.register("a", record("r", "x"))
    registry.register("a", record("r"))
    needed = record("r", "x", "y", default=True)
    registry.set_config("a", {"compatibility": "FORWARD"})
    assert registry.compatibility("a", None, needed)["is_compatible"]
    registry.set_config("a", {"compatibility": "FORWARD_TRANSITIVE"})
    assert registry.compatibility("a", None, {"schema": '"string"'})["is_compatible"] is False
    assert registry.compatibility("a", "1", needed, verbose=True) == {"is_compatible": True, "messages": []}


def test_a_subject_that_is_not_there_is_compatible_with_anything(registry: MemoryRegistry) -> None:
    assert registry.compatibility("none", "latest", record("r")) == {"is_compatible": True}
    assert registry.refusal(registry.compatibility, "none", "1", record("r"))[0] == Code.VERSION_NOT_FOUND
    assert registry.refusal(registry.compatibility, "none", "x", record("r"))[0] == Code.INVALID_VERSION


@pytest.mark.parametrize(
    ("request_body", "code"),
    [
        ({}, Code.INVALID_SCHEMA),
        ({"schema": "  "}, Code.INVALID_SCHEMA),
        ({"schema": "{"}, Code.INVALID_SCHEMA),
        ({"schema": '"\ud800"'}, Code.INVALID_SCHEMA),
        ({"schema": r'{"type":"record","name":"r","doc":"\ud800","fields":[]}'}, Code.INVALID_SCHEMA),
        ({"schema": '"string"', "schemaType": "XML"}, Code.INVALID_SCHEMA),
        ({"schema": 7}, 422),
        ({"schema": '"string"', "references": {}}, 422),
        ({"schema": '"x.Y"', "references": [{"name": "x.Y", "subject": "s", "version": 1}]}, 42201),
        ({"schema": '"string"', "metadata": {"properties": []}}, 422),
        ({"schema": '"string"', "id": "7"}, 422),
        ({"schema": '"string"', "ruleSet": {"domainRules": [{"name": "1"}]}}, Code.INVALID_RULE_SET),
        ({"schema": '"string"', "id": 7}, Code.NOT_PERMITTED),
        ({"schema": '"string"', "version": 3}, Code.INVALID_SCHEMA),
    ],
)
def test_what_cannot_be_registered_is_refused(
    registry: MemoryRegistry, request_body: dict[str, object], code: int
) -> None:
    assert registry.refusal(registry.register, "a", request_body)[0] == code
    assert registry.log == []


@pytest.mark.parametrize("subject", ["a\nb", "\x7f", ":*:a", "__GLOBAL", "\ud800"])
def test_names_that_nobody_may_use_are_refused(registry: MemoryRegistry, subject: str) -> None:
    assert registry.refusal(registry.register, subject, record("r"))[0] == Code.INVALID_SUBJECT


def test_a_look_up_says_whether_subject_or_schema_is_missing(registry: MemoryRegistry) -> None:
    assert registry.refusal(registry.look_up, "a", record("r"))[0] == Code.SUBJECT_NOT_FOUND
    registry.register("a", record("r"))
    assert registry.refusal(registry.look_up, "a", record("s"))[0] == Code.SCHEMA_NOT_FOUND
    found = registry.look_up("a", record("r"))
    assert {name: found[name] for name in ("subject", "version", "id")} == {
        "subject": "a",
        "version": 1,
        "id": 1,
    }


def test_without_a_context_subjects_of_all_contexts_are_found(registry: MemoryRegistry) -> None:
    registry.register(":.dev:a", record("r"))
    assert registry.version("a", "latest")["subject"] == ":.dev:a"
    assert registry.look_up("a", record("r"))["subject"] == ":.dev:a"
    assert registry.schema_by_id(1, "a")["subject"] == ":.dev:a"
    assert registry.refusal(registry.schema_by_id, 1)[0] == Code.SCHEMA_NOT_FOUND
    assert registry.ids_of_guid(registry.version("a", "1")["guid"]) == [{"context": ".dev", "id": 1}]


def test_references_are_kept_and_protect_what_they_mean(registry: MemoryRegistry) -> None:
    registry.register("inner", record("x.Inner", "f"))
    outer = {
        "schema": '{"type":"record","name":"Outer","fields":[{"name":"i","type":"x.Inner"}]}',
        "references": [{"name": "x.Inner", "subject": "inner", "version": -1}],
    }
    registered = registry.register("outer", outer)
    assert registry.version("outer", "1")["references"] == [
        {"name": "x.Inner", "subject": "inner", "version": 1}
    ]
    assert registry.referenced_by("inner", "1") == [registered["id"]]
    assert registry.refusal(registry.delete_subject, "inner")[0] == Code.REFERENCE_EXISTS
    assert registry.refusal(registry.delete_version, "inner", "1")[0] == Code.REFERENCE_EXISTS
    registry.delete_subject("outer")
    assert registry.delete_subject("inner") == [1]


def test_a_schema_sent_with_its_references_resolved_is_the_same(registry: MemoryRegistry) -> None:
    registry.register("inner", record("x.Inner", "f"))
    registry.register(
        "outer",
        {
            "schema": '{"type":"record","name":"Outer","fields":[{"name":"i","type":"x.Inner"}]}',
            "references": [{"name": "x.Inner", "subject": "inner", "version": 1}],
        },
    )
    inner = record("x.Inner", "f")["schema"]
    whole = {"schema": f'{{"type":"record","name":"Outer","fields":[{{"name":"i","type":{inner}}}]}}'}
    assert registry.look_up("outer", whole)["version"] == 1
    assert registry.register("outer", whole)["version"] == 1


def test_normalising_may_be_a_setting(registry: MemoryRegistry) -> None:
    one = {"schema": '{"type":"record","name":"r","fields":[],"z":"1","a":"2"}'}
    other = {"schema": '{"type":"record","name":"r","fields":[],"a":"2","z":"1"}'}
    registry.set_config("a", {"normalize": True})
    registry.register("a", one)
    assert registry.register("a", other)["version"] == 1
    assert registry.look_up("a", other)["version"] == 1
    registry.register("b", one)
    assert registry.refusal(registry.look_up, "b", other)[0] == Code.SCHEMA_NOT_FOUND


def test_metadata_and_rules_are_inherited_and_overridden(registry: MemoryRegistry) -> None:
    registry.set_config(
        None,
        {
            "compatibility": "NONE",
            "defaultMetadata": {"properties": {"owner": "nobody", "team": "x"}},
            "overrideMetadata": {"properties": {"team": "core"}},
        },
    )
    rules = {"domainRules": [{"name": "r", "type": "CEL", "kind": "CONDITION", "mode": "WRITE"}]}
    first = registry.register(
        "a", {**record("r"), "metadata": {"properties": {"owner": "me"}}, "ruleSet": rules}
    )
    assert first["metadata"] == {"properties": {"owner": "me", "team": "core"}}
    second = registry.register("a", record("s"))
    assert second["metadata"] == first["metadata"]
    assert second["ruleSet"] == first["ruleSet"]
    assert registry.with_metadata("a", {"owner": "me"})["version"] == 2
    assert registry.refusal(registry.with_metadata, "a", {"owner": "you"})[0] == Code.SCHEMA_NOT_FOUND
    assert [each["version"] for each in registry.schemas(rule_type="CEL")] == [1, 2]
    assert registry.look_up("a", record("r"))["version"] in (1, 2)


def test_new_metadata_make_a_new_version_of_the_same_text(registry: MemoryRegistry) -> None:
    registry.register("a", record("r"))
    tagged = registry.register("a", {**record("r"), "metadata": {"properties": {"k": "v"}}})
    assert (tagged["version"], tagged["id"]) == (2, 2)


def test_a_version_asked_for_is_written_into_the_metadata(registry: MemoryRegistry) -> None:
    first = registry.register("a", {**record("r"), "version": -1})
    assert first["metadata"] == {"properties": {"confluent:version": "1"}}
    assert registry.register("a", record("r"))["version"] == 1
    # Asked for again, it is there, as in Confluent's registry since 8.1; something new is the next.
    assert registry.register("a", {**record("r"), "version": -1})["version"] == 1
    tagged = {**record("r"), "version": -1, "metadata": {"properties": {"k": "v"}}}
    assert registry.register("a", tagged)["version"] == 2
    assert registry.register("a", tagged)["version"] == 2
    assert registry.register("a", {**record("r"), "version": -1})["version"] == 3


def test_an_import_keeps_ids_and_versions(registry: MemoryRegistry) -> None:
    registry.set_mode(None, {"mode": "IMPORT"})
    assert registry.register("a", {**record("r"), "id": 40, "version": 7})["id"] == 40
    assert registry.refusal(registry.register, "a", record("s"))[0] == Code.NOT_PERMITTED
    clash = {**record("other"), "id": 40, "version": 8}
    assert registry.refusal(registry.register, "b", clash)[0] == Code.NOT_PERMITTED
    registry.set_mode(None, {"mode": "READWRITE"})
    assert registry.register("b", record("s"))["id"] == 41
    assert registry.versions("a") == [7]


def test_fields_that_are_reserved_are_refused(registry: MemoryRegistry) -> None:
    registry.set_config("a", {"validateFields": True})
    reserved = {"metadata": {"properties": {"confluent:reserved": "x, y"}}}
    code, message = registry.refusal(registry.register, "a", {**record("r", "x"), **reserved})
    assert code == Code.INCOMPATIBLE
    assert "conflicts with the reserved field x" in message
    registry.register("a", {**record("r", "z"), **reserved})
    fewer = {"metadata": {"properties": {"confluent:reserved": "x"}}}
    assert (
        "reserved field y removed"
        in registry.refusal(registry.register, "a", {**record("r", "z"), **fewer})[1]
    )


def test_reserved_fields_are_those_of_the_first_message(registry: MemoryRegistry) -> None:
    registry.set_config("a", {"validateFields": True})
    reserved = {"schemaType": "PROTOBUF", "metadata": {"properties": {"confluent:reserved": "x"}}}
    text = 'syntax = "proto3"; message First { string FIELD = 1; } message Second { string x = 1; }'
    refused = registry.refusal(registry.register, "a", {**reserved, "schema": text.replace("FIELD", "x")})
    assert "conflicts with the reserved field x" in refused[1]
    assert registry.register("a", {**reserved, "schema": text.replace("FIELD", "y")})["version"] == 1


def test_a_type_that_is_not_there_makes_a_schema_invalid(registry: MemoryRegistry) -> None:
    # As Confluent's ProtobufSchema.validate says.
    request = {"schema": 'syntax = "proto3"; message M { Missing m = 1; }', "schemaType": "PROTOBUF"}
    for normalize in (False, True):
        for call in (registry.register, registry.look_up):
            assert registry.refusal(call, "p", request, normalize=normalize)[0] == Code.INVALID_SCHEMA
        refused = registry.refusal(registry.compatibility, "p", None, request, normalize=normalize)
        assert refused[0] == Code.INVALID_SCHEMA


def test_only_schemas_of_one_group_are_compared(registry: MemoryRegistry) -> None:
    registry.set_config("a", {"compatibilityGroup": "major"})
    one, two = {"metadata": {"properties": {"major": "1"}}}, {"metadata": {"properties": {"major": "2"}}}
    registry.register("a", {**record("r", "x"), **one})
    assert registry.register("a", {**record("r", "y"), **two})["version"] == 2
    assert registry.refusal(registry.register, "a", {**record("r", "z"), **one})[0] == Code.INCOMPATIBLE


def test_an_alias_stands_for_its_subject(registry: MemoryRegistry) -> None:
    registry.register("orders-value", record("r"))
    registry.set_config("o", {"alias": "orders-value"})
    assert registry.version("o", "latest")["subject"] == "orders-value"
    assert registry.register("o", record("r"))["version"] == 1
    assert registry.schemas("o", aliases=True)[0]["aliases"] == ["o"]
    assert registry.refusal(registry.config, "orders-value")[0] == Code.NO_SUBJECT_LEVEL


def test_another_instance_reads_the_same_state(registry: MemoryRegistry) -> None:
    registry.set_config(None, {"compatibility": "NONE"})
    for number in range(5):
        properties = {"metadata": {"properties": {"n": str(number)}}}
        registry.register(f"s{number % 2}", record(f"r{number}") | properties)
    registry.delete_version("s0", "1")
    other = registry.replayed()
    for subject in ("s0", "s1"):
        assert other.versions(subject) == [
            each._replace(body=there.body)
            for each, there in zip(registry.state.versions(subject), other.versions(subject), strict=True)
        ]
    assert other.max_id(".") == registry.state.max_id(".")


def test_a_default_that_does_not_fit_is_refused_where_a_schema_is_new(registry: MemoryRegistry) -> None:
    field = '{"name":"f","type":"int","default":"x"}'
    request = {"schema": f'{{"type":"record","name":"r","fields":[{field}]}}'}
    for refused in (
        registry.refusal(registry.register, "a", request),
        registry.refusal(registry.compatibility, "a", None, request),
    ):
        assert refused[0] == Code.INVALID_SCHEMA
        assert "Invalid default for field f" in refused[1]


def test_what_is_beyond_the_highest_number_is_refused(registry: MemoryRegistry) -> None:
    """No record can hold it: it would be answered, and lost."""
    highest = 2**31 - 1
    registry.set_mode("a", {"mode": "IMPORT"})
    registry.register("a", {**record("r"), "id": 1, "version": highest})
    registry.delete_mode("a")
    registry.state.replay(*record_with_id(highest), 0, 0)  # as imports could bring it once
    assert registry.refusal(registry.register, "a", record("r", "f", default=True))[0] == Code.NOT_PERMITTED
    assert registry.refusal(registry.register, "b", record("new"))[0] == Code.NOT_PERMITTED
    assert registry.register("b", {"schema": '"string"'})["id"] == highest
    assert registry.register(":.other:b", record("new"))["id"] == 1


def record_with_id(schema_id: int) -> tuple[bytes, bytes]:
    key = b'{"keytype":"SCHEMA","subject":"old","version":1,"magic":1}'
    value = {"subject": "old", "version": 1, "id": schema_id, "schema": '"string"', "deleted": False}
    return key, json.dumps(value).encode()


def test_an_import_leaves_ids_for_new_schemas(registry: MemoryRegistry) -> None:
    registry.set_mode("a", {"mode": "IMPORT"})
    for schema_id in (2**31 - 1, IMPORTED_ID_MAX + 1):
        assert registry.refusal(registry.register, "a", {**record("r"), "id": schema_id})[0] == (
            Code.NOT_PERMITTED
        )
    registry.register("a", {**record("r"), "id": IMPORTED_ID_MAX})
    assert registry.register("b", record("new"))["id"] == IMPORTED_ID_MAX + 1
    assert registry.register("c", record("newer"))["id"] == IMPORTED_ID_MAX + 2


def test_a_context_whose_ids_were_used_up_can_be_mended() -> None:
    state = State()
    state.replay(*record_with_id(2**31 - 1), 0, 0)
    state.replay(b'{"keytype":"NOOP","magic":0}', b'{"maxIds":{".":2147483647}}', 1, 0)
    body = state.any_place(".", 2**31 - 1)
    assert body is not None
    new = [make_body(AVRO, f'"{each}"', (), None, None) for each in ("int", "long", "bytes")]
    made: Any = (lambda: None, "t", "t", state, None, 1_000, lambda: None)
    assert TopicWriter(*made).id_for(".", new[0]) > 2**31 - 1
    writer = TopicWriter(*made, 5_000)
    assert writer.id_for(".", body.body) == 2**31 - 1
    assert [writer.id_for(".", each) for each in new] == [5_000, 5_001, 5_002]
    later = b'{"keytype":"SCHEMA","subject":"x","version":1,"magic":1}'
    state.replay(later, b'{"id":9000,"schema":"\\"int\\""}', 2, 0)
    assert TopicWriter(*made, 5_000).id_for(".", new[1]) == 9_001


def test_zero_is_an_id_that_a_text_keeps() -> None:
    state = State()
    key, value = b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b'{"id":0,"schema":"\\"int\\""}'
    state.replay(key, value, 0, 0)
    first = state.get("a", 1)
    assert first is not None
    writer = TopicWriter(lambda: None, "t", "t", state, None, 1_000, lambda: None)  # type: ignore[arg-type,return-value]
    assert writer.id_for(".", first.body) == 0


def test_a_schema_that_is_not_valid_does_not_fit_with_its_reason(registry: MemoryRegistry) -> None:
    for version in (None, "latest"):
        found = registry.compatibility("a", version, {"schema": "{"}, verbose=True)
        assert found["is_compatible"] is False
        assert "Invalid schema of type AVRO" in found["messages"][0]
        assert (
            registry.refusal(registry.compatibility, "a", version, {"schema": "{"})[0] == Code.INVALID_SCHEMA
        )
    refused = registry.refusal(registry.compatibility, "a", "1", {"schema": "{"}, verbose=True)
    assert refused[0] == Code.VERSION_NOT_FOUND
