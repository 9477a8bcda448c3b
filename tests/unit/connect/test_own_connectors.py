"""The examples of docs/connect-own.md, run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from moldau.connect import BadRecord, ConnectError, Read, Sink, Source, batch_of
from moldau.connect.testing import SinkRun, SourceRun, check_sink, check_source

PAGE = Path(__file__).parents[3] / "docs" / "connect-own.md"


def examples(folder: Path) -> None:
    found = re.findall(r'```python title="(\w+)"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert {name for name, _ in found} == {"weather", "ledger", "test_own", "functions"}
    for name, text in found:
        (folder / f"{name}.py").write_text(text)


def test_the_pages_tests_pass(tmp_path: Path):
    examples(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_own.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_functions_are_connectors(tmp_path: Path, monkeypatch):
    examples(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import functions

    assert check_source(functions.counter, {"count": 3}) == [{"number": 0}, {"number": 1}, {"number": 2}]
    run = SinkRun(functions.printer, {"file": tmp_path / "out"})
    run.send("t", ["a", "b"])
    assert (tmp_path / "out").read_text() == "a\nb\n"
    with pytest.raises(ConnectError, match='"count"'):
        SourceRun(functions.counter, {})


class Forgetful(Source):
    """Loses a record when it starts again."""

    def partitions(self):
        return [{"a": 1}]

    def read(self, partition, offset):
        at = offset["at"] + 1 if offset else 0
        while at < 5:
            yield Read([batch_of("t", [at])], {"at": at + 1})
            at += 1


class Twice(Sink):
    """Does not look at numbers."""

    kept: ClassVar[list] = []

    def write(self, batch, number):
        from moldau.connect import rows

        self.kept += [row.value for row in rows(batch)]


def test_the_kit_finds_what_is_lost_and_what_is_twice():
    with pytest.raises(AssertionError, match="gives other records when it is started again"):
        check_source(Forgetful, {})

    def settings():
        Twice.kept.clear()
        return {}

    with pytest.raises(AssertionError, match="with a crash after write number 1"):
        check_sink(Twice, settings, [[1, 2], [3]], lambda _: Twice.kept)


def test_bad_records_are_collected_or_raise(tmp_path: Path, monkeypatch):
    class Picky(Sink):
        def write(self, batch, number):
            self.context.bad_record(batch, 1, BadRecord("not this one", 1))

    tolerant = SinkRun(Picky, {}, tolerant=True)
    tolerant.send("t", [1, 2])
    assert tolerant.bad == [(1, "not this one")]
    with pytest.raises(BadRecord):
        SinkRun(Picky, {}).send("t", [1, 2])
