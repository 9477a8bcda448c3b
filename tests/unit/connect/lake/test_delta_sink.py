"""DeltaSink on real tables in a folder: rows and positions in one commit, and what two writers do to one
another."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sink_batches import columns_batch, json_batch, settings_of, sink_context, tombstones

from moldau.connect import BadRecord, ConnectError, Retriable, Sink, TopicPartition
from moldau.connect.connectors.lake.delta import DeltaSink, app_id

deltalake = pytest.importorskip("deltalake")

ORDERS_0 = TopicPartition("orders", 0)


class Started:
    """A sink that writes under a folder, and the bad records that it has reported."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.bad: list[str] = []
        self.sink = DeltaSink()
        given = {"table.uri": f"{folder}/${{topic}}", **settings}
        self.sink.start(settings_of(DeltaSink, given), sink_context(self.bad))

    def write(self, *batches: Any) -> None:
        for batch in batches:
            self.sink.write(batch, batch.offsets[0].as_py())

    def rows(self, topic: str = "orders") -> list[Mapping[str, Any]]:
        rows: list[Mapping[str, Any]] = pa.table(
            deltalake.DeltaTable(self.folder / topic).to_pyarrow_table()
        ).to_pylist()
        return rows

    def position(self, topic: str = "orders") -> int | None:
        found: int | None = deltalake.DeltaTable(self.folder / topic).transaction_version(
            app_id("c", ORDERS_0)
        )
        return found


@pytest.fixture
def started(tmp_path: Path) -> Started:
    return Started(tmp_path)


def ids(rows: list[Mapping[str, Any]]) -> list[Any]:
    return sorted(row["id"] for row in rows)


def test_rows_and_position_are_one_commit(started: Started) -> None:
    started.write(json_batch([{"id": 1}, {"id": 2}], first=10))
    started.sink.flush()
    assert ids(started.rows()) == [1, 2]
    assert started.position() == 12


def test_nothing_is_visible_before_the_flush(started: Started) -> None:
    started.write(json_batch([{"id": 1}]))
    assert not (started.folder / "orders").exists()


def test_a_run_that_comes_again_is_left_out(started: Started) -> None:
    batch = json_batch([{"id": 1}, {"id": 2}], first=10)
    started.write(batch)
    started.sink.flush()
    again = Started(started.folder)  # the worker died before it committed its offset
    again.write(batch, json_batch([{"id": 3}], first=12))
    again.sink.flush()
    assert ids(again.rows()) == [1, 2, 3]


def test_a_run_that_comes_again_with_another_end_is_left_out_as_far_as_it_is_there(started: Started) -> None:
    started.write(json_batch([{"id": 1}, {"id": 2}], first=10))
    started.sink.flush()
    again = Started(started.folder)
    again.write(json_batch([{"id": 2}, {"id": 3}], first=11))
    again.sink.flush()
    assert ids(again.rows()) == [1, 2, 3]


def test_of_two_tasks_with_one_partition_the_second_stores_nothing(started: Started) -> None:
    zombie = Started(started.folder)
    first = json_batch([{"id": 1}])
    started.write(first)
    started.sink.flush()
    zombie.write(json_batch([{"id": 2}], first=1))
    started.write(json_batch([{"id": 2}], first=1))
    started.sink.flush()
    with pytest.raises(Retriable, match="another task has written orders-0"):
        zombie.sink.flush()
    assert ids(started.rows()) == [1, 2]


def test_a_commit_of_another_task_between_the_look_and_the_commit_is_noticed(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other's rows are in the version that this commit is based on: Delta sees no conflict."""
    from moldau.connect.connectors.lake.positions import Positions

    zombie = Started(started.folder)
    started.write(json_batch([{"id": 1}]))
    started.sink.flush()
    for each in (zombie, started):
        each.write(json_batch([{"id": 2}], first=1))
    confirm = Positions.confirm

    def confirm_and_be_overtaken(self: Positions, *arguments: Any) -> None:
        confirm(self, *arguments)
        monkeypatch.setattr(Positions, "confirm", confirm)
        started.sink.flush()

    monkeypatch.setattr(Positions, "confirm", confirm_and_be_overtaken)
    with pytest.raises(
        Retriable, match=r"another writer was faster: orders-0 .* up to 2, this task knew of 1"
    ):
        zombie.sink.flush()
    assert ids(started.rows()) == [1, 2]


def test_a_store_that_is_away_while_a_run_is_staged_drops_all_that_is(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker then writes everything again from the committed offset: nothing may be staged twice."""
    batches = json_batch([{"id": 1}]), json_batch([{"id": 2}], first=1)
    started.write(batches[0])

    def away(table: str) -> None:
        raise Retriable("away")

    with monkeypatch.context() as patched:
        patched.setattr(started.sink.lake, "columns", away)
        started.sink.writer._columns.clear()
        with pytest.raises(Retriable):
            started.write(batches[1])
    started.write(*batches)
    started.sink.flush()
    assert ids(started.rows()) == [1, 2]


def test_after_a_refusal_the_same_task_goes_on(started: Started) -> None:
    other = Started(started.folder)
    batch = json_batch([{"id": 1}])
    started.write(batch)
    other.write(batch)
    other.sink.flush()
    with pytest.raises(Retriable):
        started.sink.flush()
    started.write(batch, json_batch([{"id": 2}], first=1))  # as the worker does: from what is committed
    started.sink.flush()
    assert ids(started.rows()) == [1, 2]


def test_new_fields_become_columns(started: Started) -> None:
    started.write(json_batch([{"id": 1}]))
    started.sink.flush()
    started.write(json_batch([{"id": 2, "note": "x"}], first=1))
    started.sink.flush()
    assert {row["id"]: row.get("note") for row in started.rows()} == {1: None, 2: "x"}


def test_without_evolving_a_new_field_fails_by_its_name(tmp_path: Path) -> None:
    started = Started(tmp_path, **{"auto.evolve": False})
    started.write(json_batch([{"id": 1}]))
    started.sink.flush()
    with pytest.raises(ConnectError, match="no column note"):
        started.write(json_batch([{"id": 2, "note": "x"}], first=1))


def test_a_table_that_does_not_exist_may_be_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"there is no table .*orders"):
        Started(tmp_path, **{"auto.create": False}).write(json_batch([{"id": 1}]))


def test_one_bad_record_of_many_is_reported_and_the_others_are_stored(started: Started) -> None:
    started.write(json_batch([{"id": 0}]))
    started.sink.flush()
    rows = [{"id": number} for number in range(1, 100)]
    rows[41] = {"id": "forty-two"}
    started.write(json_batch(rows, first=1))
    started.sink.flush()
    assert len(started.rows()) == 99
    assert len(started.bad) == 1
    assert started.bad[0].startswith("41: does not fit the table: field id is string")
    assert started.position() == 100


def test_a_value_that_is_no_record_is_a_bad_record(started: Started) -> None:
    started.write(json_batch([{"id": 1}, 5, {"id": 2}]))
    started.sink.flush()
    assert ids(started.rows()) == [1, 2]
    assert [text[:3] for text in started.bad] == ["1: "]


def test_tombstones_move_the_position_and_are_no_rows(started: Started) -> None:
    started.write(json_batch([{"id": 1}]), tombstones([1], first=1))
    started.sink.flush()
    assert (ids(started.rows()), started.position()) == ([1], 2)


def test_columns_with_a_schema_and_of_metadata(tmp_path: Path) -> None:
    started = Started(tmp_path, **{"metadata.columns": ["topic", "partition", "offset", "timestamp"]})
    started.write(columns_batch(pa.array([{"id": 7}], pa.struct([("id", pa.int32())])), first=5))
    started.sink.flush()
    (row,) = started.rows()
    assert (row["id"], row["_topic"], row["_partition"], row["_offset"]) == (7, "orders", 0, 5)
    assert row["_timestamp"].timestamp() == 1.0


def test_upsert_keeps_the_last_row_of_a_key_and_deletes_by_tombstone(tmp_path: Path) -> None:
    started = Started(tmp_path, **{"write.mode": "upsert", "key.columns": ["id"]})
    started.write(json_batch([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 1, "v": "c"}]))
    started.sink.flush()
    assert sorted((row["id"], row["v"]) for row in started.rows()) == [(1, "c"), (2, "b")]
    started.write(
        json_batch([{"id": 3, "v": "d"}], first=3),
        tombstones([1, 4], first=4),
        json_batch([{"id": 2, "v": "e"}], first=6),
    )
    started.sink.flush()
    assert sorted((row["id"], row["v"]) for row in started.rows()) == [(2, "e"), (3, "d")]
    assert started.position() == 7


def test_upsert_in_one_commit_what_is_deleted_and_comes_again_is_there(tmp_path: Path) -> None:
    started = Started(tmp_path, **{"write.mode": "upsert", "key.columns": ["id"]})
    started.write(json_batch([{"id": 1, "v": "a"}]), tombstones([1], first=1))
    started.sink.flush()
    assert started.rows() == []
    started.write(
        json_batch([{"id": 1, "v": "b"}], first=2),
        tombstones([1], first=3),
        json_batch([{"id": 1, "v": "c"}], first=4),
    )
    started.sink.flush()
    assert [(row["id"], row["v"]) for row in started.rows()] == [(1, "c")]


def test_upsert_a_row_without_its_key_is_a_bad_record(tmp_path: Path) -> None:
    started = Started(tmp_path, **{"write.mode": "upsert", "key.columns": ["id"]})
    started.write(json_batch([{"id": 1, "v": "a"}, {"id": None, "v": "b"}, {"id": 2, "v": "c"}]))
    started.sink.flush()
    assert ids(started.rows()) == [1, 2]
    assert started.bad == ["1: field id is null, and key.columns names it"]


def test_positions_set_by_an_administrator_let_records_come_again(started: Started) -> None:
    batch = json_batch([{"id": 1}])
    started.write(batch)
    started.sink.flush()
    started.sink.set_positions({ORDERS_0: None})
    again = Started(started.folder)
    again.write(batch)
    again.sink.flush()
    assert ids(again.rows()) == [1, 1]


def test_contradictions_are_named() -> None:
    sink: Sink = DeltaSink()
    given = settings_of(DeltaSink, {"table.uri": "x", "write.mode": "upsert"})
    assert "key.columns" in sink.check(given)


def test_a_bad_record_without_tolerance_ends_the_write(tmp_path: Path) -> None:
    sink = DeltaSink()
    sink.start(settings_of(DeltaSink, {"table.uri": f"{tmp_path}/t"}), sink_context(None))
    with pytest.raises(BadRecord):
        sink.write(json_batch([7]), 0)
