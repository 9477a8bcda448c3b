"""IcebergSink on real tables of a catalog in SQLite: rows and positions in one commit, and two writers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sink_batches import json_batch, settings_of, sink_context, tombstones

from moldau.connect import ConnectError, Retriable, TopicPartition
from moldau.connect.connectors.lake.iceberg import IcebergSink, position_property

catalogs = pytest.importorskip("pyiceberg.catalog")

ORDERS_0 = TopicPartition("orders", 0)
UPSERT = {"iceberg.tables.upsert-mode-enabled": True, "iceberg.tables.default-id-columns": ["id"]}


class Started:
    """A sink, its catalog, and the bad records that it has reported."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.bad: list[str] = []
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        given = {
            "iceberg.tables": "lake.${topic}",
            "iceberg.tables.auto-create-enabled": True,
            "iceberg.tables.evolve-schema-enabled": True,
            **{f"iceberg.catalog.{name}": value for name, value in catalog.items()},
            **settings,
        }
        self.sink = IcebergSink()
        self.sink.start(settings_of(IcebergSink, given), sink_context(self.bad))
        self.catalog = catalogs.load_catalog("default", **catalog)

    def write(self, *batches: Any) -> None:
        for batch in batches:
            self.sink.write(batch, batch.offsets[0].as_py())

    def rows(self) -> list[Mapping[str, Any]]:
        rows: list[Mapping[str, Any]] = self.catalog.load_table("lake.orders").scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: row["id"])

    def position(self) -> str | None:
        found: str | None = self.catalog.load_table("lake.orders").properties.get(
            position_property("c", ORDERS_0)
        )
        return found


def ids(started: Started) -> list[Any]:
    return [row["id"] for row in started.rows()]


def test_rows_and_position_are_one_commit_and_come_once(tmp_path: Path) -> None:
    started = Started(tmp_path)
    batch = json_batch([{"id": 1}, {"id": 2}], first=10)
    started.write(batch)
    started.sink.flush()
    assert (ids(started), started.position()) == ([1, 2], "12")
    again = Started(tmp_path)
    again.write(batch, json_batch([{"id": 3, "note": "x"}], first=12), tombstones([1], first=13))
    again.sink.flush()
    assert [(row["id"], row["note"]) for row in again.rows()] == [(1, None), (2, None), (3, "x")]
    assert again.position() == "14"


def test_of_two_tasks_with_one_partition_the_second_stores_nothing(tmp_path: Path) -> None:
    started, zombie = Started(tmp_path), Started(tmp_path)
    started.write(json_batch([{"id": 1}]))
    started.sink.flush()
    for each in (zombie, started):
        each.write(json_batch([{"id": 2}], first=1))
    started.sink.flush()
    with pytest.raises(Retriable, match="another task has written orders-0"):
        zombie.sink.flush()
    assert ids(started) == [1, 2]


def test_a_commit_between_the_look_and_the_commit_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, other = Started(tmp_path), Started(tmp_path)
    started.write(json_batch([{"id": 1}]))
    started.sink.flush()
    for each in (other, started):
        each.write(json_batch([{"id": 2}], first=1))
    from moldau.connect.connectors.lake.positions import Positions

    confirm = Positions.confirm

    def confirm_and_be_overtaken(self: Positions, *arguments: Any) -> None:
        confirm(self, *arguments)
        monkeypatch.setattr(Positions, "confirm", confirm)
        other.sink.flush()

    loaded = started.catalog.load_table("lake.orders")
    monkeypatch.setattr(Positions, "confirm", confirm_and_be_overtaken)
    monkeypatch.setattr(started.sink.lake, "_load", lambda table: loaded)
    with pytest.raises(Retriable, match="another writer was faster"):
        started.sink.flush()
    assert ids(other) == [1, 2]


def test_upsert_replaces_and_deletes(tmp_path: Path) -> None:
    started = Started(tmp_path, **UPSERT)
    started.write(json_batch([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 1, "v": "c"}]))
    started.sink.flush()
    assert [(row["id"], row["v"]) for row in started.rows()] == [(1, "c"), (2, "b")]
    started.write(tombstones([1], first=3), json_batch([{"id": 2, "v": "d"}, {"id": 3, "v": "e"}], first=4))
    started.sink.flush()
    assert [(row["id"], row["v"]) for row in started.rows()] == [(2, "d"), (3, "e")]


def test_tables_are_not_made_unless_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"there is no table lake\.orders"):
        Started(tmp_path, **{"iceberg.tables.auto-create-enabled": False}).write(json_batch([{"id": 1}]))


def test_positions_set_by_an_administrator(tmp_path: Path) -> None:
    started = Started(tmp_path)
    started.write(json_batch([{"id": 1}]))
    started.sink.flush()
    started.sink.set_positions({ORDERS_0: 0})
    assert started.position() == "0"
    started.sink.set_positions({ORDERS_0: None})
    assert started.position() is None


def test_contradictions_are_named() -> None:
    sink = IcebergSink()
    given = settings_of(IcebergSink, {"iceberg.tables": "x", "iceberg.tables.upsert-mode-enabled": True})
    assert "iceberg.tables.default-id-columns" in sink.check(given)
