"""The share coordinator: what it keeps of share-partitions, whom it refuses, and that its log gives it
back."""

import itertools
import random

from moldau.broker.coordinator.share.records import StateRecord, Update, decode, encode
from moldau.broker.coordinator.share.shard import Outcome, StateShard, Write
from moldau.broker.coordinator.share.state import Key, ShareState, StateBatch, merged
from moldau.common.protocol.errors import ErrorCode

KEY = Key("g", bytes(range(16)), 3)
B = StateBatch


class Log:
    """A shard, with the bytes of all that it wrote."""

    def __init__(self, updates_max: int = 500) -> None:
        self.shard = StateShard(lambda: updates_max)
        self.lines: list[tuple[bytes, bytes | None]] = []

    def do(self, result) -> Outcome:
        for record in result.records:
            self.lines.append(self.shard.encode(record))
            self.shard.replay(record)
        return result.response

    def begin(self, state_epoch: int = 1, start_offset: int = 0) -> int:
        return self.do(self.shard.initialize(KEY, state_epoch, start_offset, 5)).error_code

    def write(
        self, *batches: B, start: int = -1, state_epoch: int = 1, leader_epoch: int = 0, ended: int = 0
    ) -> int:
        write = Write(state_epoch, leader_epoch, start, ended, batches)
        return self.do(self.shard.write(KEY, write, 6)).error_code

    def loaded(self) -> StateShard:
        shard = StateShard(lambda: 500)
        for key, value in self.lines:
            shard.load(key, value)
        return shard


def test_later_batches_lie_over_earlier_ones_and_neighbours_alike_are_joined() -> None:
    before = (B(0, 9, 0, 1), B(20, 29, 2, 1))
    assert merged(before, [B(5, 24, 4, 2)], 0) == (B(0, 4, 0, 1), B(5, 24, 4, 2), B(25, 29, 2, 1))
    assert merged(before, [B(3, 5, 0, 2)], 4) == (B(4, 5, 0, 2), B(6, 9, 0, 1), B(20, 29, 2, 1))
    assert merged((B(0, 4, 2, 1),), [B(5, 9, 2, 1)], 2) == (B(2, 9, 2, 1),)
    assert merged(before, [B(-5, 100, 2, 1)], 0) == (B(0, 100, 2, 1),)
    assert merged(before, [], 30) == ()


def test_batches_are_merged_as_a_dict_of_offsets_would() -> None:
    seeded = random.Random(4)
    for _ in range(300):
        changes = []
        model: dict[int, tuple[int, int]] = {}
        for _ in range(seeded.randint(1, 12)):
            first = seeded.randint(0, 60)
            change = B(first, first + seeded.randint(0, 25), seeded.choice((0, 2, 4)), seeded.randint(1, 3))
            changes.append(change)
            model.update(dict.fromkeys(range(change.first, change.last + 1), change[2:]))
        start = seeded.randint(0, 30)
        out = merged((), changes, start)
        assert {o: b[2:] for b in out for o in range(b.first, b.last + 1)} == {
            o: row for o, row in model.items() if o >= start
        }
        assert all(one.last < two.first for one, two in itertools.pairwise(out))


def test_a_state_is_begun_written_read_and_deleted() -> None:
    log = Log()
    assert log.do(log.shard.read(KEY, 4, 0)) == (0, None)
    assert log.begin(start_offset=-1) == 0
    state = log.do(log.shard.read(KEY, 4, 0)).state
    assert state is not None
    assert (state.start_offset, state.state_epoch, state.leader_epoch, state.ended_count) == (-1, 1, 4, -1)
    assert log.write(B(10, 19, 2, 1), start=5, leader_epoch=4, ended=10) == 0
    state = log.do(log.shard.summary(KEY)).state
    assert state is not None
    assert (state.start_offset, state.batches, state.ended_count) == (5, (B(10, 19, 2, 1),), 10)
    assert log.loaded().states == log.shard.states
    log.do(log.shard.delete(KEY))
    assert log.loaded().states == log.shard.states == {}


def test_earlier_leaders_and_lives_are_fenced() -> None:
    log = Log()
    log.begin(state_epoch=7)
    log.do(log.shard.read(KEY, 3, 0))
    assert log.do(log.shard.read(KEY, 2, 0)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert log.write(B(0, 0, 2, 1), state_epoch=7, leader_epoch=2) == ErrorCode.FENCED_LEADER_EPOCH
    assert log.write(B(0, 0, 2, 1), state_epoch=6, leader_epoch=3) == ErrorCode.FENCED_STATE_EPOCH
    assert log.begin(state_epoch=6) == ErrorCode.FENCED_STATE_EPOCH
    assert log.write(B(0, 0, 2, 1), state_epoch=7, leader_epoch=3) == 0
    log.do(log.shard.delete(KEY))
    assert log.write(B(0, 0, 2, 1), state_epoch=7, leader_epoch=3) == ErrorCode.FENCED_STATE_EPOCH


def test_a_write_that_comes_twice_changes_nothing() -> None:
    log = Log()
    log.begin()
    log.write(B(2, 5, 2, 1), start=1, ended=4)
    once = log.shard.states[KEY]
    log.write(B(2, 5, 2, 1), start=1, ended=4)
    assert log.shard.states[KEY].batches == once.batches


def test_snapshots_come_after_so_many_updates_and_loading_begins_anywhere_before_one() -> None:
    log = Log(updates_max=3)
    log.begin()
    for offset in range(10):
        log.write(B(offset * 2, offset * 2, 2, 1))
    kinds = [key[:2] for key, _ in log.lines]
    assert kinds.count(b"\0\0") == 3
    first_snapshot = 4
    whole, tail = log.loaded().states, StateShard(lambda: 500)
    for key, value in log.lines[first_snapshot + 1 :]:
        tail.load(key, value)
    assert whole == log.shard.states
    assert {key: state.batches for key, state in tail.states.items()} == {
        key: state.batches for key, state in whole.items()
    }


def test_an_update_of_an_earlier_snapshot_is_left_out() -> None:
    shard = StateShard(lambda: 500)
    shard.replay(StateRecord(KEY, ShareState(3, 1, 0, 0, 0, 0)))
    shard.replay(StateRecord(KEY, Update(2, 0, 50, 0, ())))
    assert shard.states[KEY].start_offset == 0


def test_records_are_kafkas_bytes() -> None:
    snapshot = StateRecord(KEY, ShareState(1, 2, 3, 4, 5, 6, (B(7, 8, 2, 1),)), 9)
    key, value = encode(snapshot)
    assert key == b"\0\0" + b"\0\1g" + bytes(range(16)) + b"\0\0\0\3"
    numbers = [(1, 4), (2, 4), (3, 4), (4, 8), (6, 8), (9, 8)]
    body = b"".join(number.to_bytes(size, "big") for number, size in numbers)
    batch = (7).to_bytes(8, "big") + (8).to_bytes(8, "big") + b"\2" + b"\0\1" + b"\0"
    assert value == b"\0\0" + body + b"\2" + batch + b"\1\0\4\0\0\0\5"
    assert decode(key, value) == snapshot
    assert decode(key, None) == StateRecord(KEY, None)
    update = StateRecord(KEY, Update(1, 2, -1, -1, (B(7, 8, 0, 3),)))
    key, value = encode(update)
    assert key[:2] == b"\0\1"
    assert decode(key, value) == update
    assert decode(b"\0\7", b"") is None


def test_states_of_deleted_topics_are_forgotten() -> None:
    log = Log()
    log.begin()
    log.do(log.shard.forget([KEY._replace(topic_id=bytes(16))]))
    assert KEY in log.shard.states
    log.do(log.shard.forget([KEY]))
    assert not log.shard.states


def test_an_initialization_that_comes_twice_does_not_begin_anew_what_is_in_use() -> None:
    log = Log()
    log.begin(3, -1)
    assert log.write(start=50, state_epoch=3) == 0
    assert log.begin(3, -1) == 0
    assert log.shard.states[KEY].start_offset == 50
    assert log.begin(4, -1) == 0
    assert log.shard.states[KEY].start_offset == -1
