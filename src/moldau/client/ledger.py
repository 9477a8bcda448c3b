"""The ledger of a transactional id: the number of the last committed micro-batch, and which run wrote it.

An entry is a committed offset of a consumer group, written in the transaction of the batch itself: either
both are there or neither is. Whoever opens the transactional id reads the entry, and knows whether a batch
must be written and whether another run has taken over:

    offset    the batch's number
    metadata  {"stream": whose numbers they are, "run": who wrote last, "turn": 3, "before": [earlier runs]}

A *run* is one life of a driver. The run that opened the id last is the current one; it records the earlier
runs, so that a run which finds itself among them knows that it was replaced. Kafka's epochs cannot tell: an
older driver that opens the id again gets the higher epoch.

The group has no members; its offsets are kept as long as those of any empty group (offsets.retention.minutes,
a week by default).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from moldau.client.cluster import Cluster
from moldau.client.connection import Connection
from moldau.client.errors import Retriable, check
from moldau.common.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

EARLIER_RUNS_MAX = 40
"""So many ids of 36 characters fit what a broker takes as metadata (4096 bytes)."""
_BY_NAME = 9


@dataclass(frozen=True)
class Entry:
    """The newest entry of a transactional id."""

    stream: str
    run: str
    batch_id: int
    turn: int = 0
    earlier_runs: tuple[str, ...] = ()

    def next(self, stream: str, run: str, batch_id: int) -> Entry:
        """The entry that follows this one."""
        if run == self.run and stream == self.stream:
            return replace(self, batch_id=batch_id)
        earlier = self.earlier_runs if run == self.run else (self.run, *self.earlier_runs)
        return Entry(stream, run, batch_id, self.turn + 1, earlier[:EARLIER_RUNS_MAX])

    def text(self) -> str:
        """The metadata."""
        entry = {"stream": self.stream, "run": self.run, "turn": self.turn, "before": self.earlier_runs}
        return json.dumps(entry, separators=(",", ":"))


def parse_entry(batch_id: int, text: str) -> Entry | None:
    """Parse an entry from an offset and its metadata; None if they are none."""
    try:
        entry = json.loads(text)
        return Entry(entry["stream"], entry["run"], batch_id, entry["turn"], tuple(entry["before"]))
    except (ValueError, KeyError, TypeError):
        return None


def read_entry(cluster: Cluster, group_id: str) -> Entry | None:
    """Read the newest entry. Waits for a transaction that is ending: its entry may become the newest."""
    wanted = f"read the offsets of group {group_id!r}"

    def attempt() -> Entry | None:
        try:
            return _newest(_all_offsets(cluster.coordinator(group_id), group_id, wanted))
        except (OSError, Retriable):
            cluster.forget_coordinator(group_id)
            raise

    return cluster.persist(wanted, attempt)


def _newest(offsets: Sequence[tuple[int, str]]) -> Entry | None:
    # Under each topic that a batch began with there is one; those of former turns or batches are history.
    entries = [entry for entry in (parse_entry(*offset) for offset in offsets) if entry is not None]
    return max(entries, key=lambda entry: (entry.turn, entry.batch_id), default=None)


def _all_offsets(connection: Connection, group_id: str, wanted: str) -> list[tuple[int, str]]:
    answer: Any
    version = connection.version_of(OffsetFetchRequest, _BY_NAME)
    if version >= 8:
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        answer = connection.ask(request, at_most=_BY_NAME).groups[0]
    else:
        request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=version >= 7)
        answer = connection.ask(request, at_most=_BY_NAME)
    check(answer.error_code, wanted)
    rows = [each for topic in answer.topics for each in topic.partitions]
    for each in rows:
        check(each.error_code, wanted)
    return [(each.committed_offset, each.metadata or "") for each in rows if each.committed_offset >= 0]
