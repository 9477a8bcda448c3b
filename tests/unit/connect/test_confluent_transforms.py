"""Confluent's transforms, and the conditions of its Filter."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from moldau.connect import Batch, ConnectError, Header, Schema, Type, batch_of
from moldau.connect import rows as rows_of
from moldau.connect.inference import infer_schema
from moldau.connect.schema import struct_schema
from moldau.connect.transforms.building import chain_of, problems_of
from moldau.connect.transforms.confluent.json_condition import condition

CONFLUENT = "io.confluent.connect.transforms."


def applied(kind: str, batch: Batch, **config: str) -> tuple[list[tuple[str, Any]], list[tuple[int, str]]]:
    named = {f"transforms.x.{name.replace('__', '.')}": text for name, text in config.items()}
    chain = chain_of({"transforms": "x", "transforms.x.type": CONFLUENT + kind, **named})
    batches, failures = chain.apply(batch)
    found = [(each.topic, row) for each in batches for row in rows_of(each)]
    return found, [(each.row, str(each.error)) for each in failures]


def both(rows: list[Any]) -> list[Batch]:
    return [batch_of("t", rows), batch_of("t", rows, infer_schema(rows))]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("$.a", True),
        ("$.nope", False),
        ("$.null", False),
        ("$[?(@.a == 5)]", True),
        ("$[?(@.a > 5)]", False),
        ("$[?(@.a >= 5 && @.s == 'x y')]", True),
        ("$[?(@.a > 5 || @.b)]", True),
        ("$[?(!(@.a == 5))]", False),
        ("$[?(@.s =~ /X.*/i)]", True),
        ("$[?(@.s =~ /X/)]", False),
        ("$[?(@.a in [1, 5])]", True),
        ("$[?(@.s nin ['x y'])]", False),
        ("$.list[?(@.n == 2)]", True),
        ("$.list[?(@.n == 3)]", False),
        ("$.list[1].n", True),
        ("$['in']['x.y']", True),
        ("$..n", True),
        ("$[?(@.a == '5')]", False),
        ("$[?(@.s > 4)]", False),
        ("$[?(@.b == true)]", True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    value = {"a": 5, "null": None, "s": "x y", "b": True, "list": [{"n": 1}, {"n": 2}], "in": {"x.y": 1}}
    assert condition(text)(value) is holds


@pytest.mark.parametrize(
    "text", ["", "a", "$.", "$[", "$[?(@.a ==)]", "$.a b", "$[?(@.a =~ /(a)\\1/)]", "$" + "[?(!" * 3000]
)
def test_conditions_that_are_none(text: str) -> None:
    with pytest.raises(ConnectError):
        condition(text)


def test_filter() -> None:
    rows = [{"a": 1}, {"a": 7}, None, {"a": 9}]
    for batch in both(rows):
        found, failures = applied(
            "Filter$Value", batch, filter__condition="$[?(@.a > 5)]", filter__type="include"
        )
        assert [row.value["a"] for _, row in found] == [7, 9]
        assert [row for row, _ in failures] == [2]
        found, failures = applied(
            "Filter$Value",
            batch,
            filter__condition="$[?(@.a > 5)]",
            filter__type="exclude",
            missing__or__null__behavior="include",
        )
        assert [row.value for _, row in found] == [{"a": 1}, None]
        assert failures == []
    config = {
        "transforms": "x",
        "transforms.x.type": f"{CONFLUENT}Filter$Value",
        "transforms.x.filter.condition": "$[",
        "transforms.x.filter.type": "include",
    }
    assert "expected at character" in problems_of(config)["transforms.x.filter.condition"][0]


def test_drop() -> None:
    batch = batch_of("t", [{"a": 1}], struct_schema({"a": Schema(Type.INT32)}), keys=["k"])
    found, _ = applied("Drop$Key", batch)
    assert [(row.key, row.value) for _, row in found] == [(None, {"a": 1})]
    _, failures = applied("Drop$Value", batch, schema__behavior="retain")
    assert "does not allow null" in failures[0][1]
    found, _ = applied("Drop$Value", batch, schema__behavior="force_optional")
    assert found[0][1].value is None


def test_topics_from_fields_and_headers() -> None:
    for batch in both([{"to": {"t": "a"}}, {"to": {"t": "a"}}, {"to": {"t": None}}, {"to": None}]):
        found, failures = applied("ExtractTopic$Value", batch, field="to.t")
        assert ([topic for topic, _ in found], [row for row, _ in failures]) == (["a", "a"], [2, 3])
        found, _ = applied("ExtractTopic$Value", batch, field="to.t", skip__missing__or__null="true")
        assert [topic for topic, _ in found] == ["a", "a", "t", "t"]
    headers = [[Header("h", "x")], [Header("h", 5)], []]
    found, failures = applied("ExtractTopic$Header", batch_of("t", [1, 2, 3], headers=headers), field="h")
    assert ([topic for topic, _ in found], [row for row, _ in failures]) == (["x"], [1, 2])


def test_topics_by_moments_in_the_value() -> None:
    rows = [
        {"at": None, "ms": 86_400_000},
        {"at": "1970-01-03T00:00:00+00:00", "ms": None},
        {"at": None, "ms": None},
    ]
    for batch in both(rows):
        found, failures = applied("MessageTimestampRouter", batch, message__timestamp__keys="at,ms")
        assert [topic for topic, _ in found] == ["t-1970-01-02", "t-1970-01-03"]
        assert [row for row, _ in failures] == [2]


@pytest.mark.parametrize(
    ("behavior", "kept", "failed"),
    [("drop_silent", 1, 0), ("drop_warn", 1, 0), ("ignore", 2, 0), ("warn", 2, 0), ("fail", 1, 1)],
)
def test_tombstones(behavior: str, kept: int, failed: int) -> None:
    found, failures = applied("TombstoneHandler", batch_of("t", [1, None]), behavior=behavior)
    assert (len(found), len(failures)) == (kept, failed)


def test_gzip() -> None:
    packed = gzip.compress(b"hello")
    for batch in (
        batch_of("t", [packed, b"x", None, packed[:-9]]),
        batch_of("t", [packed, b"x", None, packed[:-9]], Schema(Type.BYTES, True)),
    ):
        found, failures = applied("GzipDecompress$Value", batch)
        assert [row.value for _, row in found] == [b"hello", None]
        assert [row for row, _ in failures] == [1, 3]
    _, failures = applied("GzipDecompress$Value", batch_of("t", [gzip.compress(bytes(65 << 20))]))
    assert "more than" in failures[0][1]
