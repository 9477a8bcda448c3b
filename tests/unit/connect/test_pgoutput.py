"""The log's messages and what is made of them, without a database."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import resource
import socket
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_batches import settings_of

from moldau.connect import SourceContext, rows
from moldau.connect.connectors.cdc.converting import CapturedColumn
from moldau.connect.connectors.cdc.envelope import EnvelopeTable
from moldau.connect.connectors.cdc.naming import adjusted, topic_name
from moldau.connect.connectors.cdc.postgres.pgoutput import (
    EPOCH_2000_US,
    UNCHANGED,
    Begin,
    Commit,
    Malformed,
    Message,
    Relation,
    RelationColumn,
    RowChange,
    Truncate,
    decode,
)
from moldau.connect.connectors.cdc.postgres.positions import Position, lsn_number, lsn_text, position_of
from moldau.connect.connectors.cdc.postgres.replication import Received, Replication
from moldau.connect.connectors.cdc.postgres.source import PostgresSource
from moldau.connect.connectors.cdc.postgres.stream import Stream
from moldau.connect.connectors.cdc.postgres.tables import SOURCE, key_columns
from moldau.connect.connectors.cdc.postgres.transactions import Followed, Transactions
from moldau.connect.connectors.cdc.postgres.types import (
    array_json,
    array_values,
    days,
    hstore_values,
    interval_us,
    money_text,
    timestamp_us,
    variable_scale,
    zoned_text,
    zoned_time_text,
)
from moldau.connect.schema import Schema, Type

TEXTS = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=8)
TUPLES = st.lists(st.none() | st.just(UNCHANGED) | TEXTS, max_size=4).map(tuple)
IDS = st.integers(0, (1 << 32) - 1)
LSNS = st.integers(0, (1 << 64) - 1)


def row_bytes(kind: str, values: Any) -> bytes:
    made = kind.encode() + struct.pack(">H", len(values))
    for value in values:
        if value is None:
            made += b"n"
        elif value is UNCHANGED:
            made += b"u"
        else:
            made += b"t" + struct.pack(">i", len(value.encode())) + value.encode()
    return made


def encoded(message: Message) -> bytes:
    if isinstance(message, Begin):
        return b"B" + struct.pack(">QqI", message.final_lsn, message.time_us - EPOCH_2000_US, message.xid)
    if isinstance(message, Commit):
        return b"C" + struct.pack(">BQQq", 0, message.lsn, message.end_lsn, message.time_us - EPOCH_2000_US)
    if isinstance(message, Relation):
        made = (
            b"R"
            + struct.pack(">I", message.id)
            + message.schema.encode()
            + b"\0"
            + message.table.encode()
            + b"\0"
        )
        made += message.identity.encode() + struct.pack(">H", len(message.columns))
        for each in message.columns:
            made += struct.pack(">B", each.in_key) + each.name.encode() + b"\0"
            made += struct.pack(">Ii", each.type_id, each.modifier)
        return made
    if isinstance(message, Truncate):
        ids = b"".join(struct.pack(">I", each) for each in message.relation_ids)
        return b"T" + struct.pack(">IB", len(message.relation_ids), 0) + ids
    assert isinstance(message, RowChange)
    made = message.kind.encode() + struct.pack(">I", message.relation_id)
    if message.old is not None:
        made += row_bytes(message.old_kind, message.old)
    return made + (row_bytes("N", message.new) if message.new is not None else b"")


TIMES = st.integers(EPOCH_2000_US, EPOCH_2000_US * 2)
COLUMNS = st.builds(RelationColumn, TEXTS, IDS, st.integers(-1, 100), st.booleans())
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Begin, LSNS, TIMES, IDS),
    st.builds(Commit, LSNS, LSNS, TIMES),
    st.builds(
        Relation,
        IDS,
        TEXTS.filter(bool),
        TEXTS,
        st.sampled_from("dnfi"),
        st.lists(COLUMNS, max_size=3).map(tuple),
    ),
    st.builds(Truncate, st.lists(IDS, max_size=3).map(tuple)),
    st.builds(RowChange, st.just("I"), IDS, st.just(""), st.none(), TUPLES),
    st.builds(RowChange, st.just("U"), IDS, st.sampled_from("KO"), TUPLES, TUPLES),
    st.builds(RowChange, st.just("D"), IDS, st.sampled_from("KO"), TUPLES, st.none()),
)


@given(MESSAGES)
def test_messages_are_read_as_they_were_written(message: Message) -> None:
    assert decode(encoded(message)) == message


@given(
    st.binary(max_size=60)
    | MESSAGES.map(encoded).flatmap(lambda data: st.integers(0, len(data)).map(lambda n: data[:n]))
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        decode(data)


ORDERS = Relation(
    7, "public", "orders", "d", (RelationColumn("id", 23, -1, True), RelationColumn("name", 25, -1, False))
)
COLUMNS_OF = [
    CapturedColumn("id", Schema(Type.INT32), int, None),
    CapturedColumn("name", Schema(Type.STRING, True), None, "?"),
]
FOLLOWED = Followed(ORDERS, EnvelopeTable("t", "t", COLUMNS_OF, [0], SOURCE), (0, 1))


def machine(position: Position) -> Transactions:
    return Transactions(position, lambda _: FOLLOWED, lambda *given: given, frozenset("t"), True, False)


def log_of(sizes: list[int]) -> list[tuple[int, Message]]:
    """Transactions of so many insertions."""
    made: list[tuple[int, Message]] = [(1, ORDERS)]
    lsn, number = 100, 0
    for xid, size in enumerate(sizes, 1):
        final = lsn + size + 1
        made.append((lsn, Begin(final, EPOCH_2000_US, xid)))
        for _ in range(size):
            lsn, number = lsn + 1, number + 1
            made.append((lsn, RowChange("I", 7, "", None, (str(number), "a"))))
        made.append((final, Commit(final, final + 1, EPOCH_2000_US)))
        lsn = final + 5
    return made


@given(st.lists(st.integers(0, 4), max_size=5), st.data())
def test_every_event_once_wherever_it_is_cut(sizes: list[int], data: st.DataObject) -> None:
    """Stopped after any event; the log begins again at any transaction that is not confirmed."""
    log, position, found = log_of(sizes), Position(50, 50, 50), list[int]()
    for _ in range(4):
        stop = data.draw(st.integers(0, 8))
        one = machine(position)
        for lsn, message in log:
            if stop < 0:
                break
            for event in one.handle(lsn, message):
                found += [change.after[0] for change in event.changes if change.after]
                position = position_of(event.position.offset()) or position
                stop -= 1
                if stop < 0:
                    break
    last = machine(position)
    for lsn, message in log:
        for event in last.handle(lsn, message):
            found += [change.after[0] for change in event.changes if change.after]
    assert found == list(range(1, sum(sizes) + 1))


def test_a_commit_that_begins_where_reading_stands_is_new() -> None:
    """The server's heartbeat says where the last record ends; the next one, a commit, begins there."""
    idle = Position(10, 10, 10).behind(60, 60)
    one = machine(idle)
    log: list[tuple[int, Message]] = [
        (1, ORDERS),
        (2, Begin(60, EPOCH_2000_US, 1)),
        (3, RowChange("I", 7, "", None, ("1", "a"))),
        (60, Commit(60, 70, EPOCH_2000_US)),
    ]
    events = [event for lsn, message in log for event in one.handle(lsn, message)]
    assert [change.key for event in events for change in event.changes] == [[1]]
    again = machine(one.position)
    assert not [event for lsn, message in log for event in again.handle(lsn, message)]


def test_a_number_of_more_digits_than_python_reads() -> None:
    made = variable_scale("9" * 5000 + ".5")
    assert int.from_bytes(made["value"], "big", signed=True) == 10**5001 - 5


def test_a_value_that_cannot_be_converted_is_named() -> None:
    one = machine(Position(50, 50, 50))
    log: list[tuple[int, Message]] = [
        (1, ORDERS),
        (2, Begin(60, EPOCH_2000_US, 1)),
        (3, RowChange("I", 7, "", None, ("a", "a"))),
    ]
    (event,) = [event for lsn, message in log for event in one.handle(lsn, message)]
    assert event.refused is not None
    assert re.match(
        r"table t, key id=a: the value 'a' of column id cannot be a int32: .*", str(event.refused.error)
    )
    assert event.position.tx_events == 1  # it is behind the row
    (row,) = rows(event.refused.batch)
    assert (row.key, row.value) == (
        {"id": "a"},
        {"op": "c", "before": None, "after": {"id": "a", "name": "a"}},
    )


class EndlessLog:
    """A log of changes that are not captured; the server waits for an answer."""

    def __init__(self) -> None:
        self.answers = 0

    def received(self, timeout_seconds: float) -> Iterator[Received]:
        change = encoded(RowChange("I", 8, "", None, ("1", "x" * 1000)))
        yield Received(1, encoded(Relation(8, "public", "other", "d", ORDERS.columns)))
        yield Received(2, encoded(Begin(1 << 40, EPOCH_2000_US, 1)))
        while True:
            yield Received(3, change)

    def confirm(self, lsn: int, interval_seconds: float) -> None:
        self.answers += 1


def test_changes_that_are_not_captured_do_not_keep_the_server_waiting(monkeypatch: Any) -> None:
    """The server ends a connection that is silent for wal_sender_timeout."""
    settings = settings_of(
        PostgresSource,
        {
            "database.hostname": "/nowhere",
            "database.user": "u",
            "database.dbname": "d",
            "topic.prefix": "t",
            "poll.interval.ms": 1,
        },
    )
    source = PostgresSource()
    source.start(settings, SourceContext("c", 0, lambda: False, lambda _: False, lambda: None))
    followed = Transactions(
        Position(50, 50, 50), lambda _: None, lambda *given: given, frozenset(), True, False
    )
    monkeypatch.setattr("moldau.connect.connectors.cdc.postgres.stream.READ_BYTES_MAX", 1 << 20)
    log = EndlessLog()
    stream = Stream(settings, source._tables, source._catalog, followed, log, lambda: 0)  # type: ignore[arg-type]
    assert stream.next() is None
    assert log.answers == 1
    assert not followed.idle


def test_descriptors_beyond_those_that_select_knows() -> None:
    """A worker beside a broker has thousands."""
    number = 1500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= number:
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number + 1), hard))
    near, far = socket.socketpair()

    class Connection:
        socket = os.dup2(near.fileno(), number)
        left: ClassVar = [(0, b""), (10, b"w" + bytes(24) + b"x"), (0, b"")]

        def get_copy_data(self, _: int) -> tuple[int, bytes]:
            return self.left.pop(0)

        def consume_input(self) -> None:
            pass

    one = Replication.__new__(Replication)
    one._connection = Connection()
    try:
        far.send(b"x")
        assert [each.data for each in one.received(60)] == [b"x"]
    finally:
        os.close(number)
        near.close()
        far.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_changed_key_is_a_deletion_and_a_creation() -> None:
    one = machine(Position(50, 50, 50))
    log: list[tuple[int, Message]] = [
        (1, ORDERS),
        (2, Begin(60, EPOCH_2000_US, 1)),
        (3, RowChange("U", 7, "K", ("1", None), ("2", UNCHANGED))),
    ]
    (event,) = [event for lsn, message in log for event in one.handle(lsn, message)]
    assert [(each.op, each.key) for each in event.changes] == [("d", [1]), ("", [1]), ("c", [2])]
    assert event.changes[2].after == [2, "?"]


def test_offsets() -> None:
    at = Position(9, 5, 6, 3, 1, 8, 2, "", "{}")
    assert position_of(at.offset()) == at
    debezium = position_of(
        {"lsn": 9, "lsn_proc": 9, "lsn_commit": 7, "txId": 1, "ts_usec": 2, "transaction_id": None}
    )
    assert debezium is not None
    assert (debezium.commit_lsn, debezium.end_lsn, debezium.snapshot) == (7, 7, "")
    assert position_of({"lsn": 1, "snapshot": True, "last_snapshot_record": True}) == Position(1, 1, 1)
    assert lsn_number(lsn_text(0x1_0000_00AB)) == 0x1_0000_00AB


@given(st.datetimes())
def test_times(when: datetime.datetime) -> None:
    text = str(when)
    assert timestamp_us(text) == (when - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    assert days(text[:10]) == (when.date() - datetime.date(1970, 1, 1)).days
    assert datetime.datetime.fromisoformat(zoned_text(text + "+00")) == when.replace(tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (days("10000-01-01"), 2_932_897),
        (timestamp_us("294276-12-31 23:59:59"), (1 << 63) - 1),
        (days("0001-01-01 BC"), -719_528),
        (zoned_time_text("10:00:00.5+02"), "08:00:00.5Z"),
        (zoned_time_text("01:00:00+02:30"), "22:30:00Z"),
        (interval_us("P1M"), int(30.4375 * 86_400_000_000)),
        (interval_us("P-1DT-0.5S"), -86_400_500_000),
        (array_values('{1,NULL,"NULL"}', None), ["1", None, "NULL"]),
        (array_json("{{1,2},{NULL,4}}", int), "[[1, 2], [null, 4]]"),
        (hstore_values('"a"=>"x\\"y", "b"=>NULL'), {"a": 'x"y', "b": None}),
        (variable_scale("1E+3"), {"scale": 0, "value": b"\x03\xe8"}),
        ([money_text(each) for each in ("-$1,234.50", "($0.05)")], ["-1234.50", "-0.05"]),
        ([money_text(each) for each in ("1.234,50 \u20ac", "\u00a51,234")], ["1234.50", "1234.0"]),
        (topic_name("shop", "public", "a$b"), "shop.public.a_b"),
        (adjusted("a-b.1c", "avro"), "a_b._1c"),
        (
            [(bool(each.fullmatch("A.b")), names) for each, names in key_columns(["a.b:x", "y;c.d:z"])],
            [(True, ["x", "y"]), (False, ["z"])],
        ),
    ],
)
def test_texts(made: Any, wanted: Any) -> None:
    assert made == wanted


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_numbers_of_any_scale(number: Decimal) -> None:
    made = variable_scale(f"{number:f}")
    unscaled = int.from_bytes(made["value"], "big", signed=True)
    sign, digits, exponent = Decimal(f"{number:f}").as_tuple()
    assert isinstance(exponent, int)
    wanted = int("".join(map(str, digits))) * (-1 if sign else 1) * 10 ** max(exponent, 0)
    assert (unscaled, made["scale"]) == (wanted, max(-exponent, 0))
