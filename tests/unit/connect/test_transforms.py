"""Transforms: record by record what Kafka's make of it; with and without schema the same; however cut."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given as given_values
from hypothesis import strategies as st
from kafka_questions import answers

from moldau.connect import Batch, Header, Schema, TopicPartition, Type, batch_of
from moldau.connect import rows as rows_of
from moldau.connect.batch import Column
from moldau.connect.converters.json.converter import JsonConverter
from moldau.connect.errors import BadRecord, ConnectError
from moldau.connect.schema import struct_schema
from moldau.connect.transform import Transform
from moldau.connect.transforms.building import chain_of, problems_of
from moldau.connect.transforms.building import rows_of as rows_for
from moldau.connect.transforms.chain import Chain, Stage
from moldau.connect.transforms.field_path import path_of
from moldau.connect.values import column_of, python_values

ASKED = answers("transform")
BETTER_HERE = (
    "Cannot list fields on non-struct type",  # what is found is said, or nothing is wrong
    "Cannot invoke",  # a field that is not there is named
    "Conversion error: null value for field that is required",  # a field of a null record
    "Decimal value has mismatching scale",  # a masked decimal keeps its scale
)


def with_schemas() -> JsonConverter:
    made = JsonConverter()
    made.configure({"schemas.enable": True, "replace.null.with.default": False}, False)
    return made


def column_of_json(node: Any) -> Column:
    (run,), refused = with_schemas().to_columns(
        "t", pa.array([None if node is None else orjson.dumps(node)], pa.binary())
    )
    assert refused == []
    return run.column


def described(column: Column) -> list[Any]:
    written, refused = with_schemas().to_payloads("t", column)
    assert refused == []
    return [None if each is None else json.loads(each) for each in written.to_pylist()]


def batch_of_json(record: dict[str, Any]) -> Batch:
    headers = []
    for name, node in record.get("headers", ()):
        column = column_of_json(node)
        headers.append(Header(name, python_values(column)[0], column.schema))
    time = record.get("timestamp")
    return Batch(
        record.get("topic", "t"),
        column_of_json(record.get("key")),
        column_of_json(record.get("value")),
        pa.array([time], pa.int64()),
        (tuple(headers),),
        None,
        TopicPartition("origin", record.get("partition", 0)),
        pa.array([record.get("offset", 0)], pa.int64()),
    )


def header_json(header: Header) -> Any:
    if header.schema is None:
        return described(Column(None, [header.value]))[0]
    return described(column_of(header.schema, [header.value]))[0]


def records_of(batch: Batch) -> list[dict[str, Any]]:
    headers = batch.headers or ((),) * len(batch)
    return [
        {
            "topic": batch.topic,
            "key": key,
            "value": value,
            "timestamp": time,
            "headers": [[each.key, header_json(each)] for each in every],
        }
        for key, value, time, every in zip(
            described(batch.key),
            described(batch.value),
            batch.timestamps_ms.to_pylist(),
            headers,
            strict=True,
        )
    ]


def chain(kind: str, config: dict[str, str]) -> Any:
    return chain_of(
        {"transforms": "x", "transforms.x.type": kind, **{f"transforms.x.{k}": v for k, v in config.items()}}
    )


@pytest.mark.parametrize("index", range(len(ASKED)))
def test_as_kafka_does(index: int) -> None:
    question, answer = ASKED[index]
    try:
        made = chain(question["type"], question["config"])
    except ConnectError:
        assert "error" in answer
        return
    batch = batch_of_json(question["record"])
    batches, failures = made.apply(batch)
    if "does not have corresponding schema type" in answer.get("error", ""):
        return  # a date without schema: transformed, and not to be written as JSON
    if answer.get("error", "").startswith(BETTER_HERE):
        assert failures == [] or len(str(failures[0].error)) > 20
        return
    if "error" in answer:
        assert batches == []
        assert isinstance(failures[0].error, BadRecord)
        assert str(failures[0].error)[:45] == answer["error"][:45]
        return
    assert [str(each.error) for each in failures] == []
    if answer["record"] is None:
        assert batches == []
        return
    (result,) = [each for made_batch in batches for each in records_of(made_batch)]
    expected = answer["record"]
    for side in ("key", "value"):  # a null value with a schema is a tombstone here
        if (
            expected[side] is not None
            and expected[side]["payload"] is None
            and expected[side]["schema"] is not None
        ):
            expected[side] = None
    assert result == expected
    assert batches[0].origin == batch.origin
    assert batches[0].offsets == batch.offsets


ROWS = [
    {
        "id": number,
        "name": None if number % 3 == 0 else f"n{number}",
        "in": {"x": number * 1.5, "y": None},
        "big": number,
    }
    for number in range(9)
]
SCHEMA = struct_schema(
    {
        "id": Schema(Type.INT64, True),
        "name": Schema(Type.STRING, True),
        "in": struct_schema({"x": Schema(Type.FLOAT64, True), "y": Schema(Type.STRING, True)}, optional=True),
        "big": Schema(Type.INT64, True),
    }
)
TWINS: list[tuple[str, dict[str, str]]] = [
    ("ReplaceField$Value", {"exclude": "big", "renames": "id:key"}),
    (
        "InsertField$Value",
        {"topic.field": "t", "partition.field": "p", "static.field": "s", "static.value": "v"},
    ),
    ("InsertField$Value", {"offset.field": "o"}),
    ("MaskField$Value", {"fields": "id,name"}),
    ("Cast$Value", {"spec": "id:string,big:float64"}),
    ("ExtractField$Value", {"field": "in"}),
    ("ExtractField$Value", {"field": "in.x", "field.syntax.version": "V2"}),
    ("Flatten$Value", {"delimiter": "_"}),
    ("HoistField$Value", {"field": "all"}),
    ("ValueToKey", {"fields": "id,name"}),
    ("HeaderFrom$Value", {"fields": "id", "headers": "h", "operation": "move"}),
    ("TimestampRouter", {"timestamp.format": "yyyyMMddHH"}),
    (
        "TimestampConverter$Value",
        {"field": "id", "target.type": "string", "format": "yyyy-MM-dd HH:mm:ss.SSS"},
    ),
    ("RegexRouter", {"regex": "(.*)s", "replacement": "$1"}),
]


def sink_batch(rows: list[Any], schema: Schema | None) -> Batch:
    made = batch_of("orders", rows, schema, keys=[{"k": n} for n in range(len(rows))])
    times = pa.array([number * 1_000_000 for number in range(len(rows))], pa.int64())
    offsets = pa.array(range(100, 100 + len(rows)), pa.int64())
    return replace(made, timestamps_ms=times, origin=TopicPartition("orders", 2), offsets=offsets)


def outcome(batches: Any) -> list[Any]:
    """All records, whatever they are in."""
    return [
        (
            batch.topic,
            row.key,
            row.value,
            row.timestamp_ms,
            [(h.key, h.value) for h in row.headers],
            row.offset,
        )
        for batch in batches
        for row in rows_of(batch)
    ]


@pytest.mark.parametrize(("kind", "config"), TWINS)
def test_with_and_without_schema_and_however_cut(kind: str, config: dict[str, str]) -> None:
    made = chain(kind, config)
    rows = [
        None if n == 4 and kind not in ("ValueToKey", "HeaderFrom$Value", "MaskField$Value") else row
        for n, row in enumerate(ROWS)
    ]
    typed_batch = sink_batch(rows, SCHEMA)
    with_schema, failures = made.apply(typed_batch)
    assert failures == []
    without, failures = made.apply(sink_batch(rows, None))
    assert failures == []
    assert outcome(with_schema) == outcome(without)
    for size in (1, 2, 5):
        parts = [made.apply(part)[0] for part in typed_batch.split(size)]
        assert [each for part in parts for each in outcome(part)] == outcome(with_schema)


def config_of(**settings: str) -> dict[str, str]:
    return {key.replace("__", "."): text for key, text in settings.items()}


def test_a_chain_with_predicates_keeps_the_order() -> None:
    config = {
        "transforms": "drop,mark,route,rest",
        "transforms.drop.type": "Filter",
        "transforms.drop.predicate": "dead",
        "transforms.mark.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.mark.header": "seen",
        "transforms.mark.value.literal": "1",
        "transforms.mark.predicate": "orders",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "orders",
        "transforms.route.replacement": "marked",
        "transforms.route.predicate": "has",
        "transforms.route.negate": "true",
        "transforms.rest.type": "HoistField$Value",
        "transforms.rest.field": "v",
        "predicates": "dead,orders,has",
        "predicates.dead.type": "RecordIsTombstone",
        "predicates.orders.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.orders.pattern": "ord.*",
        "predicates.has.type": "HasHeaderKey",
        "predicates.has.name": "h",
    }
    batch = sink_batch([1, None, 2, 3, None, 4], Schema(Type.INT64, True))
    marked = tuple((Header("h", 1),) if number in (0, 2, 5) else () for number in range(6))
    batches, failures = chain_of(config).apply(replace(batch, headers=marked))
    assert failures == []
    found = [
        (topic, value["v"], offset, len(headers)) for topic, _, value, _, headers, offset in outcome(batches)
    ]
    assert found == [
        ("orders", 1, 100, 2),
        ("orders", 2, 102, 2),
        ("marked", 3, 103, 1),
        ("orders", 4, 105, 2),
    ]


def test_failures_name_row_and_stage_and_the_rest_goes_on() -> None:
    config = {
        "transforms": "numbers,field",
        "transforms.numbers.type": "Cast$Value",
        "transforms.numbers.spec": "n:int32",
        "transforms.field.type": "ExtractField$Value",
        "transforms.field.field": "n",
    }
    rows = [{"n": "1"}, {"n": "x"}, None, {"n": "3"}, 5, {"n": "y"}]
    batches, failures = chain_of(config).apply(sink_batch(rows, None))
    assert [(each.row, each.stage.name) for each in failures] == [
        (1, "numbers"),
        (4, "numbers"),
        (5, "numbers"),
    ]
    assert [value for _, _, value, *_ in outcome(batches)] == [1, None, 3]
    assert [offset for *_, offset in outcome(batches)] == [100, 102, 103]
    typed_rows = sink_batch(
        [row for row in rows if row != 5], struct_schema({"n": Schema(Type.STRING, True)})
    )
    batches, failures = chain_of(config).apply(typed_rows)
    assert [each.row for each in failures] == [1, 4]
    assert [value for _, _, value, *_ in outcome(batches)] == [1, None, 3]


def twice(batch: Batch) -> list[Batch]:
    return [batch, replace(batch, topic=f"{batch.topic}-copy")]


def anew(batch: Batch, factor: str = "1") -> Batch:
    return batch_of(batch.topic, [{"n": row.value * int(factor)} for row in rows_of(batch)])


def careless(batch: Batch) -> Any:
    return (
        None
        if len(batch) > 1 and 1 / (0 if any(row.value == 2 for row in rows_of(batch)) else 1) > 5
        else batch
    )


def test_functions_of_ones_own() -> None:
    here = f"{__name__}:"
    config = {
        "transforms": "a,b",
        "transforms.a.type": f"{here}anew",
        "transforms.a.factor": "10",
        "transforms.b.type": f"{here}twice",
    }
    batches, failures = chain_of(config).apply(sink_batch([1, 2], None))
    assert failures == []
    assert [(topic, value["n"], offset) for topic, _, value, *_, offset in outcome(batches)] == [
        ("orders", 10, 100), ("orders", 20, 101), ("orders-copy", 10, 100), ("orders-copy", 20, 101),
    ]  # fmt: skip
    raising = {"transforms": "c", "transforms.c.type": f"{here}careless"}
    batches, failures = chain_of(raising).apply(sink_batch([1, 2, 3], None))
    assert [(each.row, type(each.error)) for each in failures] == [] or failures[0].row == 1
    wrong = {"transforms": "a", "transforms.a.type": f"{here}anew", "transforms.a.nope": "1"}
    assert "nope" in problems_of(wrong)["transforms.a.type"][0]


@pytest.mark.parametrize(
    ("config", "key", "reason"),
    [
        (config_of(transforms="a"), "transforms.a.type", "Missing required configuration"),
        (
            config_of(transforms="a,a", transforms__a__type="Filter"),
            "transforms",
            "Duplicate alias provided.",
        ),
        (
            config_of(transforms="a", transforms__a__type="Nope"),
            "transforms.a.type",
            "not known as a transformation",
        ),
        (
            config_of(transforms="a", transforms__a__type="Cast$Value"),
            "transforms.a.spec",
            "Missing required",
        ),
        (
            config_of(transforms="a", transforms__a__type="Cast$Value", transforms__a__spec="x:bytes"),
            "transforms.a.spec",
            "does not support casting to BYTES",
        ),
        (
            config_of(transforms="a", transforms__a__type="Filter", transforms__a__predicate="p"),
            "transforms.a.predicate",
            "Predicate not found",
        ),
        (
            config_of(transforms="a", transforms__a__type="Filter", transforms__a__negate="true"),
            "transforms.a.negate",
            "has no effect",
        ),
        (
            config_of(
                predicates="p", predicates__p__type="TopicNameMatches", predicates__p__pattern="(a)\\1"
            ),
            "predicates.p.pattern",
            "Invalid regex",
        ),
        (
            config_of(transforms="a", transforms__a__type="InsertField$Value"),
            "transforms.a.type",
            "No field insertion configured",
        ),
        (
            config_of(transforms="a", transforms__a__type="RecordIsTombstone"),
            "transforms.a.type",
            "not known as a transformation",
        ),
    ],
)
def test_wrong_settings_are_named(config: dict[str, str], key: str, reason: str) -> None:
    problems = problems_of(config)
    assert reason in problems[key][0]
    with pytest.raises(ConnectError):
        chain_of(config)


def test_rows_of_settings_are_in_kafkas_groups() -> None:
    rows = rows_for(
        {
            "transforms": "a,b",
            "transforms.a.type": "Cast$Value",
            "transforms.b.type": "Nope",
            "predicates": "p",
        }
    )
    assert [(row.name, row.group, row.order) for row in rows][:5] == [
        ("transforms.a.type", "Transforms: a", 0),
        ("transforms.a.predicate", "Transforms: a", 1),
        ("transforms.a.negate", "Transforms: a", 2),
        ("transforms.a.spec", "Transforms: a", 3),
        ("transforms.a.replace.null.with.default", "Transforms: a", 4),
    ]
    assert [row.name for row in rows][5:] == [
        "transforms.b.type",
        "transforms.b.predicate",
        "transforms.b.negate",
        "predicates.p.type",
    ]


def test_insert_field_of_a_source_has_no_offset() -> None:
    batch = batch_of("t", [{"a": 1}])
    _, failures = chain("InsertField$Value", {"offset.field": "o"}).apply(batch)
    assert "Only SinkRecord supported" in str(failures[0].error)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("a", ("a",)),
        ("`a`", ("a",)),
        ("x.`a\\`b`", ("x", "a`b")),
    ],
)
def test_paths_of_nested_fields(path: str, names: tuple[str, ...]) -> None:
    assert path_of(path, "V2") == names
    assert path_of(path, "V1") == (path,)
    with pytest.raises(ConnectError, match="Incomplete backtick"):
        path_of("`a", "V2")


def test_a_long_text_that_is_no_number_is_refused_at_once() -> None:
    """By a time that grows with its length: tens of seconds, where it grows with the square."""
    batch = batch_of("t", [{"a": "1" * 40_000 + "x"}, {"a": "1.5"}])
    begun = time.process_time()
    (made,), (failure,) = chain("Cast$Value", {"spec": "a:float64"}).apply(batch)
    assert time.process_time() - begun < 5
    assert (failure.row, made.value.values) == (0, [{"a": 1.5}])


_MAPS = st.dictionaries(
    st.sampled_from("abcd"),
    st.none()
    | st.integers(-(2**64), 2**64)
    | st.text(max_size=3)
    | st.floats(allow_nan=False)
    | st.booleans(),
    max_size=4,
)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("ReplaceField$Value", {"exclude": "a", "renames": "b:x,c:d"}),
        ("ReplaceField$Value", {"renames": "a:b,b:a"}),
        ("ReplaceField$Value", {"include": "a,c"}),
        ("InsertField$Value", {"topic.field": "a", "offset.field": "o", "timestamp.field": "b"}),
        ("Cast$Value", {"spec": "a:int64,b:string,c:float64,d:int8"}),
    ],
)
@given_values(values=st.lists(_MAPS, min_size=1, max_size=6))
def test_maps_at_once_are_what_each_is_alone(
    kind: str, config: dict[str, str], values: list[dict[str, Any]]
) -> None:
    given = [dict(each) for each in values]
    batch = sink_batch(values, None)
    transform = chain(kind, config).stages[0].transform
    transform._added = None  # of the batch before
    at_once = transform.maps(values, batch)
    assert values == given  # they may be somebody else's, too
    if at_once is None:
        return
    alone = [transform.value(each, row, batch) for row, each in enumerate(values)]
    assert at_once == alone
    assert [list(map(type, each.values())) for each in map(_ordered, at_once)] == [
        list(map(type, each.values())) for each in map(_ordered, alone)
    ]


def _ordered(value: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(value.items()))


def test_rows_that_are_refused_one_at_a_time_do_not_cost_the_whole_batch_each() -> None:
    seen = 0

    class OneAtATime(Transform):
        def apply(self, batch: Batch) -> list[Batch]:
            nonlocal seen
            seen += len(batch)
            for row, value in enumerate(batch.value.values):
                if value % 2:
                    raise BadRecord(f"{value} is odd", row)
            return [batch]

    one = Chain([Stage("a", OneAtATime(), "OneAtATime")])
    made, failures = one.apply(sink_batch(list(range(2000)), None))
    assert [value for each in made for value in each.value.values] == list(range(0, 2000, 2))
    assert [each.row for each in failures] == list(range(1, 2000, 2))
    assert [str(each.error) for each in failures[:2]] == ["1 is odd", "3 is odd"]
    assert seen < 2000 * 15  # and not 2000 * 1000
