"""What a producer was told, written down before and after each step, in a file that survives kill -9.

An attempt is a transaction, or a handful of records without one. Three lines a attempt, each one `write`:

    {"begin": 7, "mode": "transaction", "records": [[topic, partition, key, size], ...]}   before it is sent
    {"decide": 7, "commit": true}                                                          before its end
    {"told": 7, "outcome": "committed", "offsets": [12, null, ...]}                        after the answer

What a kill leaves out is itself knowledge: without `decide` nobody ever asked for a commit, so that the
records must never be seen; with `decide` and without `told` the outcome is unknown, and all or nothing is
allowed. A size of -1 is a tombstone. A value says whose it is, so that any record found leads back to its
attempt.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

TOMBSTONE = -1
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"
TRANSACTION, IDEMPOTENT, PLAIN = "transaction", "idempotent", "plain"


class Entry(NamedTuple):
    """One record as it was handed to the client."""

    topic: str
    partition: int
    key: str
    size_bytes: int


@dataclass(slots=True)
class Attempt:
    """A transaction, or a handful of records without one, and what its producer knows of it."""

    producer: str
    number: int
    mode: str
    records: list[Entry]
    commit: bool | None = None
    outcome: str | None = None
    offsets: list[int | None] = field(default_factory=list)

    def fate(self, index: int) -> str:
        """What may be expected of one record: it must be there, must not, or may."""
        if self.mode != TRANSACTION:
            return COMMITTED if self.offset(index) is not None else UNKNOWN
        if self.outcome is not None:
            return self.outcome
        return UNKNOWN if self.commit else ABORTED

    def offset(self, index: int) -> int | None:
        """The offset that a delivery report named, if one came."""
        return self.offsets[index] if index < len(self.offsets) else None


class Ledger:
    """One producer's file, opened for writing."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def begin(self, number: int, mode: str, records: Iterable[Entry]) -> None:
        self._write({"begin": number, "mode": mode, "records": list(records)})

    def decide(self, number: int, commit: bool) -> None:
        self._write({"decide": number, "commit": commit})

    def told(self, number: int, outcome: str, offsets: list[int | None]) -> None:
        self._write({"told": number, "outcome": outcome, "offsets": offsets})

    def note(self, text: str) -> None:
        """Something for whoever reads the file after a failure."""
        self._write({"note": text})

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file that may still grow, or whose writer was killed."""
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)


def read_ledger(producer: str, path: Path) -> list[Attempt]:
    """All attempts of a producer, in order."""
    attempts: dict[int, Attempt] = {}
    for line in lines(path):
        if "begin" in line:
            records = [Entry(*one) for one in line["records"]]
            attempts[line["begin"]] = Attempt(producer, line["begin"], line["mode"], records)
        elif "decide" in line:
            attempts[line["decide"]].commit = line["commit"]
        elif "told" in line:
            attempts[line["told"]].outcome = line["outcome"]
            attempts[line["told"]].offsets = line["offsets"]
    return list(attempts.values())


def value_of(producer: str, number: int, index: int, size_bytes: int) -> bytes | None:
    """The value of a record: whose it is, then filler that an exchanged byte would not match."""
    if size_bytes == TOMBSTONE:
        return None
    name = f"{producer}|{number}|{index}|".encode()
    filler = f"{number * 7919 + index:x}.".encode()
    return name + (filler * (size_bytes // len(filler) + 1))[: max(0, size_bytes - len(name))]


def owner_of(value: bytes) -> tuple[str, int, int]:
    """Producer, attempt and index that a value names; ValueError when it names none."""
    producer, number, index, _ = value.split(b"|", 3)
    return producer.decode(), int(number), int(index)
