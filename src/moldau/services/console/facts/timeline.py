"""What happened between two snapshots, in words: brokers, leaders, copies, topics, groups.

Many partitions that change for one reason are one line, and name the reason as far as two snapshots show it:
when leaders moved away from a broker that is gone, the line is about that broker.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moldau.services.console.facts.snapshot import Snapshot

KEPT = 500
_NAMED_MAX = 3


class Event(NamedTuple):
    """One line. `kind`: bad, warn, good or info; `link` is a page of the console or empty."""

    at_ms: int
    kind: str
    text: str
    link: str = ""
    who: str = ""


class Timeline:
    """The last KEPT events, the newest first."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=KEPT)

    def add(self, events: Iterable[Event]) -> None:
        """In the order in which they happened."""
        self._events.extendleft(events)

    def newest(self, count: int = KEPT) -> list[Event]:
        """The newest first."""
        return [each for each, _ in zip(self._events, range(count), strict=False)]


def events_between(old: Snapshot, new: Snapshot) -> list[Event]:
    """What happened; nothing if the two are of different clusters."""
    if old.cluster_id != new.cluster_id:
        return []
    return [
        *_brokers(old, new),
        *_topics(old, new),
        *_partitions(old, new),
        *_groups(old, new),
    ]


def _brokers(old: Snapshot, new: Snapshot) -> Iterator[Event]:
    at = new.taken_at_ms
    for broker in sorted(old.brokers.keys() - new.brokers.keys()):
        yield Event(at, "bad", f"Broker {broker} is gone", "/brokers")
    for broker in sorted(new.brokers.keys() - old.brokers.keys()):
        yield Event(at, "good", f"Broker {broker} has joined", "/brokers")
    if old.controller_id != new.controller_id:
        if new.controller_id < 0:
            yield Event(
                at, "bad", f"There is no controller any more; it was broker {old.controller_id}", "/brokers"
            )
        elif old.controller_id < 0:
            yield Event(at, "good", f"Broker {new.controller_id} is the controller", "/brokers")
        else:
            text = f"Broker {new.controller_id} is the controller, after broker {old.controller_id}"
            yield Event(at, "warn", text, "/brokers")


def _topics(old: Snapshot, new: Snapshot) -> Iterator[Event]:
    at = new.taken_at_ms
    yield from _named(at, "info", "created", sorted(new.topics.keys() - old.topics.keys()), "/topics")
    yield from _named(at, "warn", "deleted", sorted(old.topics.keys() - new.topics.keys()), "")
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        if before is not None and len(before.partitions) != len(topic.partitions):
            text = f"Topic {name} has {len(topic.partitions)} partitions instead of {len(before.partitions)}"
            yield Event(at, "info", text, "/topics")


def _named(at: int, kind: str, done: str, names: list[str], link: str) -> Iterator[Event]:
    if len(names) > _NAMED_MAX:
        yield Event(at, kind, f"{len(names)} topics were {done}, {names[0]} among them", link)
        return
    for name in names:
        yield Event(at, kind, f"Topic {name} was {done}", link)


def _partitions(old: Snapshot, new: Snapshot) -> Iterator[Event]:
    at = new.taken_at_ms
    moved: Counter[tuple[int, int]] = Counter()
    left: Counter[int] = Counter()
    back: Counter[int] = Counter()
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        if before is None or before.partitions == topic.partitions:
            continue
        for was, now in zip(before.partitions, topic.partitions, strict=False):
            if was.leader != now.leader:
                moved[was.leader, now.leader] += 1
            for replica in set(was.in_sync) - set(now.in_sync):
                left[replica] += replica in now.replicas
            for replica in set(now.in_sync) - set(was.in_sync):
                back[replica] += replica in was.replicas
    for (leader, next_leader), count in sorted(moved.items()):
        parts = _count(count, "partition")
        if next_leader < 0:
            yield Event(
                at,
                "bad",
                f"{parts} lost {'its' if count == 1 else 'their'} leader, broker {leader}",
                "/",
            )
        elif leader < 0:
            yield Event(at, "good", f"{parts} got broker {next_leader} as leader", "/brokers")
        else:
            yield Event(
                at, "info", f"Broker {next_leader} leads {parts} that broker {leader} led", "/brokers"
            )
    for replica, count in sorted(left.items()):
        if count:
            gone = "" if replica in new.brokers else ", because it is gone"
            yield Event(
                at,
                "warn",
                f"Broker {replica} fell out of sync in {_count(count, 'partition')}{gone}",
                "/brokers",
            )
    for replica, count in sorted(back.items()):
        if count:
            yield Event(
                at, "good", f"Broker {replica} is in sync again in {_count(count, 'partition')}", "/brokers"
            )


def _groups(old: Snapshot, new: Snapshot) -> Iterator[Event]:
    if not (old.groups_known and new.groups_known):
        return
    at = new.taken_at_ms
    gone = sorted(old.groups.keys() - new.groups.keys())
    for name in gone[:_NAMED_MAX]:
        yield Event(at, "info", f"Group {name} has ended", "/groups")
    if len(gone) > _NAMED_MAX:
        yield Event(at, "info", f"{len(gone) - _NAMED_MAX} more groups have ended", "/groups")
    for name, group in new.groups.items():
        before = old.groups.get(name)
        if before is None or before.members is None or group.members is None:
            continue
        if group.members != before.members:
            what = (
                "has no member any more"
                if not group.members
                else (f"has {_count(group.members, 'member')} instead of {before.members}")
            )
            yield Event(at, "warn" if not group.members else "info", f"Group {name} {what}", "/groups")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"
