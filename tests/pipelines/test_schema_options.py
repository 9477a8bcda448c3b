"""Options of records with a schema, and the schemas that a query takes along: no broker, no Spark session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install 'moldau[spark]')")

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, LongType, StringType, StructType

from moldau.schemas.folder_registry import FolderRegistry
from moldau.schemas.registry_client import RegistryError
from moldau.schemas.schema import Reference, SchemaText, SchemaType
from pyspark_moldau import decoding
from pyspark_moldau.data_source import MoldauDataSource, columns, with_schemas
from pyspark_moldau.encoding import encoded_column, pinned_for_writing
from pyspark_moldau.errors import OptionError, SinkError, UndecodableError
from pyspark_moldau.options import parse_options
from pyspark_moldau.pinned_schemas import PinnedSchema, record_name_of
from pyspark_moldau.registries import opened
from pyspark_moldau.schema_options import RecordFormats, parse_formats
from pyspark_moldau.sink_options import check_columns, parse_sink_options

READ = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "schema.registry.url": "http://h:1"}
WRITE = {"kafka.bootstrap.servers": "h:1", "topic": "t", "schema.registry.url": "http://h:1"}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string", "default": ""}],
}


def avro(schema: Any) -> SchemaText:
    return SchemaText(SchemaType.AVRO, json.dumps(schema))


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[FolderRegistry]:
    found = opened({"schema.registry.url": f"folder:{tmp_path}"})
    assert isinstance(found, FolderRegistry)
    yield found
    decoding._decoders.clear()


@pytest.fixture
def at(tmp_path: Path) -> dict[str, str]:
    return {"schema.registry.url": f"folder:{tmp_path}"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"value.format": "arvo"}, "value.format may be binary, avro, json-schema, protobuf, not 'arvo'"),
        ({"value.schema": "2"}, "value.schema has a meaning with value.format=avro"),
        ({"key.subject": "x"}, "key.subject has a meaning with key.format"),
        ({"includeUndecoded": "true"}, "has a meaning with value.format or key.format only"),
        ({"value.format": "avro", "includeUndecoded": "yes"}, "includeUndecoded must be true or false"),
        ({"value.format": "avro", "badRecords": "skip"}, "badRecords must be fail, drop or null"),
        ({"value.format": "avro", "value.schema": "newest"}, "must be latest or the number of a version"),
        ({"value.format": "avro", "value.schema": "register"}, "must be latest or the number of a version"),
        ({"value.format": "avro", "value.schema": "0"}, "must be latest or the number of a version"),
        ({"value.format": "avro", "value.schema.id": "x"}, "value.schema.id must be a whole number"),
        ({"value.format": "avro", "value.schema.pinned": "{}"}, "value.schema.pinned is not what"),
        (
            {"value.format": "avro", "value.subject.name.strategy": "mine"},
            "value.subject.name.strategy: 'mine' is no subject name strategy",
        ),
        ({"value.format": "avro", "schema.registry.url": ""}, "needs the option schema.registry.url"),
        ({"value.formt": "avro"}, "did you mean value.format\\?"),
    ],
)
def test_wrong_options_for_reading(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        parse_options(READ | options)


def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_moldau.schema_options.PACKAGES", ("no_such_package",))
    parse_options(READ)
    with pytest.raises(OptionError, match=r"\(no_such_package\): pip install 'moldau\[schemas\]'"):
        parse_options(READ | {"value.format": "avro"})


def test_options_of_the_registry_are_kept_and_not_shown() -> None:
    options = parse_options(READ | {"value.format": "avro", "Basic.Auth.User.Info": "me:secret"})
    assert options.formats.registry["basic.auth.user.info"] == "me:secret"
    assert "secret" not in repr(options)


def test_what_is_written_needs_a_struct_and_one_topic() -> None:
    options = parse_sink_options(WRITE | {"value.format": "avro", "key.format": "avro"}, streaming=False)
    struct = StructType().add("id", LongType())
    with pytest.raises(OptionError, match=r"key\.format needs a column named key, a struct"):
        check_columns(StructType().add("value", struct), options)
    plain = StructType().add("value", StringType()).add("key", struct)
    check_columns(plain, options)
    with pytest.raises(OptionError, match=r"the column value is string: make one with struct\("):
        pinned_for_writing(options.formats, "t", plain)
    odd = StructType().add("value", StructType().add("a b", LongType())).add("key", struct)
    with pytest.raises(OptionError, match=r"value.format=avro: .*a b"):
        pinned_for_writing(
            parse_formats({"value.format": "avro", "schema.registry.url": "x"}, writing=True), "t", odd
        )
    with pytest.raises(OptionError, match=r"There is more than one topic: give key\.subject"):
        pinned_for_writing(options.formats, None, StructType().add("value", struct).add("key", struct))


def test_a_query_takes_the_schema_of_its_start_along(registry: FolderRegistry, at: dict[str, str]) -> None:
    registry.register("t-value", avro(ORDER))
    source = MoldauDataSource(READ | at | {"value.format": "avro", "includeUndecoded": "true"})
    began = source.schema()
    value = began["value"].dataType
    assert isinstance(value, StructType)
    assert value.fieldNames() == ["id", "who"]
    assert all(each.nullable for each in value.fields)
    more = {**ORDER, "fields": [*ORDER["fields"], {"name": "paid", "type": "boolean", "default": False}]}
    assert registry.register("t-value", avro(more)).version == 2
    # The readers of the same query still have the first; the schema given back by Spark is compared.
    assert source._checked("batch", began).formats.value.pinned.version == 1  # type: ignore[union-attr]
    newer = columns(with_schemas(parse_options(READ | at | {"value.format": "avro"})))
    assert newer["value"].dataType.fieldNames() == ["id", "who", "paid"]  # type: ignore[attr-defined]
    with pytest.raises(RegistryError, match="no version 7 of 't-value'"):
        with_schemas(parse_options(READ | at | {"value.format": "avro", "value.schema": "7"}))
    several = READ | at | {"subscribe": "a,b", "value.format": "avro"}
    with pytest.raises(OptionError, match=r"more than one topic: give value\.subject"):
        with_schemas(parse_options(several))
    with_schemas(parse_options(several | {"value.subject": "t-value"}))


def test_a_pinned_schema_needs_no_registry(registry: FolderRegistry) -> None:
    registry.register("part", avro({"type": "enum", "name": "Size", "symbols": ["S", "L"]}))
    fields = [{"name": "size", "type": "Size"}]
    source = avro({"type": "record", "name": "Shirt", "fields": fields})
    whole = SchemaText(source.schema_type, source.text, (Reference("Size", "part", 1),))
    found = registry.register("t-value", whole)
    from pyspark_moldau.pinned_schemas import pinned

    option = pinned(found.id, found.parsed, "t-value", 1).as_option()
    assert PinnedSchema.from_option(option).as_option() == option
    formats = parse_formats(
        {"value.format": "avro", "value.schema.pinned": option, "schema.registry.url": "http://nowhere:1"},
        writing=False,
    )
    (made,) = decoding.decoded(
        [records([(None, b"\0\0\0\0" + bytes([found.id]) + b"\2")])], formats, keep_headers=False
    )
    assert made.column("value").to_pylist() == [{"size": "L"}]


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def records(
    pairs: list[tuple[bytes | None, bytes | None]], headers: list[Any] | None = None
) -> pa.RecordBatch:
    count = len(pairs)
    return pa.record_batch(
        {
            "key": pa.array([key for key, _ in pairs], pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
            "topic": pa.array(["t"] * count),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(100, 100 + count), pa.int64()),
            "headers": pa.array(headers or [None] * count, HEADERS),
        }
    )


def test_a_bad_key_or_value_makes_the_record_bad(registry: FolderRegistry, at: dict[str, str]) -> None:
    key_id = registry.register("t-key", avro("long")).id
    value_id = registry.register("t-value", avro(ORDER)).id
    assert {key_id, value_id} == {1, 2}
    good_key, good = b"\0\0\0\0\1\x0e", b"\0\0\0\0\2\x02\x04me"
    batch = records(
        [(good_key, good), (b"7", good), (good_key, good + b"x"), (good_key, None), (None, b"\0\0\0\0\7")]
    )
    options = at | {"key.format": "avro", "value.format": "avro"}

    def decoded(more: dict[str, str]) -> pa.RecordBatch:
        source = READ | options | more
        formats = with_schemas(parse_options(source)).formats
        (made,) = decoding.decoded([batch], formats, keep_headers=False)
        return made

    row, seven = {"id": 1, "who": "me"}, {"value": 7}
    made = decoded({"includeundecoded": "true"})
    assert made.column("value").to_pylist() == [row, None, None, None, None]
    assert made.column("key").to_pylist() == [seven, None, None, seven, None]
    assert made.column("undecodedKey").to_pylist() == [None, b"7", good_key, None, None]
    assert made.column("undecodedValue").to_pylist() == [None, good, good + b"x", None, b"\0\0\0\0\7"]
    reasons = made.column("undecodedReason").to_pylist()
    assert reasons[0] is reasons[3] is None
    assert reasons[1].startswith("the key has no schema: it begins with byte 55")
    assert reasons[2] == "the value is not what its schema 2 says"
    assert reasons[4] == "the value has schema 7, which cannot be read: the registry has no schema 7"
    assert decoded({"badrecords": "null"}).column("value").to_pylist() == [row, None, None, None, None]
    dropped = decoded({"badrecords": "drop"})
    assert dropped.column("offset").to_pylist() == [100, 103]
    with pytest.raises(UndecodableError, match="bad record at t-3 offset 101: the key has no schema"):
        decoded({})
    # What was unknown may be registered later, in the same process.
    for number in range(3, 8):
        registry.register(f"other{number}", avro({**ORDER, "doc": str(number)}))
    assert registry.by_id(7)
    assert decoded({"includeundecoded": "true"}).column("undecodedReason").to_pylist()[4] == (
        "the value is not what its schema 7 says"
    )


def test_a_header_may_name_the_schema(registry: FolderRegistry, at: dict[str, str]) -> None:
    registry.register("t-value", avro(ORDER))
    formats = with_schemas(
        parse_options(READ | at | {"value.format": "avro", "includeUndecoded": "true"})
    ).formats
    by_id = {"key": "__value_schema_id", "value": b"\0\0\0\0\1"}
    by_guid = {"key": "__value_schema_id", "value": b"\1" + bytes(16)}
    other, null = {"key": "trace", "value": b"7"}, {"key": "__value_schema_id", "value": None}
    payload = b"\2\4me"
    batch = records(
        [(None, payload), (None, payload), (None, b"\0\0\0\0\1" + payload), (None, None), (None, payload)],
        [[other, by_id, by_guid], [by_guid], [null, other], [by_id], None],
    )
    for one in (batch, batch.slice(0, 4), batch.slice(1), batch.slice(4)):
        (made,) = decoding.decoded([one], formats, keep_headers=True)
        assert made.column("headers") == one.column("headers")
    (made,) = decoding.decoded([batch], formats, keep_headers=False)
    assert "headers" not in made.schema.names
    row = {"id": 1, "who": "me"}
    assert made.column("value").to_pylist() == [row, None, row, None, None]
    reasons = made.column("undecodedReason").to_pylist()
    assert reasons[1].startswith("the value has schema 00000000-0000")
    assert reasons[3] is None
    assert reasons[4].startswith("the value has no schema: it begins with byte 2")


def test_a_registry_that_is_away_is_no_bad_record(
    registry: FolderRegistry, at: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    older = avro({**ORDER, "fields": ORDER["fields"][:1]})
    assert [registry.register("t-value", each).version for each in (avro(ORDER), older)] == [1, 2]
    options = {"value.format": "avro", "value.schema": "1", "badRecords": "drop"}
    formats = with_schemas(parse_options(READ | at | options)).formats

    def away(schema_id: int) -> Any:
        raise RegistryError("the registry cannot be reached")

    monkeypatch.setattr(registry, "by_id", away)
    (made,) = decoding.decoded(
        [records([(None, b"\0\0\0\0\1\2\4me")])], formats, keep_headers=False
    )  # the reader's: sent along
    assert made.column("value").to_pylist() == [{"id": 1, "who": "me"}]
    # So are other versions of the subject.
    (made,) = decoding.decoded([records([(None, b"\0\0\0\0\2\2")])], formats, keep_headers=False)
    assert made.column("value").to_pylist() == [{"id": 1, "who": ""}]
    with pytest.raises(RegistryError, match="cannot be reached"):
        list(decoding.decoded([records([(None, b"\0\0\0\0\3\2\4me")])], formats, keep_headers=False))


def test_a_schema_without_columns_is_a_sentence(registry: FolderRegistry, at: dict[str, str]) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    registry.register("t-value", avro(node))
    with pytest.raises(
        OptionError, match=r"value.format: the schema of t-value cannot be read: Node contains"
    ):
        columns(with_schemas(parse_options(READ | at | {"value.format": "avro"})))
    with pytest.raises(
        OptionError, match=r"value\.format is protobuf, and the registry's schema of t-value is AVRO"
    ):
        with_schemas(parse_options(READ | at | {"value.format": "protobuf"}))


def test_rows_are_written_with_a_schema_of_nullable_columns(
    registry: FolderRegistry, at: dict[str, str]
) -> None:
    struct = StructType().add("id", LongType(), False).add("tags", ArrayType(StringType(), False), False)
    schema = StructType().add("value", struct)

    def formats(**more: str) -> RecordFormats:
        texts = {f"value.{name}".replace("_", "."): text for name, text in more.items()}
        return parse_formats(at | {"value.format": "avro"} | texts, writing=True)

    pinned = pinned_for_writing(formats(), "large-orders", schema)
    found = registry.latest("large-orders-value")
    assert found.parsed.name == "LargeOrders"
    assert json.loads(found.parsed.canonical)["fields"][0]["type"] == ["null", "long"]
    assert pinned_for_writing(formats(), "large-orders", schema) == pinned  # found, not registered again
    rows = pa.array([{"id": 1, "tags": ["a"]}, None, {"id": None, "tags": None}])
    written = encoded_column(rows, pinned.value)
    assert written[1].as_py() is None
    (made,) = decoding.decoded(
        [records([(None, each) for each in written.to_pylist()])],
        with_schemas(
            parse_options(READ | at | {"value.format": "avro", "value.subject": "large-orders-value"})
        ).formats,
        keep_headers=False,
    )
    assert made.column("value").to_pylist() == rows.to_pylist()

    registry.register("fixed", avro(ORDER))
    with pytest.raises(OptionError, match="fixed has no field tags; it has id, who"):
        pinned_for_writing(formats(schema="latest", subject="fixed"), "t", schema)
    ids = StructType().add("value", StructType().add("id", LongType()))
    fits = pinned_for_writing(formats(schema="1", subject="fixed"), "t", ids)
    assert encoded_column(pa.array([{"id": 1}]), fits.value)[0].as_py() == b"\0\0\0\0\2\2\0"
    with pytest.raises(SinkError, match="a value cannot be written with the schema of fixed"):
        encoded_column(pa.array([{"id": None}], pa.struct([("id", pa.int64())])), fits.value)


@pytest.mark.parametrize(
    ("topic", "side", "name"),
    [
        ("delays-by-hour", "value", "DelaysByHour"),
        ("shop.orders_v2", "key", "ShopOrdersV2Key"),
        ("2013", "value", "Record2013"),
        ("übung", "value", "Bung"),
        ("---", "value", "Record"),
    ],
)
def test_a_record_nobody_has_named_is_named_after_its_topic(topic: str, side: str, name: str) -> None:
    assert record_name_of(topic, side) == name


def test_the_folder_registry_answers_as_one_does(tmp_path: Path) -> None:
    registry = FolderRegistry(tmp_path)
    with pytest.raises(RegistryError, match="no subject 'a'") as missing:
        registry.latest("a")
    assert missing.value.is_not_found
    with pytest.raises(RegistryError, match="no schema 1"):
        registry.by_id(1)
    one = registry.register("a", avro(ORDER))
    assert (one.id, one.version) == (1, 1)
    assert registry.register("b", avro(ORDER)).id == 1
    changed = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
    with pytest.raises(RegistryError, match="cannot read the newest of 'a'") as refused:
        registry.register("a", avro(changed))
    assert refused.value.error_code == 409
    assert not refused.value.is_not_found
    with pytest.raises(RegistryError, match="the schema of 'a' is invalid"):
        registry.register("a", SchemaText(SchemaType.AVRO, "{"))
    with pytest.raises(RegistryError, match="the reference X is to version 9 of 'a'"):
        registry.register("c", SchemaText(SchemaType.AVRO, '"X"', (Reference("X", "a", 9),)))
    assert registry.register("c", avro(changed)).id == 2
    again = FolderRegistry(tmp_path)
    assert again.latest("c").parsed.canonical == registry.by_id(2).canonical


@pytest.mark.parametrize("form", ["avro", "json-schema", "protobuf"])
def test_rows_keep_their_meaning_while_columns_come_and_go(
    form: str, registry: FolderRegistry, at: dict[str, str]
) -> None:
    inner = StructType().add("x", LongType()).add("y", LongType())
    first = StructType().add("a", LongType()).add("b", LongType()).add("c", inner)
    # A column before the others, one fewer, and the same inside.
    changed = StructType().add("z", LongType()).add("x", LongType())
    second = StructType().add("new", LongType()).add("b", LongType()).add("c", changed)
    options = at | {"value.format": form}

    def written(kind: StructType, row: dict[str, Any]) -> bytes:
        formats = parse_formats(options, writing=True)
        pinned = pinned_for_writing(formats, "t", StructType().add("value", kind))
        record = encoded_column(pa.array([row], to_arrow_type(kind)), pinned.value)[0].as_py()
        assert isinstance(record, bytes)
        return record

    def read(version: str, *values: bytes) -> list[Any]:
        chosen = READ | options | {"value.schema": version}
        formats = with_schemas(parse_options(chosen)).formats
        batch = records([(None, value) for value in values])
        (made,) = decoding.decoded([batch], formats, keep_headers=False)
        found: list[Any] = made.column("value").to_pylist()
        return found

    old_row = {"a": 1, "b": 2, "c": {"x": 3, "y": 4}}
    new_row = {"new": 5, "b": 6, "c": {"z": 7, "x": 8}}
    old = written(first, old_row)
    if form == "json-schema":  # in which a column more is no compatible change, as Confluent judges it
        with pytest.raises(RegistryError, match="cannot read the newest"):
            written(second, new_row)
        assert read("latest", old) == [old_row]
        return
    new = written(second, new_row)
    assert read("1", old, new) == [old_row, {"a": None, "b": 6, "c": {"x": 8, "y": None}}]
    assert read("2", old, new) == [{"new": None, "b": 2, "c": {"z": None, "x": 3}}, new_row]
    # A third with the first one's columns takes no number that had another meaning.
    third = written(first, old_row)
    assert read("2", third) == [{"new": None, "b": 2, "c": {"z": None, "x": 3}}]
    if form == "protobuf":
        assert registry.latest("t-value").version == 3
        assert read("3", old, third) == [{"a": None, "b": 2, "c": {"x": 3, "y": None}}, old_row]
    else:  # the same schema again
        assert registry.latest("t-value").version == 2


def test_a_protobuf_schema_that_reserves_everything_is_a_sentence(
    registry: FolderRegistry, at: dict[str, str]
) -> None:
    text = 'syntax = "proto3"; message T { int64 a = 1; reserved 2 to max; }'
    registry.register("t-value", SchemaText(SchemaType.PROTOBUF, text))
    formats = parse_formats(at | {"value.format": "protobuf"}, writing=True)
    rows = StructType().add("value", StructType().add("a", LongType()).add("b", LongType()))
    with pytest.raises(OptionError, match="reserves all numbers that b could have"):
        pinned_for_writing(formats, "t", rows)
    fewer = StructType().add("value", StructType().add("a", LongType()))
    assert pinned_for_writing(formats, "t", fewer).value is not None
