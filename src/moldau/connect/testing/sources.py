"""Runs a source as a worker does: partition by partition, with offsets that go through JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moldau.connect.batch import Batch
from moldau.connect.building import Row, rows
from moldau.connect.source import Read, Source, SourceContext
from moldau.connect.typed_settings import required_typed

_NOTHING_MAX = 1_000


class SourceRun:
    """A source, and what it has brought so far.

    Offsets go through JSON, as they do in Kafka; `context.wait` does not wait, and counts in `waited`.
    """

    def __init__(self, kind: type[Source], settings: Mapping[str, Any]) -> None:
        """Start it. ConnectError: settings are wrong; what `start` raises."""
        self._kind = kind
        self._settings = {name: str(value) for name, value in settings.items()}
        self.offsets: dict[str, Any] = {}
        """What is committed, by partition (as JSON)."""
        self.batches: list[Batch] = []
        """What is committed, in order."""
        self.refused: list[str] = []
        """Why records are none, of reads that are committed."""
        self.waited = 0.0
        """Seconds that the source would have waited."""
        self._stopping = False
        self.source = self._started()
        self._iterators: dict[str, Iterator[Read | None]] = {}

    def _started(self) -> Source:
        source = self._kind()
        context = SourceContext("test", 0, lambda: self._stopping, self._wait, lambda: None)
        source.start(required_typed(self._kind.settings, self._settings, self._kind.__name__), context)
        return source

    def _wait(self, seconds: float) -> bool:
        self.waited += seconds
        return self._stopping

    def partitions(self) -> Sequence[Mapping[str, Any]]:
        """What there is to read, as JSON has it."""
        found: Sequence[Mapping[str, Any]] = json.loads(json.dumps(list(self.source.partitions())))
        return found

    def read(self, count: int = 1) -> list[Row]:
        """So many reads of each partition, committed one by one; the records."""
        before = len(self.batches)
        for partition in self.partitions():
            for _ in range(count):
                read = self.next(partition)
                if read is None:
                    break
                self.commit(partition, read)
        return [row for batch in self.batches[before:] for row in rows(batch)]

    def next(self, partition: Mapping[str, Any]) -> Read | None:
        """The next read of a partition, not committed; None: it has nothing, several times in a row."""
        key = _key(partition)
        for _ in range(_NOTHING_MAX):
            if key not in self._iterators:
                offset = self.offsets.get(key)
                self._iterators[key] = iter(self.source.read(partition, offset))
            try:
                read = next(self._iterators[key])
            except StopIteration:
                del self._iterators[key]
                return None
            if read is not None:
                return read
        return None

    def commit(self, partition: Mapping[str, Any], read: Read) -> None:
        """Records and offset are in Kafka."""
        offset = json.loads(json.dumps(read.offset))
        self.offsets[_key(partition)] = offset
        self.batches += [each for each in read.batches if len(each)]
        self.refused += [str(each.error) for each in read.refused]
        self.source.committed(partition, offset)

    def values(self) -> list[Any]:
        """The values of all records that are committed."""
        return [row.value for batch in self.batches for row in rows(batch)]

    def crash(self) -> None:
        """End it without notice, and start a new one with what is committed."""
        self._let_go()
        self.source = self._started()

    def stop(self) -> None:
        """End it as a worker does."""
        self._stopping = True
        self._let_go()

    def _let_go(self) -> None:
        for each in self._iterators.values():
            close = getattr(each, "close", None)
            if close is not None:
                close()
        self._iterators.clear()
        self.source.stop()


def _key(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True)


def check_source(kind: type[Source], settings: Mapping[str, Any], reads_max: int = 50) -> list[Any]:
    """Read all there is (or so many reads a partition) without a break, and then with a crash after every
    read, and before every commit. AssertionError: the records differ. The values.

    What the source reads from must stay as it is meanwhile, also after `committed`.
    """
    whole = SourceRun(kind, settings)
    whole.read(reads_max)
    whole.stop()
    wanted = whole.values()
    broken = SourceRun(kind, settings)
    for partition in broken.partitions():
        for _ in range(reads_max):
            lost = broken.next(partition)
            broken.crash()  # after it was read, before it was committed
            again = broken.next(partition)
            if again is None:
                assert lost is None, f"{kind.__name__} does not read again what was not committed"
                break
            broken.commit(partition, again)
            broken.crash()
    broken.stop()
    assert broken.values() == wanted, (
        f"{kind.__name__} gives other records when it is started again at its offsets:\n"
        f"{broken.values()}\ninstead of\n{wanted}"
    )
    return wanted
