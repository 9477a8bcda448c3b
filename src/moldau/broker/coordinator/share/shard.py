"""The share-partitions of one partition of `__share_group_state`: the state machine in a coordinator shard.

    initialize   a snapshot with a new state epoch, whatever was there; nothing if it has this epoch already:
                 the request came twice, and the state may be in use by now
    read         the state; a later leader epoch is written down first, and fences the leaders before it
    write        an update, or a snapshot after `updates_max` of them
    delete       a tombstone

Refused: FENCED_STATE_EPOCH where the group, or this state, has begun anew since; FENCED_LEADER_EPOCH where
another leader has read the state since. A write to a state that does not exist is FENCED_STATE_EPOCH too: it
was deleted, and its leader must look again. A write that comes twice changes nothing the second time, because
it says what states are.

Loading replays all records in their order, since an update means nothing alone (`loads_in_order`).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from moldau.broker.coordinator.deadlines import Deadlines
from moldau.broker.coordinator.journal import Journal
from moldau.broker.coordinator.result import ParkedAnswer, Result
from moldau.broker.coordinator.share.records import StateRecord, Update, decode, encode
from moldau.broker.coordinator.share.state import NOT_CHOSEN, NOT_KNOWN, Key, ShareState, StateBatch
from moldau.common.protocol.errors import ErrorCode


class Outcome(NamedTuple):
    """The answer about one share-partition: an error code, and the state if it was asked for."""

    error_code: int
    state: ShareState | None = None


class Write(NamedTuple):
    """What a leader writes; start offset -1: unchanged."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    ended_count: int
    batches: tuple[StateBatch, ...]


class StateShard:
    """The state of one shard."""

    loads_in_order = True

    def __init__(self, updates_max: Callable[[], int]) -> None:
        """A snapshot is written after `updates_max` updates."""
        self.journal = Journal()
        self.deadlines = Deadlines()
        self.states: dict[Key, ShareState] = self.journal.dict()
        self._updates_max = updates_max

    # What the runtime needs

    def encode(self, record: StateRecord) -> tuple[bytes, bytes | None]:
        return encode(record)

    def replay(self, record: StateRecord) -> None:
        key, content, _ = record
        if content is None:
            self.states.pop(key, None)
        elif isinstance(content, ShareState):
            self.states[key] = content
        else:
            before = self.states.get(key)
            if before is not None and before.snapshot_epoch == content.snapshot_epoch:
                self.states[key] = before.updated(*content[1:])

    def load(self, key: bytes, value: bytes | None) -> None:
        record = decode(key, value)
        if record is not None:
            self.replay(record)

    def loaded(self, now_ms: int) -> Result[None]:
        return Result()

    def unloaded(self, error_code: int) -> list[ParkedAnswer]:
        return []

    def rolled_back(self, error_code: int) -> list[ParkedAnswer]:
        return []

    def due(self, key: object, now_ms: int) -> Result[None]:
        return Result()

    # Requests

    def initialize(self, key: Key, state_epoch: int, start_offset: int, now_ms: int) -> Result[Outcome]:
        """Begin a share-partition's state (anew)."""
        before = self.states.get(key)
        if before is not None and before.state_epoch > state_epoch:
            return Result(Outcome(ErrorCode.FENCED_STATE_EPOCH))
        if before is not None and before.state_epoch == state_epoch:
            return Result(Outcome(ErrorCode.NONE))
        snapshot_epoch = 0 if before is None else before.snapshot_epoch + 1
        ended_count = NOT_KNOWN if start_offset == NOT_CHOSEN else 0
        state = ShareState(snapshot_epoch, state_epoch, 0, start_offset, ended_count, now_ms)
        return Result(Outcome(ErrorCode.NONE), [StateRecord(key, state, now_ms)])

    def read(self, key: Key, leader_epoch: int, now_ms: int) -> Result[Outcome]:
        """The state, for a leader in this epoch."""
        state = self.states.get(key)
        if state is None:
            return Result(Outcome(ErrorCode.NONE))
        if leader_epoch < state.leader_epoch:
            return Result(Outcome(ErrorCode.FENCED_LEADER_EPOCH))
        if leader_epoch == state.leader_epoch:
            return Result(Outcome(ErrorCode.NONE, state))
        write = Write(state.state_epoch, leader_epoch, NOT_CHOSEN, state.ended_count, ())
        record = self._record(key, state, write, now_ms)
        return Result(Outcome(ErrorCode.NONE, replace(state, leader_epoch=leader_epoch)), [record])

    def summary(self, key: Key) -> Result[Outcome]:
        """The state, for somebody who changes nothing."""
        return Result(Outcome(ErrorCode.NONE, self.states.get(key)))

    def write(self, key: Key, write: Write, now_ms: int) -> Result[Outcome]:
        """A leader's changes."""
        state = self.states.get(key)
        if state is None or write.state_epoch != state.state_epoch:
            return Result(Outcome(ErrorCode.FENCED_STATE_EPOCH))
        if write.leader_epoch < state.leader_epoch:
            return Result(Outcome(ErrorCode.FENCED_LEADER_EPOCH))
        return Result(Outcome(ErrorCode.NONE), [self._record(key, state, write, now_ms)])

    def _record(self, key: Key, state: ShareState, write: Write, now_ms: int) -> StateRecord:
        changes = (write.leader_epoch, write.start_offset, write.ended_count, write.batches)
        if state.update_count >= self._updates_max():
            return StateRecord(key, _snapshot(state.updated(*changes)), now_ms)
        return StateRecord(key, Update(state.snapshot_epoch, *changes), now_ms)

    def delete(self, key: Key) -> Result[Outcome]:
        """Forget a share-partition; one that is not known is forgotten already."""
        records = [StateRecord(key, None)] if key in self.states else []
        return Result(Outcome(ErrorCode.NONE), records)

    # Upkeep

    def snapshots(self, keys: Iterable[Key], now_ms: int) -> Result[None]:
        """Write these states whole, so that what stands before in the log can go."""
        found = ((key, self.states.get(key)) for key in keys)
        return Result(
            records=[StateRecord(key, _snapshot(state), now_ms) for key, state in found if state is not None]
        )

    def forget(self, keys: Iterable[Key]) -> Result[None]:
        """Forget these, whose topics are gone."""
        return Result(records=[StateRecord(key, None) for key in keys if key in self.states])


def _snapshot(state: ShareState) -> ShareState:
    return replace(state, snapshot_epoch=state.snapshot_epoch + 1, update_count=0)
