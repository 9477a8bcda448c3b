"""FileStreamSource, FileSource and Datagen, run by the kit: every record once, wherever they are stopped."""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from moldau.connect import ConnectError, Type
from moldau.connect.connectors.files import finishing
from moldau.connect.connectors.files.avro_random import RandomAvro
from moldau.connect.connectors.files.datagen import Datagen
from moldau.connect.connectors.files.datagen_schemas import QUICKSTARTS
from moldau.connect.connectors.files.source import FileSource
from moldau.connect.connectors.files.stream_source import FileStreamSource, split_lines
from moldau.connect.testing import Dies, SourceRun, check_source


@pytest.mark.parametrize(
    ("data", "lines", "rest"),
    [
        (b"a\nb\nc", [b"a", b"b"], b"c"),
        (b"a\r\nb\r", [b"a"], b"b\r"),
        (b"a\rb\r\nc\n", [b"a", b"b", b"c"], b""),
        (b"\n\n", [b"", b""], b""),
        (b"a\x0bb\x1c\r\n", [b"a\x0bb\x1c"], b""),
        (b"", [], b""),
    ],
)
def test_lines_end_as_in_java(data: bytes, lines: list[bytes], rest: bytes):
    found, left, taken = split_lines(data)
    assert (found, left) == (lines, rest)
    assert sum(taken) + len(left) == len(data)


def test_a_file_that_grows_is_read_line_by_line_with_kafkas_offsets(tmp_path: Path):
    file = tmp_path / "log"
    run = SourceRun(FileStreamSource, {"file": file, "topic": "t", "batch.size": 2})
    assert run.read() == []
    file.write_bytes(b"eins\nzwei\ndrei\nvi")
    assert [row.value for row in run.read(5)] == ["eins", "zwei", "drei"]
    assert run.offsets == {json.dumps({"filename": str(file)}): {"position": 15}}
    with file.open("a") as more:
        more.write("er\nfünf\n")
    run.crash()
    assert [row.value for row in run.read(5)] == ["vier", "fünf"]
    assert run.batches[0].value.schema.type is Type.STRING
    file.write_text("neu\n")  # shorter: begun anew
    run.read()
    assert [row.value for row in run.read(5)] == ["neu"]


def test_a_file_that_was_replaced_is_read_from_where_the_old_one_ended_or_anew(tmp_path: Path):
    file = tmp_path / "log"
    file.write_text("one\ntwo\n")
    run = SourceRun(FileStreamSource, {"file": file, "topic": "t"})
    assert len(run.read(3)) == 2
    (tmp_path / "other").write_text("x\n")
    os.replace(tmp_path / "other", file)
    run.read()
    assert [row.value for row in run.read()] == ["x"]


def folder(tmp_path: Path, format_: str) -> Path:
    made = tmp_path / format_
    made.mkdir()
    rows = [{"id": n, "name": f"n{n}", "price": n / 2} for n in range(10)]
    for number in range(3):
        part = [{**row, "id": row["id"] + 10 * number} for row in rows]
        path = made / f"f{number}.{format_}"
        if format_ == "csv":
            lines = ["id,name,price", *(f"{row['id']},{row['name']},{row['price']}" for row in part)]
            path.write_text("\n".join(lines) + "\n")
        elif format_ == "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in part))
        elif format_ == "parquet":
            parquet.write_table(pa.Table.from_pylist(part), path, row_group_size=4)
        elif format_ == "avro":
            schema = {
                "type": "record",
                "name": "r",
                "fields": [
                    {"name": "id", "type": "long"},
                    {"name": "name", "type": "string"},
                    {"name": "price", "type": "double"},
                ],
            }
            buffer = io.BytesIO()
            fastavro.writer(buffer, schema, part)
            path.write_bytes(buffer.getvalue())
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    (made / "f9.tmp").write_text("in the making")
    (made / ".hidden").write_text("hidden")
    return made


@pytest.mark.parametrize("format_", ["csv", "json", "parquet", "avro"])
def test_a_folder_is_read_once_wherever_it_is_stopped(tmp_path: Path, format_: str):
    settings = {
        "path": folder(tmp_path, format_),
        "topic": "t",
        "format": format_,
        "glob": f"*.{format_}",
        "batch.size": 3,
        "schema.infer": "true",
        "key.field": "id",
    }
    values = check_source(FileSource, settings)
    assert [value["id"] for value in values] == list(range(30))
    assert values[13] == {"id": 13, "name": "n3", "price": 1.5}
    run = SourceRun(FileSource, settings)
    (row, *_) = run.read()
    assert row.key == 0
    assert run.batches[0].value.schema is not None
    run.read(30)
    later = tmp_path / format_ / f"f0b.{format_}"
    later.write_bytes((tmp_path / format_ / f"f0.{format_}").read_bytes())
    os.utime(later, (1, 1))  # older than what was read, and read nevertheless
    assert [row.key for row in run.read(30)] == list(range(10))


def test_the_schema_is_inferred_once_and_kept_with_the_offset(tmp_path: Path):
    made = tmp_path / "in"
    made.mkdir()
    (made / "a.csv").write_text("id,name\n1,x\n")
    settings = {"path": made, "topic": "t", "format": "csv"}
    run = SourceRun(FileSource, settings)
    run.read(5)
    (made / "b.csv").write_text("id,name\n2,3\n")  # would be a number, were it asked again
    run.crash()
    assert [row.value for row in run.read(5)] == [{"id": 2, "name": "3"}]
    (made / "c.csv").write_text("id,name\nthree,x\n")
    with pytest.raises(ConnectError, match=r"c\.csv: rows at byte 8 do not fit"):
        run.read(5)


@pytest.mark.parametrize("policy", ["move", "delete"])
def test_finished_files_go_once_they_are_committed_and_not_before(tmp_path: Path, policy: str):
    made = folder(tmp_path, "csv")
    settings = {
        "path": made,
        "topic": "t",
        "format": "csv",
        "glob": "*.csv",
        "finished": policy,
        "finished.path": tmp_path / "done",
        "finished.after.ms": 0,
        "batch.size": 4,
    }
    run = SourceRun(FileSource, settings)
    (partition,) = run.partitions()
    for _ in range(3):
        run.next(partition)  # read, and never committed
    assert len(list(made.glob("*.csv"))) == 3
    run.crash()
    run.read(40)
    run.crash()  # what a crash has left is done now
    run.read(5)
    assert [value["id"] for value in run.values()] == list(range(30))
    assert not list(made.glob("*.csv"))
    assert len(list((tmp_path / "done").glob("*.csv"))) == (3 if policy == "move" else 0)
    assert next(iter(run.offsets.values()))["files"] == {}


def test_a_last_line_without_an_end_counts_when_the_file_is_finished(tmp_path: Path):
    made = tmp_path / "in"
    made.mkdir()
    (made / "a").write_text("one\ntwo")
    settings = {"path": made, "topic": "t", "finished.after.ms": 3_600_000}
    run = SourceRun(FileSource, settings)
    assert [row.value for row in run.read(5)] == ["one"]
    os.utime(made / "a", (1, 1))
    assert [row.value for row in run.read(5)] == ["two"]


def test_what_contradicts_itself_is_named():
    settings = {
        "finished": "move", "finished.path": None, "pattern": "x", "glob": "y", "csv.delimiter": ";;",
        "schema": "{",
    }  # fmt: skip
    assert set(FileSource().check(settings)) == {"finished.path", "glob", "csv.delimiter", "schema"}


@pytest.mark.parametrize("name", sorted(QUICKSTARTS))
def test_quickstarts_are_the_same_after_a_crash(name: str):
    settings = {"kafka.topic": "t", "quickstart": name, "iterations": 30, "max.interval": -1}
    values = check_source(Datagen, settings)
    assert len(values) == 30
    assert len({json.dumps(value) for value in values}) > 5
    run = SourceRun(Datagen, settings)
    assert run.read()[3].key == values[3][QUICKSTARTS[name].key]


def test_a_schema_of_ones_own():
    avro = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "code", "type": "string", "arg.properties": {"regex": "[A-C]{2}-(x|yy)\\d+"}},
            {"name": "n", "type": {"type": "int", "arg.properties": {"iteration": {"start": 5, "step": 2}}}},
            {"name": "tags", "type": {"type": "array", "items": "string", "arg.properties": {"length": 2}}},
            {"name": "maybe", "type": ["null", "long"]},
            {"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["A", "B"]}},
        ],
    }
    made = check_source(
        Datagen, {"kafka.topic": "t", "schema.string": json.dumps(avro), "iterations": 20, "max.interval": 0}
    )
    assert [value["n"] for value in made] == list(range(5, 45, 2))
    assert all(len(value["tags"]) == 2 and value["kind"] in "AB" for value in made)
    import re

    assert all(re.fullmatch(r"[A-C]{2}-(x|yy)\d+", value["code"]) for value in made)
    with pytest.raises(ConnectError, match="unknown type"):
        RandomAvro({"type": "record", "name": "r", "fields": [{"name": "a", "type": "nothing"}]})


FINISHED = {"topic": "t", "format": "lines", "finished.after.ms": 0}


def test_a_file_that_is_written_to_is_not_deleted(tmp_path: Path):
    """Its writer has it open, or has written since it was read."""
    file = tmp_path / "in" / "log"
    file.parent.mkdir()
    run = SourceRun(FileSource, {**FINISHED, "path": file.parent, "finished": "delete"})
    with file.open("a") as writer:
        writer.write("one\n")
        writer.flush()
        run.read(5)
        assert [each.name for each in file.parent.iterdir()] == ["log"]
        writer.write("two\n")
    run.read(5)
    assert run.values() == ["one", "two"]
    assert list(file.parent.iterdir()) == []


def test_what_is_written_between_the_look_and_the_deletion_is_read(tmp_path: Path, monkeypatch):
    file = tmp_path / "log"
    file.write_text("one\n")
    run = SourceRun(FileSource, {**FINISHED, "path": tmp_path, "finished": "delete"})
    finish = finishing.finish

    def late(path: Path, *more: object) -> bool:
        if path.stat().st_size == 4:
            with path.open("a") as writer:
                writer.write("two\n")
        return finish(path, *more)

    monkeypatch.setattr("moldau.connect.connectors.files.source.finish", late)
    run.read(10)
    assert run.values() == ["one", "two"]
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_under_the_name_of_a_finished_one_is_read_from_its_beginning(tmp_path: Path):
    """Also where it is longer than the old one was, and where both are kept under one name."""
    folder, done = tmp_path / "in", tmp_path / "done"
    folder.mkdir()
    (folder / "log").write_text("one\n")
    run = SourceRun(FileSource, {**FINISHED, "path": folder, "finished": "move", "finished.path": done})
    run.read(1)
    for _ in range(3):
        if not (folder / "log").exists():
            break
        run.read(1)
    (folder / "log").write_text("a longer line\n")
    run.read(10)
    assert run.values() == ["one", "a longer line"]
    assert sorted((each.name, each.read_text()) for each in done.iterdir()) == [
        ("log", "one\n"), ("log.1", "a longer line\n")]  # fmt: skip


def test_a_crash_while_a_file_is_finished(tmp_path: Path, monkeypatch):
    file = tmp_path / "log"
    file.write_text("one\n")
    run = SourceRun(FileSource, {**FINISHED, "path": tmp_path, "finished": "delete"})
    with monkeypatch.context() as patch:

        def dies(*_: object) -> None:
            raise Dies

        patch.setattr(finishing, "_is_at_rest", dies)
        with pytest.raises(Dies):
            run.read(5)
    assert not file.exists()
    run.crash()
    run.read(5)
    assert run.values() == ["one"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_", ["lines", "parquet"])
def test_files_from_a_clock_that_is_ahead_are_read_and_finished(tmp_path: Path, format_: str):
    """Also where ours was set back since they were written."""
    file = tmp_path / "data"
    if format_ == "lines":
        file.write_text("one\n")
    else:
        parquet.write_table(pa.table({"id": [1]}), file)
    os.utime(file, (4_102_444_800, 4_102_444_800))  # the year 2100
    settings = {
        **FINISHED,
        "format": format_,
        "path": tmp_path,
        "finished": "delete",
        "finished.after.ms": 20,
    }
    run = SourceRun(FileSource, settings)
    for _ in range(1000):
        run.read(3)
        if not file.exists():
            break
        time.sleep(0.005)
    assert len(run.values()) == 1
    assert not file.exists()
