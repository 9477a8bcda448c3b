"""Debezium's transforms: with and without schema the same."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.connect import Batch, Header, Schema, Type, batch_of
from moldau.connect import rows as rows_of
from moldau.connect.schema import struct_schema
from moldau.connect.transforms.building import chain_of, problems_of

STRING = Schema(Type.STRING, True)
ROW = struct_schema({"id": Schema(Type.INT32), "name": STRING}, "s.t.Value", True)
ENVELOPE = struct_schema(
    {
        "before": ROW,
        "after": ROW,
        "source": struct_schema({"table": STRING, "ts_ms": Schema(Type.INT64, True)}),
        "op": Schema(Type.STRING),
        "ts_ms": Schema(Type.INT64, True),
    },
    "s.t.Envelope",
)
SOURCE = {"table": "t", "ts_ms": 5}
EVENTS: list[Any] = [
    {"before": None, "after": {"id": 1, "name": "a"}, "source": SOURCE, "op": "c", "ts_ms": 6},
    {
        "before": {"id": 1, "name": "a"},
        "after": {"id": 1, "name": "b"},
        "source": SOURCE,
        "op": "u",
        "ts_ms": 7,
    },
    {"before": {"id": 1, "name": "b"}, "after": None, "source": SOURCE, "op": "d", "ts_ms": 8},
    None,
    {"before": None, "after": None, "source": SOURCE, "op": "t", "ts_ms": 9},
]
A, B = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
NEW_STATE = "io.debezium.transforms.ExtractNewRecordState"


def both() -> list[Batch]:
    keys = [{"id": 1}] * 5
    return [batch_of("s.t", EVENTS, schema, keys) for schema in (ENVELOPE, None)]


def applied(kind: str, batch: Batch, **config: str) -> tuple[list[tuple[str, Any]], list[str]]:
    named = {f"transforms.x.{name.replace('__', '.')}": text for name, text in config.items()}
    batches, failures = chain_of({"transforms": "x", "transforms.x.type": kind, **named}).apply(batch)
    found = [(each.topic, row) for each in batches for row in rows_of(each)]
    return found, [str(each.error) for each in failures]


@pytest.mark.parametrize(
    ("mode", "values"),
    [
        ("tombstone", [A, B, None]),
        ("drop", [A, B]),
        ("delete-to-tombstone", [A, B, None]),
        ("rewrite", [A | {"__deleted": "false"}, B | {"__deleted": "false"}, B | {"__deleted": "true"}]),
        (
            "rewrite-with-tombstone",
            [A | {"__deleted": "false"}, B | {"__deleted": "false"}, B | {"__deleted": "true"}, None],
        ),
    ],
)
def test_new_state(mode: str, values: list[Any]) -> None:
    for batch in both():
        found, failures = applied(NEW_STATE, batch, delete__tombstone__handling__mode=mode)
        assert failures == []
        assert [row.value for _, row in found] == values
        assert {row.key["id"] for _, row in found} == {1}


@pytest.mark.parametrize(
    ("deletes", "drops", "count"),
    [("drop", "true", 2), ("drop", "false", 3), ("rewrite", "true", 3), ("none", "true", 3)],
)
def test_older_settings(deletes: str, drops: str, count: int) -> None:
    for batch in both():
        found, _ = applied(NEW_STATE, batch, delete__handling__mode=deletes, drop__tombstones=drops)
        assert len(found) == count


def test_new_state_with_metadata() -> None:
    for batch in both():
        config = {
            "add__fields": "op,table,source.ts_ms,ts_ms:at,nope",
            "add__headers": "op",
            "add__headers__prefix": "h_",
        }
        found, failures = applied(NEW_STATE, batch, **config)
        assert failures == []
        expected = {"__op": "c", "__table": "t", "__source_ts_ms": 5, "__at": 6, "__nope": None}
        assert found[0][1].value == A | expected
        assert [(each.key, each.value) for each in found[1][1].headers] == [("h_op", "u")]
        assert found[2][1].value is None
        assert found[2][1].headers == ()


def test_new_state_schema_and_dropped_fields() -> None:
    headers = [[Header("drop", ["name", "id"])], [], [], [], []]
    batch = batch_of("s.t", EVENTS, ENVELOPE, headers=headers)
    chain = chain_of(
        {"transforms": "x", "transforms.x.type": NEW_STATE, "transforms.x.drop.fields.header.name": "drop"}
    )
    batches, _ = chain.apply(batch)
    assert [row.value for each in batches for row in rows_of(each)] == [{"id": 1}, B, None]
    assert batches[1].value.schema == ROW


def test_what_is_no_event_passes() -> None:
    for schema in (None, struct_schema({"ts": Schema(Type.INT64)}, "io.debezium.connector.common.Heartbeat")):
        found, failures = applied(NEW_STATE, batch_of("hb", [{"ts": 1}, None], schema))
        assert ([row.value for _, row in found], failures) == ([{"ts": 1}, None], [])
        found, _ = applied(
            NEW_STATE, batch_of("hb", [{"ts": 1}, None], schema), delete__tombstone__handling__mode="drop"
        )
        assert [row.value for _, row in found] == [{"ts": 1}]


def test_routing_by_a_field_of_the_row() -> None:
    for batch in both():
        found, _ = applied(NEW_STATE, batch, route__by__field="name")
        assert [topic for topic, _ in found] == ["a", "b", "s.t"]


OUTBOX_ROW = struct_schema(
    {"id": STRING, "aggregatetype": STRING, "aggregateid": STRING, "type": STRING, "payload": STRING},
    "o.Value",
    True,
)
OUTBOX = struct_schema(
    {"before": OUTBOX_ROW, "after": OUTBOX_ROW, "op": Schema(Type.STRING), "ts_ms": Schema(Type.INT64, True)},
    "o.Envelope",
)


def outbox_row(number: int, kind: str, payload: str | None) -> dict[str, Any]:
    return {
        "id": f"e{number}",
        "aggregatetype": kind,
        "aggregateid": str(number),
        "type": "made",
        "payload": payload,
    }


def outbox_batches() -> list[Batch]:
    rows: list[Any] = [
        {"before": None, "after": outbox_row(1, "order", '{"a":1}'), "op": "c", "ts_ms": 100},
        {"before": outbox_row(1, "order", "x"), "after": None, "op": "d", "ts_ms": 101},
        None,
        {"before": None, "after": outbox_row(2, "order", ""), "op": "c", "ts_ms": 102},
        {"before": None, "after": outbox_row(3, "user", '{"a":3}'), "op": "r", "ts_ms": 103},
        {"before": None, "after": outbox_row(4, "user", "z"), "op": "u", "ts_ms": 104},
    ]
    return [batch_of("db.outbox", rows, schema) for schema in (OUTBOX, None)]


ROUTER = "io.debezium.transforms.outbox.EventRouter"


def test_outbox() -> None:
    for batch in outbox_batches():
        found, failures = applied(ROUTER, batch)
        assert failures == []
        assert [(topic, row.key, row.value, row.timestamp_ms) for topic, row in found] == [
            ("outbox.event.order", "1", '{"a":1}', 100),
            ("outbox.event.order", "2", "", 102),
            ("outbox.event.user", "3", '{"a":3}', 103),
        ]
        assert [(each.key, each.value) for each in found[0][1].headers] == [("id", "e1")]


def test_outbox_with_more_columns_and_empty_payloads() -> None:
    for batch in outbox_batches():
        config = {
            "table__fields__additional__placement": "type:header:kind,id:envelope:event",
            "route__tombstone__on__empty__payload": "true",
            "table__op__invalid__behavior": "fatal",
            "route__topic__replacement": "to-${routedByValue}",
        }
        found, failures = applied(ROUTER, batch, **config)
        assert [error[:10] for error in failures] == ["Unexpected"]
        assert [(topic, row.value) for topic, row in found] == [
            ("to-order", {"payload": '{"a":1}', "event": "e1"}),
            ("to-order", None),
            ("to-user", {"payload": '{"a":3}', "event": "e3"}),
        ]
        assert [(each.key, each.value) for each in found[0][1].headers] == [("id", "e1"), ("kind", "made")]
        expanded, _ = applied(ROUTER, batch.take([0, 4]), table__expand__json__payload="true")
        assert [row.value for _, row in expanded] == [{"a": 1}, {"a": 3}]
        _, failures = applied(ROUTER, batch, table__field__event__key="nope")
        assert failures[0] == "Unable to find field nope in event"
    _, failures = applied(ROUTER, batch_of("t", [{"x": 1}]))
    assert "no change event" in failures[0]


def test_many_tables_into_one_topic() -> None:
    kind = "io.debezium.transforms.ByLogicalTableRouter"
    config = {"topic__regex": "(.*)_shard_\\d+", "topic__replacement": "$1"}
    for schema, key_schema in ((ENVELOPE, struct_schema({"id": Schema(Type.INT32)}, "k")), (None, None)):
        batch = batch_of("s.t_shard_7", EVENTS[:2], schema, [{"id": 1}] * 2, key_schema)
        found, failures = applied(kind, batch, **config)
        assert failures == []
        assert [topic for topic, _ in found] == ["s.t", "s.t"]
        assert found[0][1].key == {"id": 1, "__dbz__physicalTableIdentifier": "s.t_shard_7"}
        more = {
            "key__field__regex": ".*_(shard_.*)",
            "key__field__replacement": "$1",
            "key__field__name": "table",
        }
        found, _ = applied(kind, batch, **config, **more)
        assert found[0][1].key == {"id": 1, "table": "shard_7"}
    batch = batch_of("other", EVENTS[:1], ENVELOPE)
    assert applied(kind, batch, **config)[0][0][0] == "other"
    made = chain_of(
        {
            "transforms": "x",
            "transforms.x.type": kind,
            "transforms.x.topic.regex": ".*",
            "transforms.x.topic.replacement": "n",
        }
    )
    (renamed,), _ = made.apply(batch)
    assert renamed.value.schema is not None
    assert renamed.value.schema.name == "n.Envelope"
    bad = {
        "transforms": "x",
        "transforms.x.type": kind,
        "transforms.x.topic.regex": "a",
        "transforms.x.topic.replacement": "$1",
    }
    assert "there is no group 1" in problems_of(bad)["transforms.x.type"][0]
