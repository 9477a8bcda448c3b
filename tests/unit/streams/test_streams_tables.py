"""A topic as a table: what a process keeps of it is what reading all of it would give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.streams import table_cache, table_source
from moldau.streams.table_cache import LogState, TableCache, newest_records
from moldau.streams.table_source import Share, TableReader
from moldau.testing import Broker
from pyspark_moldau.option_rows import BATCH
from pyspark_moldau.options import parse_options

TOPIC_ID = b"1" * 16
Record = tuple[bytes | None, bytes | None]
records_of = st.lists(
    st.tuples(st.sampled_from([None, b"a", b"b", b"c"]), st.sampled_from([None, b"1", b"22"])), max_size=40
)


def table(records: list[Record], first: int = 0) -> pa.RecordBatch:
    keys, values = zip(*records, strict=True) if records else ((), ())
    arrays = [
        pa.array(list(keys), pa.binary()),
        pa.array(list(values), pa.binary()),
        pa.array(range(first, first + len(records)), pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(arrays, ["key", "value", "offset"])


def plain(records: list[Record], start: int = 0) -> dict[bytes, tuple[bytes, int]]:
    latest: dict[bytes, tuple[bytes | None, int]] = {}
    for offset, (key, value) in enumerate(records):
        if key is not None and offset >= start:
            latest[key] = (value, offset)
    return {key: (value, offset) for key, (value, offset) in latest.items() if value is not None}


def by_key(batches: Iterator[pa.RecordBatch]) -> dict[bytes, tuple[bytes, int]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: (row["value"], row["offset"]) for row in rows}


class Log:
    """A partition, and how often its records were read."""

    def __init__(self, records: list[Record]) -> None:
        self.records, self.start, self.topic_id, self.epoch = records, 0, TOPIC_ID, 0
        self.read_count, self.tombstones_seconds = 0, 86_400.0

    def look(self) -> LogState:
        return LogState(self.topic_id, self.epoch, self.start, len(self.records), self.tombstones_seconds)

    def read(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        self.read_count += end - start
        for first in range(start, end, 7):
            yield table(self.records[first : min(first + 7, end)], first)

    def latest(self, memory: TableCache) -> dict[bytes, tuple[bytes, int]]:
        return by_key(memory.latest("name", self.look, self.read))


@settings(max_examples=60, deadline=None)
@given(records_of, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4))
def test_what_is_kept_is_what_reading_all_would_give(
    records: list[Record], steps: list[tuple[int, int]]
) -> None:
    memory, log = TableCache(), Log([])
    for end, start in sorted(steps):
        log.records = records[:end]
        log.start = max(log.start, min(start, len(log.records)))
        assert log.latest(memory) == plain(log.records, log.start)
    assert log.read_count <= len(log.records)


def test_another_log_is_read_from_its_start() -> None:
    memory, log = TableCache(), Log([(b"a", b"1"), (b"b", b"1")])
    log.latest(memory)
    for change in ({"topic_id": b"2" * 16}, {"epoch": 1}, {"records": [(b"c", b"1")]}):
        vars(log).update(change)
        log.read_count = 0
        assert log.latest(memory) == plain(log.records)
        assert log.read_count == len(log.records)
        assert log.latest(memory) == plain(log.records)
        assert log.read_count == len(log.records), "what was just read is kept"


def test_a_topic_made_again_while_it_is_read_is_read_again() -> None:
    memory, log = TableCache(), Log([(b"a", b"1"), (b"b", b"1")])

    def read(start: int, end: int) -> Iterator[pa.RecordBatch]:
        yield from log.read(start, end)
        log.topic_id, log.records = b"2" * 16, [(b"c", b"1")]

    assert by_key(memory.latest("name", log.look, read)) == {b"c": (b"1", 0)}


def test_without_ids_and_without_room_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log([(b"%d" % n, b"x" * 100) for n in range(100)])
    log.topic_id = None  # type: ignore[assignment]
    memory = TableCache()
    assert log.latest(memory) == plain(log.records)
    assert memory.kept == {}
    log.topic_id = TOPIC_ID
    assert log.latest(TableCache(bytes_max=1000)) == plain(log.records)
    monkeypatch.setattr(table_cache, "REDUCED_EVERY_BYTES", 500)
    small = TableCache(bytes_max=1000)
    assert log.latest(small) == plain(log.records)
    assert small.kept == {}


def test_who_was_not_asked_for_makes_room() -> None:
    now = [0.0]
    log = Log([(b"%d" % n, b"x" * 100) for n in range(10)])
    memory = TableCache(bytes_max=2000, clock=lambda: now[0])
    list(memory.latest("one", log.look, log.read))
    list(memory.latest("two", log.look, log.read))
    assert set(memory.kept) == {"one"}
    now[0] = table_cache.FRESH_SECONDS_MAX + 1
    list(memory.latest("two", log.look, log.read))
    assert set(memory.kept) == {"two"}


@pytest.mark.parametrize("tombstones_seconds", [0.0, 10.0, 86_400.0])
def test_a_tombstone_that_came_and_went_unseen(tombstones_seconds: float) -> None:
    now = [0.0]
    memory, log = TableCache(clock=lambda: now[0]), Log([(b"a", b"1"), (b"b", b"1")])
    log.tombstones_seconds = tombstones_seconds
    log.latest(memory)
    now[0] = min(tombstones_seconds, table_cache.FRESH_SECONDS_MAX)
    log.records = [(None, None), (b"b", b"1"), (None, None)]  # a's tombstone was here, and is cleaned away
    assert log.latest(memory) == {b"b": (b"1", 1)}


def test_headers_stay_with_their_rows() -> None:
    headers = pa.array([[("a", b"1")], None, []], pa.map_(pa.string(), pa.binary()))
    batch = table([(b"k", b"1"), (b"j", b"2"), (b"k", b"3")])
    rows = newest_records(pa.Table.from_batches([batch.append_column("headers", headers)]))
    assert rows.to_pylist() == [
        {"key": b"j", "value": b"2", "offset": 1, "headers": None},
        {"key": b"k", "value": b"3", "offset": 2, "headers": []},
    ]


def test_a_process_reads_on_in_the_broker_and_notices_a_topic_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_source, "_cache", TableCache())
    read: list[tuple[int, int]] = []
    original = table_source.read_task
    monkeypatch.setattr(
        table_source,
        "read_task",
        lambda options, task: (
            read.append((task.ranges[0].start, task.ranges[0].end)) or original(options, task)
        ),
    )
    with Broker() as broker:
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        reader = TableReader(parse_options({**servers, "subscribe": "names"}, BATCH))

        def produce(*records: tuple[str, str | None], **transaction: Any) -> None:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **transaction})
            if transaction:
                producer.init_transactions(30)
                producer.begin_transaction()
            for key, value in records:
                producer.produce("names", value, key)
            assert producer.flush(30) == 0
            if transaction:
                producer.abort_transaction(30)

        def latest() -> dict[bytes, bytes]:
            return {key: value for key, (value, _) in by_key(reader.read(Share(0, 1))).items()}

        broker.create_topic("names", 1, cleanup_policy="compact")
        produce(("AA", "Americn"), ("UA", "United"), ("AA", "American"))
        assert latest() == {b"AA": b"American", b"UA": b"United"}
        produce(("UA", None), ("DL", "Delta"))
        assert latest() == {b"AA": b"American", b"DL": b"Delta"}
        produce(("AA", "aborted"), **{"transactional.id": "t"})
        assert latest() == {b"AA": b"American", b"DL": b"Delta"}
        assert latest() == {b"AA": b"American", b"DL": b"Delta"}
        assert read == [(0, 3), (3, 5), (5, 7)]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_topics(["names"])["names"].result()
        broker.create_topic("names", 1)
        produce(*[("WN", str(number)) for number in range(10)])
        assert latest() == {b"WN": b"9"}
        assert read[3:] == [(0, 10)]
