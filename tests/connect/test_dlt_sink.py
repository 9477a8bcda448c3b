"""The dlt sink into DuckDB: tables, positions beside them, and what comes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from sink_batches import columns_batch, json_batch, settings_of, sink_context, tombstones

from moldau.connect import ConnectError, TopicPartition

pytest.importorskip("dlt")
duckdb = pytest.importorskip("duckdb")

from moldau.connect.connectors.dlt.sink import DltSink  # noqa: E402

ORDERS_0 = TopicPartition("orders", 0)


class Started:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.file = folder / "lake.duckdb"
        self.bad: list[str] = []
        self.sink = DltSink()
        arguments = orjson.dumps({"credentials": str(self.file)}).decode()
        given = {"dlt.destination": "duckdb", "dlt.destination.arguments": arguments, **settings}
        self.sink.start(settings_of(DltSink, given), sink_context(self.bad))

    def write(self, *batches: Any) -> None:
        for batch in batches:
            self.sink.write(batch, batch.offsets[0].as_py())
        self.sink.flush()

    def rows(self, columns: str = "id") -> list[Any]:
        with duckdb.connect(str(self.file)) as connection:
            found: list[Any] = connection.sql(f"select {columns} from kafka.orders order by 1").fetchall()
        return found


def test_rows_and_where_to_go_on(tmp_path: Path) -> None:
    started = Started(tmp_path)
    assert started.sink.positions([ORDERS_0]) == {}
    started.write(json_batch([{"id": 1}, {"id": 2, "note": "x"}]), tombstones([1], first=2))
    started.sink.stop()
    again = Started(tmp_path)
    assert again.sink.positions([ORDERS_0, TopicPartition("orders", 1)]) == {ORDERS_0: 3}
    again.write(columns_batch(pa.array([{"id": 3}], pa.struct([("id", pa.int32())])), first=3))
    assert again.rows("id, note") == [(1, None), (2, "x"), (3, None)]
    again.sink.set_positions({ORDERS_0: None})
    assert again.sink.positions([ORDERS_0]) == {}
    again.sink.stop()


def test_with_merge_what_comes_again_replaces_itself(tmp_path: Path) -> None:
    started = Started(tmp_path, write_disposition="merge")
    batch = json_batch([{"id": 1}, {"id": 2}])
    started.write(batch)
    started.write(batch)
    assert started.rows() == [(1,), (2,)]
    started.sink.stop()


def test_with_keys_a_record_replaces_the_row_of_its_key(tmp_path: Path) -> None:
    started = Started(tmp_path, **{"write_disposition": "merge", "key.columns": ["id"]})
    started.write(json_batch([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]))
    started.write(json_batch([{"id": 1, "v": "c"}], first=2))
    assert started.rows("id, v") == [(1, "c"), (2, "b")]
    started.sink.stop()


def test_what_is_no_record_is_a_bad_record(tmp_path: Path) -> None:
    started = Started(tmp_path)
    started.write(json_batch([{"id": 1}, "text"]))
    assert started.rows() == [(1,)]
    assert started.bad == ["1: the value is no record: a table needs fields (HoistField makes one)"]
    started.sink.stop()


def test_a_destination_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"dlt\.destination=nowhere"):
        Started(tmp_path, **{"dlt.destination": "nowhere"})


def test_a_task_that_another_one_has_replaced_loads_nothing_more(tmp_path: Path) -> None:
    old, new = Started(tmp_path), Started(tmp_path)
    assert old.sink.positions([ORDERS_0]) == {}
    old.write(json_batch([{"id": 1}]))
    assert new.sink.positions([ORDERS_0]) == {ORDERS_0: 1}
    with pytest.raises(ConnectError, match="another task writes orders-0"):
        old.write(json_batch([{"id": 2}], first=1))
    with pytest.raises(ConnectError, match="another task writes orders-0"):
        old.sink.positions([ORDERS_0])
    new.write(json_batch([{"id": 2}], first=1))
    assert new.rows() == [(1,), (2,)]
    new.sink.closed([ORDERS_0])
    again = Started(tmp_path)
    assert again.sink.positions([ORDERS_0]) == {ORDERS_0: 2}
    for each in (old, new, again):
        each.sink.stop()
