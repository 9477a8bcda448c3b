"""Offsets of a standalone worker: which of topic and file counts."""

from collections.abc import Sequence
from pathlib import Path

from moldau.services.connect.stores import offset_file
from moldau.services.connect.stores.file_offsets import FileOffsets
from moldau.services.connect.stores.offsets import KnownOffset

KEY = b'["c",{"f":1}]'
PLACE = {"f": 1}


class FakeLog:
    """A topic in memory."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.reader: FileOffsets | None = None
        self._read = 0

    def start(self, timeout_seconds: float) -> None:
        self._read = 0
        self.read_to_end(timeout_seconds)

    def send(self, records: Sequence[tuple[str | bytes, bytes | None]], timeout_seconds: float) -> None:
        self.records += [(key if isinstance(key, bytes) else key.encode(), value) for key, value in records]

    def read_to_end(self, timeout_seconds: float) -> None:
        assert self.reader is not None
        for key, value in self.records[self._read :]:
            self.reader.replay(key, value, 0, self._read)
            self._read += 1

    def close(self) -> None: ...


def begun(path: Path, topic: FakeLog) -> FileOffsets:
    offsets = FileOffsets(path, 60.0)
    offsets.attach(topic)
    topic.reader = offsets
    offsets.start(1)
    return offsets


def test_what_kafkas_worker_left_is_where_we_begin_and_the_reverse(tmp_path: Path) -> None:
    path, topic = tmp_path / "offsets", FakeLog()
    offset_file.save(path, {KEY: b'{"position":1}'})
    first = begun(path, topic)
    assert first.offsets("c") == [KnownOffset(PLACE, {"position": 1})]
    topic.send([(KEY, b'{"position":2}')], 1)  # a source's transaction
    assert first.offsets("c") == [KnownOffset(PLACE, {"position": 2})]
    first.close()
    assert offset_file.load(path) == {KEY: b'{"position":2}'}
    offset_file.save(path, {KEY: b'{"position":9}'})  # Kafka's worker ran in between
    assert begun(path, topic).offsets("c") == [KnownOffset(PLACE, {"position": 9})]


def test_after_a_crash_the_topic_counts(tmp_path: Path) -> None:
    path, topic = tmp_path / "offsets", FakeLog()
    first = begun(path, topic)
    first.write("c", [KnownOffset(PLACE, {"position": 1})])
    topic.send([(KEY, b'{"position":2}')], 1)
    assert offset_file.load(path) == {KEY: b'{"position":1}'}  # it was not written again
    again = begun(path, topic)
    assert again.offsets("c") == [KnownOffset(PLACE, {"position": 2})]
    again.write("c", [KnownOffset(PLACE, None)])
    assert offset_file.load(path) == {}
    assert again.offsets("c") == []


def test_what_was_taken_over_is_ours_at_once(tmp_path: Path) -> None:
    path, topic = tmp_path / "offsets", FakeLog()
    offset_file.save(path, {KEY: b'{"position":1}'})
    begun(path, topic)
    topic.send([(KEY, b'{"position":2}')], 1)  # a source's transaction, then a crash: nothing was saved
    assert begun(path, topic).offsets("c") == [KnownOffset(PLACE, {"position": 2})]


def test_after_a_crash_the_file_follows_though_nothing_is_read_any_more(tmp_path: Path) -> None:
    path, topic = tmp_path / "offsets", FakeLog()
    begun(path, topic).write("c", [KnownOffset(PLACE, {"position": 1})])
    topic.send([(KEY, b'{"position":2}')], 1)
    begun(path, topic).close()
    assert offset_file.load(path) == {KEY: b'{"position":2}'}


def test_a_file_that_was_removed_begins_anew(tmp_path: Path) -> None:
    path, topic = tmp_path / "offsets", FakeLog()
    first = begun(path, topic)
    first.write("c", [KnownOffset(PLACE, {"position": 1})])
    first.close()
    path.unlink()
    assert begun(path, topic).offsets("c") == []
    assert topic.records[-1] == (KEY, None)


def test_without_the_file_and_its_mark_the_topic_counts(tmp_path: Path) -> None:
    topic = FakeLog()
    begun(tmp_path / "offsets", topic).write("c", [KnownOffset(PLACE, {"position": 1})])
    other = tmp_path / "new machine"
    other.mkdir()
    assert begun(other / "offsets", topic).offsets("c") == [KnownOffset(PLACE, {"position": 1})]
