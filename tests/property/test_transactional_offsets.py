"""Offsets in and outside of transactions, deletions, markers, failing appends, restarts and compaction, at
random.

The oracle looks at the log alone, by its offsets: of every key the committed record that stands last counts;
a partition is unstable while an open transaction has written to it after its last tombstone. The live state,
the state loaded from that log, and the state loaded from the compacted log must all say the same, and so must
they after any further markers.
"""

import sys
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "coordinator"))
from group_world import GROUP, Call, World

from moldau.broker.coordinator.group.shard import GroupShard
from moldau.broker.coordinator.last_values import LastValues
from moldau.broker.coordinator.machine import EndedTransaction, Loaded, TransactionalRecord
from moldau.broker.coordinator.records import decode
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.coordinator_records import OffsetCommitKey
from moldau.common.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.common.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

PRODUCERS = (7, 8, 9)
PARTITIONS = (0, 1)
FAILURES = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)

PRODUCER, PARTITION = st.sampled_from(PRODUCERS), st.sampled_from(PARTITIONS)
STEPS = st.one_of(
    st.tuples(st.just("commit"), PARTITION, st.none()),
    st.tuples(st.just("pend"), PARTITION, PRODUCER),
    st.tuples(st.just("pend"), PARTITION, PRODUCER),
    st.tuples(st.just("end"), st.booleans(), PRODUCER),
    st.tuples(st.just("end"), st.just(True), PRODUCER),
    st.tuples(st.just("delete"), PARTITION, st.none()),
    st.tuples(st.just("delete group"), st.none(), st.none()),
    st.tuples(st.just("hold"), st.none(), st.none()),
    st.tuples(st.just("finish"), st.sampled_from((0, 0, 0, *FAILURES)), st.booleans()),
    st.tuples(st.just("restart"), st.none(), st.none()),
)

Place = tuple[str, str, int]


class Oracle:
    """What a log means."""

    def __init__(self, log: list[Loaded]) -> None:
        self.committed: dict[Place, tuple[int, Any]] = {}
        """Log offset and value of what counts."""
        open_ones: dict[int, dict[Place, tuple[int, Any]]] = {}
        for offset, item in enumerate(log):
            if isinstance(item, EndedTransaction):
                for place, found in open_ones.pop(item.producer_id, {}).items():
                    if item.committed and found[0] > self.committed.get(place, (-1, None))[0]:
                        self.committed[place] = found
                continue
            producer_id = item.producer.producer_id if isinstance(item, TransactionalRecord) else None
            key, value = item[-2:]
            record = decode(key, value)  # type: ignore[arg-type]
            if record is None or not isinstance(record.key, OffsetCommitKey):
                continue
            place = (record.key.group, record.key.topic, record.key.partition)
            if producer_id is not None:
                open_ones.setdefault(producer_id, {})[place] = (offset, record.value)
                continue
            self.committed[place] = (offset, record.value)
            if value is None:
                for pending in open_ones.values():
                    pending.pop(place, None)
        self.unstable = {place for pending in open_ones.values() for place in pending}
        self.values = {place: value for place, (_, value) in self.committed.items() if value is not None}


def compacted(log: list[Loaded]) -> list[Loaded]:
    """What compaction may leave of a log: below the first open transaction, of every key the last record that
    is committed; nothing of what was aborted; the markers."""
    open_since: dict[int, int] = {}
    fate: dict[int, bool] = {}
    for offset, item in enumerate(log):
        if isinstance(item, TransactionalRecord):
            open_since.setdefault(item.producer.producer_id, offset)
        elif isinstance(item, EndedTransaction):
            open_since.pop(item.producer_id, None)
    stable = min(open_since.values(), default=len(log))
    ends: dict[int, EndedTransaction] = {}
    for offset in range(len(log) - 1, -1, -1):
        item = log[offset]
        if isinstance(item, EndedTransaction):
            ends[item.producer_id] = item
        elif isinstance(item, TransactionalRecord):
            end = ends.get(item.producer.producer_id)
            fate[offset] = end is not None and end.committed
    last: dict[Any, int] = {}
    for offset, item in enumerate(log[:stable]):
        if not isinstance(item, EndedTransaction) and fate.get(offset, True):
            last[item[-2]] = offset
    kept = [
        item
        for offset, item in enumerate(log[:stable])
        if isinstance(item, EndedTransaction) or last.get(item[-2]) == offset
    ]
    return kept + log[stable:]


def loaded(world: World, log: list[Loaded]) -> GroupShard:
    shard: GroupShard = world.coordinator.runtime._make_state(0, 0)
    shard.journal.recording = False
    gathering = LastValues()
    gathering.add(log)
    for key, value in gathering.latest.items():
        shard.load(key, value)
    for producer, key, pending in gathering.pending():
        shard.load_pending(producer, key, pending)
    return shard


def told(shard: GroupShard) -> tuple[dict[Place, Any], set[Place]]:
    """What a state says: what counts, and what is unstable."""
    offsets = shard.offsets
    committed = {
        (group, *place): value for group, rows in offsets.by_group.items() for place, value in rows.items()
    }
    return committed, {(group, *place) for group, rows in offsets.pending.by_group.items() for place in rows}


class Story:
    def __init__(self) -> None:
        self.world = World()
        self.next_offset = 0
        self.calls: list[Call] = []

    def step(self, kind: str, first: Any, second: Any) -> None:
        world, log = self.world, self.world.log
        self.next_offset += 1
        match kind:
            case "commit":
                world.commit(self.next_offset, partition=first)
            case "pend":
                world.commit_pending(self.next_offset, second, partition=first)
            case "end":
                world.end(second, committed=first)
            case "delete":
                rows = [OffsetDeleteRequestPartition(partition_index=first)]
                topics = [OffsetDeleteRequestTopic(name="beer", partitions=rows)]
                world.call("offset_delete", OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)
            case "delete group":
                self.calls.append(world.call("delete_groups", DeleteGroupsRequest(groups_names=[GROUP]), 2))
            case "hold":
                log.hold = True
            case "finish":
                if log.in_flight:
                    unknown = first == ErrorCode.REQUEST_TIMED_OUT
                    log.finish(first, lands=second if unknown else None)
            case "restart":
                self.heal()
                assert all(call.response is not None for call in self.calls)
                world.restart()
        world.settle()
        if not log.in_flight:
            self.check()

    def heal(self) -> None:
        log = self.world.log
        log.hold = False
        while log.in_flight:
            log.finish()
        self.world.settle()

    def check(self) -> None:
        log = self.world.log.records.get(0, [])
        oracle = Oracle(log)
        wanted = (oracle.values, oracle.unstable)
        again, shrunk = loaded(self.world, log), loaded(self.world, compacted(log))
        assert told(self.world.shard) == wanted
        assert told(again) == wanted
        assert told(shrunk) == wanted
        for shard in (self.world.shard, again, shrunk):
            assert {group for group, *_ in (*oracle.values, *oracle.unstable)} <= set(shard.groups)
            self.check_pending(shard)
        self.check_futures(log, again, shrunk)

    def check_pending(self, shard: GroupShard) -> None:
        pending = shard.offsets.pending
        assert set(pending.by_producer) == set(pending.epochs)
        assert all(pending.by_producer.values())
        places = {(*place, each) for each, rows in pending.by_producer.items() for place in rows}
        assert places == {
            (group, *place, each)
            for group, rows in pending.by_group.items()
            for place, writers in rows.items()
            for each in writers
        }

    def check_futures(self, log: list[Loaded], *shards: GroupShard) -> None:
        """Whatever markers come: everybody goes the same way (on states that are thrown away)."""
        ends = [EndedTransaction(producer, producer != 8) for producer in PRODUCERS]
        oracle = Oracle([*log, *ends])
        for shard in shards:
            for end in ends:
                shard.end_transaction(*end)
            assert told(shard) == (oracle.values, set())

    def finish(self) -> None:
        self.heal()
        self.check()
        assert all(call.response is not None for call in self.calls), "somebody was left without an answer"
        self.world.close()


@settings(max_examples=250, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_live_loaded_and_compacted_say_the_same(steps: list[tuple[str, Any, Any]]) -> None:
    story = Story()
    for step in steps:
        story.step(*step)
    story.finish()
