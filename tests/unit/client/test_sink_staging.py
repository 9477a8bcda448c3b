"""Batches on their way from a task to the driver: in the message, or in a file where both see it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from moldau.client.sealing import EncodedBatch, seal
from pyspark_moldau.sink_staging import MESSAGE_BYTES_MAX, Stage, make_folder, remove_folder


def batches(size: int) -> list[EncodedBatch]:
    return [EncodedBatch("t", number, 1, 0, 5, os.urandom(size)) for number in range(3)]


@pytest.mark.parametrize("size", [0, 10, MESSAGE_BYTES_MAX])
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_round_trip(size: int, where: str) -> None:
    folder = make_folder()
    sent = [*batches(size), *batches(10)]
    stage = Stage(folder if where == "here" else folder + "-not")
    stage.add(sent[:3])
    stage.add(sent[3:])
    message = pickle.dumps(stage.done())
    in_file = where == "here" and size > 10
    assert (len(message) < 2000) == (in_file or size <= 10)
    assert len(os.listdir(folder)) == in_file
    arrived = list(pickle.loads(message).batches())
    remove_folder(folder)  # what is mapped stays readable
    assert [(*one[:5], bytes(one.body)) for one in arrived] == [(*one[:5], one.body) for one in sent]
    assert [seal(one) for one in arrived] == [seal(one) for one in sent]
    assert not Path(folder).exists()


def test_what_failed_writes_leave_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    left, in_use = Path(make_folder()), Path(make_folder())
    stage = Stage(str(left))
    stage.add(batches(MESSAGE_BYTES_MAX))
    assert list(left.iterdir())
    stage.discard()
    assert not list(left.iterdir())
    os.utime(left, (0, 0))
    monkeypatch.setattr("pyspark_moldau.sink_staging._swept", set())  # as in another process
    latest = Path(make_folder())
    assert sorted(tmp_path.iterdir()) == sorted([in_use, latest])
