"""What is counted, by topic; read by status, metrics and discard reports.

*Refused* messages were answered with an error, so their client knows. *Discarded* ones nobody was told about
(a datagram) or were accepted before (a record that Kafka refuses for good): they are reported. Written by the
event loop and by the delivery thread, each its own counters; additions to one counter happen on one of them.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class TopicCounters:
    """One topic's counters since the agent's start."""

    accepted: int = 0
    accepted_bytes: int = 0
    duplicates: int = 0
    delivered: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    discarded: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Discard:
    """Why messages were discarded since the last report."""

    topic: str
    reason: str


class Counters:
    """The counters of all topics, and the discards that are not reported yet."""

    def __init__(self, topics_max: int) -> None:
        self._topics_max = topics_max
        self._reporting = threading.Lock()
        self.topics: dict[str, TopicCounters] = {}
        self.unreported: Counter[Discard] = Counter()
        self.samples: dict[Discard, str] = {}
        self.syncs = 0
        self.disk_errors = 0
        self.connections_refused = 0

    def of(self, topic: str) -> TopicCounters:
        """The topic's counters; those of topics beyond the limit share one, named ""."""
        found = self.topics.get(topic)
        if found is None:
            if len(self.topics) >= self._topics_max:
                topic = ""
            found = self.topics.setdefault(topic, TopicCounters())
        return found

    def discard(self, topic: str, reason: str, sample: bytes, count: int = 1) -> None:
        """Count messages that are gone; the first 100 bytes of one go into the report."""
        if topic not in self.topics and len(self.topics) >= self._topics_max:
            topic = ""
        self.of(topic).discarded[reason] += count
        what = Discard(topic, reason)
        with self._reporting:  # both threads discard
            self.unreported[what] += count
            self.samples.setdefault(what, sample[:100].decode(errors="replace"))

    def take_unreported(self) -> list[dict[str, object]]:
        """The discards since the last call, as the bodies of reports."""
        with self._reporting:
            taken, samples = self.unreported, self.samples
            self.unreported, self.samples = Counter(), {}
        return [
            {"topic": what.topic, "reason": what.reason, "count": count, "sample": samples.get(what, "")}
            for what, count in taken.items()
        ]
