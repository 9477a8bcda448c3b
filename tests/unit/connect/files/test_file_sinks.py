"""FileStreamSink and FileSink, run by the kit: every record once, wherever they die; full disks; two at a
time."""

from __future__ import annotations

import errno
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv, dataset

from moldau.connect import ConnectError, Retriable, TopicPartition, infer_schema
from moldau.connect.connectors.files import formats
from moldau.connect.connectors.files.layout import strftime_format
from moldau.connect.connectors.files.manifest import Manifest
from moldau.connect.connectors.files.sink import FileSink
from moldau.connect.connectors.files.stream_sink import FileStreamSink
from moldau.connect.testing import Dies, SinkRun, check_sink

RUNS = [[{"id": 10 * run + n, "kind": "ab"[n % 2]} for n in range(5)] for run in range(4)]
PLACE = TopicPartition("orders", 0)


def read_back(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What anybody finds in the folder."""
    found = []
    for each in sorted(Path(settings["path"]).rglob("*.*")):
        if "_moldau" in each.parts or not each.is_file():
            continue
        if each.suffix == ".json":
            found += [json.loads(line) for line in each.read_text().splitlines()]
        elif each.suffix == ".csv":
            found += csv.read_csv(each).to_pylist()
        else:
            found += dataset.dataset(each, format="parquet").to_table().to_pylist()
    return found


@pytest.mark.parametrize("format_", ["parquet", "csv", "json"])
@pytest.mark.parametrize("partitioner", ["default", "field"])
def test_files_have_each_record_once_wherever_the_worker_dies(tmp_path: Path, format_: str, partitioner: str):
    numbers = itertools.count()

    def settings() -> dict[str, Any]:
        return {
            "path": tmp_path / str(next(numbers)),
            "format": format_,
            "partitioner": partitioner,
            "partition.field.name": "kind",
            "flush.size": 3,
        }

    check_sink(FileSink, settings, RUNS, read_back, infer_schema(RUNS[0]))


def test_names_carry_topic_partition_and_first_offset_and_open_files_are_not_seen(tmp_path: Path):
    run = SinkRun(FileSink, {"path": tmp_path, "format": "json", "flush.size": 10})
    for values in RUNS[:3]:
        run.send("orders", values)
    run.flush()
    names = sorted(str(each.relative_to(tmp_path)) for each in (tmp_path / "orders").rglob("*.json"))
    assert names == ["orders/partition=0/orders+0+0000000000.json"]
    assert read_back({"path": tmp_path}) == RUNS[0] + RUNS[1]
    run.stop()
    again = SinkRun(FileSink, {"path": tmp_path, "format": "json", "flush.size": 10})
    assert again.sink.positions([PLACE]) == {PLACE: 10}  # what was open is read again
    assert not list(tmp_path.rglob("*.tmp"))


def test_time_folders_are_of_the_records_time_and_old_files_are_put_in_place(tmp_path: Path):
    assert strftime_format("'year'=YYYY/'q'/MM-dd/HH'h'") == "year=%Y/q/%m-%d/%Hh"
    settings = {
        "path": tmp_path,
        "format": "json",
        "partitioner": "time",
        "path.format": "'day'=YYYY-MM-dd",
        "rotate.interval.ms": 1,
    }
    run = SinkRun(FileSink, settings)
    run.send("orders", RUNS[0])
    while not read_back(settings):
        run.flush()
    assert (tmp_path / "orders/day=2023-11-14/orders+0+0000000000.json").exists()


def test_a_crash_between_manifest_and_renames_is_completed(tmp_path: Path, monkeypatch):
    run = SinkRun(FileSink, {"path": tmp_path, "format": "json", "flush.size": 5})
    with monkeypatch.context() as patch:

        def dies(*_: Any) -> None:
            raise Dies

        patch.setattr(Manifest, "complete", dies)
        with pytest.raises(Dies):
            run.send("orders", RUNS[0])
    assert read_back({"path": tmp_path}) == []
    run.again()
    assert read_back({"path": tmp_path}) == RUNS[0]
    run.send("orders", RUNS[1])
    assert read_back({"path": tmp_path}) == RUNS[0] + RUNS[1]


def test_a_full_disk_is_retriable_and_all_that_was_open_is_written_again(tmp_path: Path, monkeypatch):
    run = SinkRun(FileSink, {"path": tmp_path, "format": "json", "flush.size": 100})
    run.send("orders", RUNS[0])
    with monkeypatch.context() as patch:

        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(formats.OpenFile, "write", full)
        run.send("orders", RUNS[1])
        with pytest.raises(Retriable, match="No space left"):
            run.flush()
    assert run.sink.positions([PLACE]) == {PLACE: 0}
    run.again()
    run.send("orders", [{"id": n, "kind": "c"} for n in range(95)])
    assert read_back({"path": tmp_path})[:10] == RUNS[0] + RUNS[1]


def test_an_older_task_cannot_put_anything_in_place(tmp_path: Path):
    old = SinkRun(FileSink, {"path": tmp_path, "format": "json", "flush.size": 10})
    old.send("orders", RUNS[0])
    new = SinkRun(FileSink, {"path": tmp_path, "format": "json", "flush.size": 10})
    new.send("orders", RUNS[0])
    with pytest.raises(ConnectError, match=r"another task writes orders-0|cannot be written"):
        old.send("orders", RUNS[1])
    new.send("orders", RUNS[1])
    assert read_back({"path": tmp_path}) == RUNS[0] + RUNS[1]


def test_another_schema_begins_another_file_and_tombstones_have_none(tmp_path: Path):
    run = SinkRun(FileSink, {"path": tmp_path, "flush.size": 4})
    run.send("orders", RUNS[0][:2])
    run.send("orders", [{"id": 1, "more": 2.5}, None])
    run.send("orders", [None])
    run.send("orders", [{"id": n, "more": 0.5} for n in range(4)])
    files = sorted(each.name for each in (tmp_path / "orders").rglob("*.parquet"))
    assert files == ["orders+0+0000000000.parquet", "orders+0+0000000002.parquet"]
    assert run.sink.positions([PLACE]) == {PLACE: 9}
    run.sink.set_positions({PLACE: 4})
    assert run.sink.positions([PLACE]) == {PLACE: 4}


@pytest.mark.parametrize("topic", ["..", "a/b", "_moldau"])
def test_a_topics_name_does_not_lead_out_of_the_folder(tmp_path: Path, topic: str):
    run = SinkRun(FileSink, {"path": tmp_path, "format": "json"})
    with pytest.raises(ConnectError, match="cannot be the name of a folder"):
        run.send(topic, RUNS[0])


def test_a_fields_value_does_neither(tmp_path: Path):
    settings = {
        "path": tmp_path,
        "format": "json",
        "partitioner": "field",
        "partition.field.name": "kind",
        "flush.size": 1,
    }
    run = SinkRun(FileSink, settings)
    for kind in ("../../x", "..", None, "a b=c"):
        run.send("orders", [{"kind": kind}])
    folders = {
        each.parent.relative_to(tmp_path / "orders").as_posix()
        for each in tmp_path.rglob("*.json")
        if "_moldau" not in each.parts
    }
    assert folders == {"kind=..%2F..%2Fx", "kind=%2E%2E", "kind=__HIVE_DEFAULT_PARTITION__", "kind=a b%3Dc"}


def test_lines_come_once_wherever_the_worker_dies(tmp_path: Path):
    numbers = itertools.count()
    texts = [[f"{run}-{n}" for n in range(3)] for run in range(4)]

    def settings() -> dict[str, Any]:
        return {"file": tmp_path / str(next(numbers))}

    def lines(given: Mapping[str, Any]) -> list[str]:
        return Path(given["file"]).read_text().splitlines()

    check_sink(FileStreamSink, settings, texts, lines)


def test_two_tasks_do_not_write_one_file(tmp_path: Path):
    one = SinkRun(FileStreamSink, {"file": tmp_path / "out"})
    with pytest.raises(Retriable, match=r"tasks\.max has to be 1"):
        SinkRun(FileStreamSink, {"file": tmp_path / "out"})
    one.stop()
    SinkRun(FileStreamSink, {"file": tmp_path / "out"}).stop()
