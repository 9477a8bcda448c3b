"""Keyed updates against what compaction has left: the map of latest values, and no record that nobody wrote.

A writer has keys of its own, so that its ledger gives the order of a key's updates. Expected of a key is its
last update that certainly happened, or any later one whose outcome is unknown. Whatever else is still there
must have been written so, at the offset that was acknowledged: compaction takes records away, and neither
moves nor changes any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torture.ledger import ABORTED, COMMITTED, TOMBSTONE, Attempt, owner_of, value_of
from torture.reading import Place, Seen


class Update(NamedTuple):
    """One update of a key."""

    attempt: Attempt
    index: int
    value: bytes | None


def judge_latest(attempts: Iterable[Attempt], seen: Sequence[Seen], *, tombstones_stay: bool) -> list[str]:
    """`tombstones_stay`: delete.retention.ms is long, so that a key's last tombstone must still be there."""
    history: dict[tuple[Place, str], list[Update]] = {}
    by_owner: dict[tuple[str, int, int], tuple[Attempt, int]] = {}
    tombstone_at: set[tuple[Place, int]] = set()
    for attempt in attempts:
        for index, one in enumerate(attempt.records):
            place = (one.topic, one.partition)
            value = value_of(attempt.producer, attempt.number, index, one.size_bytes)
            history.setdefault((place, one.key), []).append(Update(attempt, index, value))
            by_owner[attempt.producer, attempt.number, index] = (attempt, index)
            offset = attempt.offset(index)
            if one.size_bytes == TOMBSTONE and offset is not None:
                tombstone_at.add((place, offset))
    complaints = _judge_records(seen, by_owner, history, tombstone_at)
    latest = {((one.topic, one.partition), (one.key or b"").decode()): one for one in seen}
    for where, updates in history.items():
        complaints += _judge_key(where, updates, latest.get(where), tombstones_stay)
    return complaints


def _judge_key(
    where: tuple[Place, str], updates: list[Update], found: Seen | None, tombstones_stay: bool
) -> list[str]:
    (topic, partition), key = where
    name = f"{topic}-{partition} key {key}"
    possible: list[bytes | None] = [None]  # what the key may hold; nothing was ever written: nothing is there
    certain: Update | None = None
    for one in updates:
        fate = one.attempt.fate(one.index)
        if fate == COMMITTED:
            possible, certain = [one.value], one
        elif fate != ABORTED:
            possible.append(one.value)
    value = found.value if found else None
    if value not in possible:
        number = certain.attempt.number if certain else None
        return [
            f"latest of {name} is {_short(value)} at {found.offset if found else None};"
            f" expected {' or '.join(map(_short, possible))} (attempt {number})"
        ]
    if tombstones_stay and found is None and certain is not None:
        return [f"tombstone of {name} is gone before its time (attempt {certain.attempt.number})"]
    return []


def _judge_records(
    seen: Sequence[Seen],
    by_owner: dict[tuple[str, int, int], tuple[Attempt, int]],
    history: dict[tuple[Place, str], list[Update]],
    tombstone_at: set[tuple[Place, int]],
) -> list[str]:
    complaints = []
    met: set[tuple[str, int, int]] = set()
    last: dict[tuple[Place, str], tuple[int, int]] = {}
    for one in seen:
        place, key = (one.topic, one.partition), (one.key or b"").decode()
        name = f"{one.topic}-{one.partition}@{one.offset} key {key}"
        if one.value is None:
            unsure = any(
                update.value is None and update.attempt.offset(update.index) is None
                for update in history.get((place, key), ())
            )
            if (place, one.offset) not in tombstone_at and not unsure:
                complaints.append(f"a tombstone that nobody wrote so: {name}")
            continue
        try:
            owner = owner_of(one.value)
            attempt, index = by_owner[owner]
        except (ValueError, LookupError):
            complaints.append(f"a record that nobody wrote: {name} {one.value[:40]!r}")
            continue
        entry = attempt.records[index]
        if (entry.topic, entry.partition, entry.key) != (*place, key) or one.value != value_of(
            *owner, entry.size_bytes
        ):
            complaints.append(f"a record that nobody wrote so: {name} {one.value[:40]!r}")
        if owner in met:
            complaints.append(f"twice: {owner}, again at {name}")
        met.add(owner)
        if attempt.fate(index) == ABORTED:
            complaints.append(f"aborted and yet seen: {owner} at {name}")
        if attempt.offset(index) not in (None, one.offset):
            complaints.append(f"moved: {owner} was acknowledged at {attempt.offset(index)}, lies at {name}")
        if last.get((place, key), (-1, -1)) > owner[1:]:
            complaints.append(f"order: {name} comes after a later update")
        last[place, key] = owner[1:]
    return complaints


def _short(value: bytes | None) -> str:
    return "nothing" if value is None else repr(value[:24])
