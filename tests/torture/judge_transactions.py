"""The ledgers of all producers against what a read_committed consumer saw.

told committed                  every record is there, once, intact, at the offset that was acknowledged
told aborted, or never asked    none is there
unknown                         all are there, or none
without a transaction           acknowledged: there, once; else there at most once
one producer, one partition     in the order in which they were written
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from torture.ledger import ABORTED, COMMITTED, TRANSACTION, Attempt, owner_of, value_of
from torture.reading import Place, Seen

Owner = tuple[str, int, int]


def judge(attempts: Iterable[Attempt], seen: Sequence[Seen]) -> list[str]:
    """Every way in which the two differ, one line each."""
    known = {(one.producer, one.number): one for one in attempts}
    complaints: list[str] = []
    found: dict[Owner, Seen] = {}
    order: dict[tuple[str, Place], list[tuple[int, int]]] = {}
    for record in seen:
        owner = _owner(known, record)
        if owner is None:
            complaints.append(
                f"a record that nobody wrote so: {_name(record)} {(record.value or b'')[:40]!r}"
            )
            continue
        if owner in found:
            complaints.append(f"twice: {owner} at {_name(found[owner])} and {_name(record)}")
            continue
        found[owner] = record
        order.setdefault((owner[0], (record.topic, record.partition)), []).append(owner[1:])
    for (producer, place), numbers in order.items():
        for before, after in pairwise(numbers):
            if after < before:
                complaints.append(f"order of {producer} in {place[0]}-{place[1]}: {after} after {before}")
    for attempt in known.values():
        complaints += _judge_attempt(attempt, found)
    return complaints


def _owner(known: dict[tuple[str, int], Attempt], record: Seen) -> Owner | None:
    """Whose record it is, if topic, partition, key and every byte of the value are what was handed over."""
    try:
        producer, number, index = owner_of(record.value or b"")
        entry = known[producer, number].records[index]
    except (ValueError, LookupError):
        return None
    intact = (
        record.value == value_of(producer, number, index, entry.size_bytes)
        and record.key == entry.key.encode()
        and (record.topic, record.partition) == (entry.topic, entry.partition)
    )
    return (producer, number, index) if intact else None


def _judge_attempt(attempt: Attempt, found: dict[Owner, Seen]) -> list[str]:
    complaints = []
    there = 0
    for index, entry in enumerate(attempt.records):
        name = f"{attempt.producer} {attempt.mode} {attempt.number} record {index} of {len(attempt.records)}"
        record = found.get((attempt.producer, attempt.number, index))
        fate, offset = attempt.fate(index), attempt.offset(index)
        there += record is not None
        if record is None and fate == COMMITTED:
            complaints.append(f"lost: {name}, acknowledged at {entry.topic}-{entry.partition}@{offset}")
        elif record is not None and fate == ABORTED:
            complaints.append(f"aborted and yet seen: {name} at {_name(record)}")
        elif record is not None and offset is not None and record.offset != offset:
            complaints.append(f"moved: {name} was acknowledged at {offset}, lies at {_name(record)}")
    if attempt.mode == TRANSACTION and 0 < there < len(attempt.records):
        complaints.append(
            f"half: {attempt.producer} transaction {attempt.number} ({attempt.outcome}) shows {there} of"
            f" {len(attempt.records)} records"
        )
    return complaints


def differences(what: str, one: Sequence[Seen], other: Sequence[Seen]) -> list[str]:
    """Where two readings of the same partitions differ; each partition in its own order."""
    complaints = []
    first = {(r.topic, r.partition, r.offset): r for r in one}
    second = {(r.topic, r.partition, r.offset): r for r in other}
    if len(first) != len(one) or len(second) != len(other):
        complaints.append(f"{what}: an offset was read twice")
    for place in sorted(first.keys() | second.keys()):
        if first.get(place) != second.get(place):
            complaints.append(f"{what} differ at {place}: {first.get(place)} and {second.get(place)}")
    for reading in (one, other):
        last: dict[Place, int] = {}
        for record in reading:
            if record.offset <= last.get((record.topic, record.partition), -1):
                complaints.append(f"{what}: offset {_name(record)} was read after a higher one")
            last[record.topic, record.partition] = record.offset
    return complaints


def _name(record: Seen) -> str:
    return f"{record.topic}-{record.partition}@{record.offset}"
