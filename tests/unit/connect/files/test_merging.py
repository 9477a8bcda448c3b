"""Small files become one: whoever reads when, wherever the worker dies, each row is there once."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv, parquet

from moldau.connect import ConnectError, TopicPartition, infer_schema
from moldau.connect.connectors.files import durable, exchange, joining, merging
from moldau.connect.connectors.files.sink import FileSink
from moldau.connect.testing import Dies, SinkRun

ROWS = [{"id": n, "name": f'n,"{n}\n'} for n in range(60)]
SCHEMA = infer_schema(ROWS)
FORMATS = ("parquet", "csv", "json")


def settings_of(folder: Path, format_: str, **more: Any) -> dict[str, Any]:
    return {"path": folder, "format": format_, "flush.size": 2, "merge.min.files": 4, **more}


def files_of(folder: Path) -> list[Path]:
    """As a program lists them that knows nothing of the sink."""
    return [each for each in sorted(folder.rglob("*+*")) if "_moldau" not in each.parts]


def ids_in(path: Path) -> list[int]:
    if path.suffix == ".json":
        return [json.loads(line)["id"] for line in path.read_text().splitlines()]
    table = parquet.ParquetFile(path).read() if path.suffix == ".parquet" else csv.read_csv(
        path, parse_options=csv.ParseOptions(newlines_in_values=True))  # fmt: skip
    ids: list[int] = table.column("id").to_pylist()
    return ids


def ids(folder: Path) -> list[int]:
    return [each for path in files_of(folder) for each in ids_in(path)]


@pytest.mark.parametrize("format_", FORMATS)
def test_small_files_become_one(tmp_path: Path, format_: str) -> None:
    run = SinkRun(FileSink, settings_of(tmp_path, format_))
    for at in range(0, 60, 2):
        run.send("orders", ROWS[at : at + 2], SCHEMA)
        run.flush()
    assert ids(tmp_path) == list(range(60))
    files = files_of(tmp_path)
    assert len(files) <= 8
    assert (
        files[0].name == f"orders+0+0000000000+{int(files[0].name.split('+')[3].split('.')[0]):010}.{format_}"
    )
    assert run.sink.positions([TopicPartition("orders", 0)]) == {TopicPartition("orders", 0): 60}
    assert not list((tmp_path / "_moldau").rglob("*merge*"))


def test_without_being_asked_for_it_does_not_happen(tmp_path: Path) -> None:
    run = SinkRun(FileSink, settings_of(tmp_path, "json", **{"merge.min.files": 0}))
    for at in range(0, 60, 2):
        run.send("orders", ROWS[at : at + 2])
        run.flush()
    assert len(files_of(tmp_path)) == 30


def test_no_file_becomes_larger_than_it_may_and_few_rows_are_written_often(
    tmp_path: Path, monkeypatch: Any
) -> None:
    written: list[int] = []
    join = joining.join

    def counted(files: Any, target: Path, *more: Any) -> None:
        join(files, target, *more)
        written.append(target.stat().st_size)

    monkeypatch.setattr(merging, "join", counted)
    run = SinkRun(FileSink, settings_of(tmp_path, "json", **{"rotate.bytes": 600}))
    rows = [{"id": n, "name": "x" * 5} for n in range(400)]
    for at in range(0, 400, 2):
        run.send("orders", rows[at : at + 2])
        run.flush()
    assert ids(tmp_path) == list(range(400))
    assert max(each.stat().st_size for each in files_of(tmp_path)) <= 600
    total = sum(each.stat().st_size for each in files_of(tmp_path))
    assert sum(written) <= 4 * total


def test_columns_that_changed_stay_apart(tmp_path: Path) -> None:
    run = SinkRun(FileSink, settings_of(tmp_path, "parquet"))
    other = [{"id": 100 + n, "more": 0.5} for n in range(12)]
    for at in range(0, 12, 2):
        run.send("orders", ROWS[at : at + 2], SCHEMA)
    for at in range(0, 12, 2):
        run.send("orders", other[at : at + 2], infer_schema(other))
    for _ in range(4):
        run.flush()
    assert ids(tmp_path) == [*range(12), *range(100, 112)]
    assert len(files_of(tmp_path)) == 2


class Steps:
    """Dies before the nth step that touches the disk."""

    def __init__(self, at: int) -> None:
        self.left = at

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*given: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Dies
            return call(*given, **more)

        return made


def steps_patched(patch: Any, steps: Steps) -> None:
    patch.setattr(merging, "replace_durably", steps.around(durable.replace_durably))
    patch.setattr(merging, "join", steps.around(joining.join))
    patch.setattr(merging, "exchange", steps.around(exchange.exchange))
    patch.setattr(merging, "sync_folder", steps.around(durable.sync_folder))
    patch.setattr(os, "link", steps.around(os.link))
    patch.setattr(os, "unlink", steps.around(os.unlink))
    patch.setattr(os, "rmdir", steps.around(os.rmdir))
    patch.setattr(Path, "mkdir", steps.around(Path.mkdir))
    patch.setattr(Path, "unlink", steps.around(Path.unlink))


@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_each_row_once_wherever_the_worker_dies(tmp_path: Path, format_: str, monkeypatch: Any) -> None:
    """Before every step of a merge; a second partition's file is in the same folder."""
    more = {"partitioner": "field", "partition.field.name": "kind", "merge.min.files": 3}
    rows = [{"id": n, "kind": "a"} for n in range(30)]
    for at in itertools.count():
        folder = tmp_path / str(at)
        run = SinkRun(FileSink, settings_of(folder, format_, **more))
        run.send("orders", rows[20:22], partition=1)
        for first in (0, 2, 4):
            run.send("orders", rows[first : first + 2])
        with monkeypatch.context() as patch:
            steps = Steps(at)
            steps_patched(patch, steps)
            with suppress(Dies):
                run.flush()
            left = steps.left
        assert sorted(ids(folder)) == [*range(6), 20, 21], f"before it starts again, step {at}"
        run.again()
        assert sorted(ids(folder)) == [*range(6), 20, 21], f"step {at}"
        for first in (6, 8, 10):
            run.send("orders", rows[first : first + 2])
        for _ in range(3):
            run.flush()
        assert sorted(ids(folder)) == [*range(12), 20, 21], f"step {at}"
        assert len(files_of(folder)) <= 4
        assert not list((folder / "_moldau").rglob("*merge*")), f"step {at}"
        if left >= 0:
            break
    assert at > 12


@pytest.mark.parametrize("late", ["sync_folder", "rmtree"])
def test_rows_that_others_merge_before_a_dead_worker_is_replaced_come_once(
    tmp_path: Path, late: str, monkeypatch: Any
) -> None:
    """One dies when its folder is in place and the old one not yet gone; the old one has small files of
    another's partition, which are merged meanwhile."""
    more = {"partitioner": "field", "partition.field.name": "kind", "merge.min.files": 3}
    rows = [{"id": n, "kind": "a"} for n in range(30)]
    dying = SinkRun(FileSink, settings_of(tmp_path, "json", **more))
    other = SinkRun(FileSink, settings_of(tmp_path, "json", **more))
    for first in (0, 2, 4):
        dying.send("orders", rows[first : first + 2])
        other.send("orders", rows[first + 10 : first + 12], partition=1)
    exchanged = exchange.exchange

    def dies(*_: Any) -> None:
        raise Dies

    with monkeypatch.context() as patch:

        def then_dies(*folders: Path) -> None:
            exchanged(*folders)
            patch.setattr(*((merging, late) if late == "sync_folder" else (merging.shutil, late)), dies)

        patch.setattr(merging, "exchange", then_dies)
        with pytest.raises(Dies):
            dying.flush()
    other.flush()
    assert len(files_of(tmp_path)) == 2
    dying.again()
    assert sorted(ids(tmp_path)) == [*range(6), *range(10, 16)]
    assert not list((tmp_path / "_moldau").rglob("*merge*"))


def test_readers_see_each_row_once_at_any_moment(tmp_path: Path) -> None:
    """A reader lists, opens and reads; where a file it listed is gone, it begins again."""
    run = SinkRun(FileSink, settings_of(tmp_path, "json", **{"merge.min.files": 3}))
    done = threading.Event()
    wrong: list[str] = []
    reads = 0

    def read() -> None:
        nonlocal reads
        seen = 0
        while not done.is_set() or not reads:
            try:
                found = ids(tmp_path)
            except FileNotFoundError:
                continue
            if sorted(found) != list(range(len(found))) or len(found) < seen:
                wrong.append(f"{sorted(found)} after {seen} rows")
                return
            seen = len(found)
            reads += 1

    reader = threading.Thread(target=read)
    reader.start()
    for at in range(0, 400, 2):
        run.send("orders", [{"id": n} for n in (at, at + 1)])
        run.flush()
    done.set()
    reader.join(60)
    assert wrong == []
    assert reads > 1


def test_a_file_that_comes_in_between_is_not_lost(tmp_path: Path, monkeypatch: Any) -> None:
    """Of somebody who knows no lock."""
    change = exchange.exchange

    def late(staged: Path, folder: Path) -> None:
        (folder / "notes.txt").write_text("mine")
        change(staged, folder)

    monkeypatch.setattr(merging, "exchange", late)
    run = SinkRun(FileSink, settings_of(tmp_path, "json"))
    for at in range(0, 8, 2):
        run.send("orders", ROWS[at : at + 2])
    run.flush()
    assert len(files_of(tmp_path)) == 1
    assert next(tmp_path.rglob("notes.txt")).read_text() == "mine"


def test_a_file_system_that_cannot(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    def cannot(*_: Path) -> None:
        raise exchange.NoExchange(22, "Invalid argument")

    monkeypatch.setattr(merging, "exchange", cannot)
    run = SinkRun(FileSink, settings_of(tmp_path, "json"))
    for at in range(0, 20, 2):
        run.send("orders", ROWS[at : at + 2])
        run.flush()
    assert len(files_of(tmp_path)) == 10
    assert caplog.text.count("small files are not merged here") == 1
    assert not list((tmp_path / "_moldau").rglob("*merge*"))


def test_an_older_task_merges_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    old = SinkRun(FileSink, settings_of(tmp_path, "json"))
    for at in range(0, 8, 2):
        old.send("orders", ROWS[at : at + 2])
    new = SinkRun(FileSink, settings_of(tmp_path, "json"))
    new.send("orders", ROWS[:8])
    with pytest.raises(ConnectError, match="another task writes orders-0"):
        old.flush()
    assert ids(tmp_path) == list(range(8))
    assert len(files_of(tmp_path)) == 4
