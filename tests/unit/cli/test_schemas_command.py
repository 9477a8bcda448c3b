"""What `moldau schemas` makes of a registry's messages, of files and of texts."""

import json
from pathlib import Path

import pytest

from moldau.tools.commands.schemas.differences import line_differences, pretty, read_messages
from moldau.tools.commands.schemas.files import request_body
from moldau.tools.commands.schemas.requests import Registry
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.schema_registry import registry_conf


def test_messages_are_taken_apart() -> None:
    verdict = read_messages(
        [
            "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path '/f/1' in "
            "the new schema has no default value and is missing in the old schema', additionalInfo:'b'}",
            '{errorType:"FIELD_REMOVED", description:"it\'s "gone""}',
            "{oldSchemaVersion: 3}",
            '{oldSchema: \'{"type":"string"}\'}',
            "{validateFields: 'false', compatibility: 'BACKWARD_TRANSITIVE'}",
            "something else",
        ]
    )
    first, second = verdict.differences
    assert first.kind == "READER_FIELD_MISSING_DEFAULT_VALUE"
    assert first.description.endswith("is missing in the old schema")
    assert (first.additional, first.remedy) == ("b", "give the new field a default")
    assert second == ("FIELD_REMOVED", 'it\'s "gone"', "")
    assert (verdict.version, verdict.level, verdict.other) == (3, "BACKWARD_TRANSITIVE", ["something else"])
    assert "every version" in verdict.level_in_words


@pytest.mark.parametrize(
    ("name", "text", "given", "language"),
    [
        ("a.avsc", "{}", None, "AVRO"),
        ("a.proto", "", None, "PROTOBUF"),
        ("a.json", '{"type":"record","name":"A","fields":[]}', None, "AVRO"),
        ("a.json", '{"type":"object"}', None, "JSON"),
        ("a.json", '"string"', None, "AVRO"),
        ("a", "true", None, "JSON"),
        ("a", 'syntax = "proto3";', None, "PROTOBUF"),
        ("a.avsc", "{}", "json-schema", "JSON"),
    ],
)
def test_the_language_of_a_file(
    tmp_path: Path, name: str, text: str, given: str | None, language: str
) -> None:
    (tmp_path / name).write_text(text)
    body = request_body(str(tmp_path / name), given, ["a=b:c:2"])
    assert body == {
        "schema": text,
        "schemaType": language,
        "references": [{"name": "a", "subject": "b:c", "version": 2}],
    }


@pytest.mark.parametrize("reference", ["a", "a=b", "a=b:x", "=b:1", "a=:1"])
def test_references_that_are_none(tmp_path: Path, reference: str) -> None:
    (tmp_path / "a").write_text("{}")
    with pytest.raises(UsageError, match="NAME=SUBJECT:VERSION"):
        request_body(str(tmp_path / "a"), None, [reference])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        request_body(str(tmp_path / "none"), None, None)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        request_body(str(tmp_path / "binary"), None, None)


def test_texts_are_compared_as_people_read_them() -> None:
    old, new = '{"a":1,"b":[2]}', json.dumps({"a": 1, "b": [3]})
    assert [line for line in line_differences(old, new, "old", "new") if line[0] in "+-"] == [
        "--- old",
        "+++ new",
        "-    2",
        "+    3",
    ]
    assert not line_differences(old, '{ "a": 1, "b": [ 2 ] }', "old", "new")
    assert pretty("message A {}\n") == "message A {}"


def test_a_registry_that_is_not_there_is_a_sentence() -> None:
    registry = Registry(registry_conf("http://127.0.0.1:1,http://user:pw@127.0.0.1:2", None))
    with pytest.raises(CommandError) as problem:
        registry.get("/subjects")
    message = str(problem.value)
    assert message.startswith("no schema registry answers at http://127.0.0.1:1 (Connection refused)")
    assert "`moldau registry`" in message
    assert "pw" not in message


def test_addresses_and_settings_that_are_wrong() -> None:
    with pytest.raises(UsageError, match="is no address"):
        registry_conf("localhost:8081", None)
    with pytest.raises(UsageError, match="user:password"):
        Registry(registry_conf("http://x:1", ["basic.auth.user.info=me"]))
