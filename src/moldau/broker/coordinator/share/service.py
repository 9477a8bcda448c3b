"""The share coordinator as the handlers see it: one method an API, for one share-partition.

`__share_group_state` is not compacted, since an update means nothing without those before it. Instead it is
pruned: when a shard's log has grown to several times what lives, every state is written whole, and all that
stands before these snapshots is deleted.

    | ... snapshots, updates, tombstones ... | end when pruning began | every live state as a snapshot | ...
      deleted, once the snapshots are committed ^

Not here: what requests mean (shard.py), whose share-partition is coordinated where (states.py).
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from moldau.broker.coordinator.coordinator import partition_of
from moldau.broker.coordinator.machine import CoordinatorLog
from moldau.broker.coordinator.result import Result
from moldau.broker.coordinator.runtime import CoordinatorRuntime
from moldau.broker.coordinator.share.shard import Outcome, StateShard, Write
from moldau.broker.coordinator.share.state import Key
from moldau.broker.coordinator.stall_guard import never
from moldau.broker.metadata.changes import Change, TopicDeleted
from moldau.broker.metadata.image import SHARE_STATE_TOPIC, Image
from moldau.common.core.clock import Clock
from moldau.common.core.ids import uuid_to_text
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.core.waiting import Answer
from moldau.common.settings.broker import BrokerSettings

PRUNE_INTERVAL_MS = 300_000
SNAPSHOTS_AT_ONCE = 50
STATE_BATCHES_AT_ONCE = 5000
"""States written in one batch while pruning, and their batches (21 bytes each): one state more at most."""
TOMBSTONES_AT_ONCE = 500
GROWTH_MIN = 1000
GROWTH_FACTOR = 4
"""A shard's log is pruned when it holds so many records more than it has states, or so many times as many."""

_log = logging.getLogger("moldau.coordinator.share")


class PrunableLog(CoordinatorLog, Protocol):
    """A log whose beginning can be deleted."""

    def extent(self, topic: str, index: int, leader_epoch: int) -> tuple[int, int] | None:
        """The log start and end offset; None if this broker does not lead in that epoch."""

    def delete_before(self, topic: str, index: int, leader_epoch: int, offset: int) -> None:
        """Delete what lies before `offset`, if this broker leads in that epoch."""


class ShareCoordinator:
    """Coordinates the share-partitions whose shards this broker leads: a `Coordinator`."""

    topic = SHARE_STATE_TOPIC

    def __init__(
        self,
        *,
        log: PrunableLog,
        image: Callable[[], Image],
        settings: Callable[[], BrokerSettings],
        clock: Clock,
        timers: Timers,
        stalled: Callable[[], bool] = never,
    ) -> None:
        self._prunable = log
        self._image = image
        self._settings = settings
        self._timers = timers
        self._prune_timer: TimerHandle | None = None
        self._leader_epochs: dict[int, int] = {}

        def make_state(index: int, leader_epoch: int) -> StateShard:
            self._leader_epochs[index] = leader_epoch
            return StateShard(
                lambda: settings().share_coordinator_snapshot_update_records_per_snapshot,
            )

        self.runtime: CoordinatorRuntime[StateShard] = CoordinatorRuntime(
            SHARE_STATE_TOPIC,
            log=log,
            make_state=make_state,
            clock=clock,
            timers=timers,
            commit_timeout_ms=lambda: settings().share_coordinator_write_timeout_ms,
            stalled=stalled,
        )

    # Life

    def start(self) -> None:
        """Begin to prune periodically."""
        self._prune_timer = self._timers.call_later(PRUNE_INTERVAL_MS, self._prune_all)

    def stop(self) -> None:
        """Give up all shards; everyone who waits is answered COORDINATOR_NOT_AVAILABLE."""
        if self._prune_timer is not None:
            self._prune_timer.cancel()
        self.runtime.stop()

    def elected(self, index: int, leader_epoch: int) -> None:
        self.runtime.elected(index, leader_epoch)

    def resigned(self, index: int) -> None:
        self.runtime.resigned(index)

    def metadata_changed(self, old_image: Image, new_image: Image, changes: Sequence[Change]) -> None:
        """Forget the share-partitions of topics that are deleted."""
        names = [change.name for change in changes if isinstance(change, TopicDeleted)]
        ids = frozenset(old_image.topics[name].topic_id for name in names if name in old_image.topics)
        if ids:
            for index, shard in self.runtime.states():
                keys = [key for key in shard.states if key.topic_id in ids]
                for start in range(0, len(keys), TOMBSTONES_AT_ONCE):  # more may not fit into one batch
                    self.runtime.submit(index, partial(_forget, keys[start : start + TOMBSTONES_AT_ONCE]))

    def partition_for(self, key: str) -> int:
        """The partition of __share_group_state that holds a key: `group:topic id:partition`."""
        planned = self._settings().share_coordinator_state_topic_num_partitions
        return partition_of(key, self.topic, self._image(), planned)

    # Requests

    def initialize(self, key: Key, state_epoch: int, start_offset: int) -> Answer[Outcome]:
        """InitializeShareGroupState."""
        return self._decide(
            key, lambda shard, now_ms: shard.initialize(key, state_epoch, start_offset, now_ms)
        )

    def read(self, key: Key, leader_epoch: int) -> Answer[Outcome]:
        """ReadShareGroupState."""
        return self._decide(key, lambda shard, now_ms: shard.read(key, leader_epoch, now_ms))

    def summary(self, key: Key) -> Answer[Outcome]:
        """ReadShareGroupStateSummary."""
        return self._decide(key, lambda shard, now_ms: shard.summary(key))

    def write(self, key: Key, write: Write) -> Answer[Outcome]:
        """WriteShareGroupState."""
        return self._decide(key, lambda shard, now_ms: shard.write(key, write, now_ms))

    def delete(self, key: Key) -> Answer[Outcome]:
        """DeleteShareGroupState."""
        return self._decide(key, lambda shard, now_ms: shard.delete(key))

    def _decide(self, key: Key, operation: Callable[[StateShard, int], Result[Outcome]]) -> Answer[Outcome]:
        return self.runtime.decide(self.partition_for(key_text(key)), operation, Outcome)

    # Pruning

    def _prune_all(self) -> None:
        self.start()
        for order, (index, _) in enumerate(self.runtime.states()):
            self._timers.call_later(order, partial(self.prune, index))

    def prune(self, index: int) -> None:
        """Prune one shard's log, if it has grown."""
        shard, leader_epoch = self.runtime.state(index), self._leader_epochs.get(index, -1)
        if shard is None:
            return
        extent = self._prunable.extent(self.topic, index, leader_epoch)
        if extent is None:
            return
        start_offset, end_offset = extent
        if end_offset - start_offset < max(GROWTH_MIN, GROWTH_FACTOR * len(shard.states)):
            return
        keys = list(shard.states)

        def delete() -> None:
            if self.runtime.state(index) is shard:
                self._prunable.delete_before(self.topic, index, leader_epoch, end_offset)
                _log.info("%s-%d is pruned up to offset %d", self.topic, index, end_offset)

        def next_ones(position: int) -> None:
            if self.runtime.state(index) is not shard:
                return  # loaded again, or led by another broker

            def operation(state: StateShard, now_ms: int) -> Result[None]:
                rest = _fitting(state, keys, position)
                result = state.snapshots(keys[position:rest], now_ms)
                result.on_commit = delete if rest >= len(keys) else partial(next_ones, rest)
                return result

            self.runtime.submit(index, operation)

        next_ones(0)


def _forget(keys: Sequence[Key], shard: StateShard, now_ms: int) -> Result[None]:
    return shard.forget(keys)


def _fitting(shard: StateShard, keys: Sequence[Key], position: int) -> int:
    """The end of the keys from `position` on whose states are written in one batch."""
    batch_count = 0
    for index in range(position, min(len(keys), position + SNAPSHOTS_AT_ONCE)):
        state = shard.states.get(keys[index])
        batch_count += 0 if state is None else len(state.batches)
        if batch_count >= STATE_BATCHES_AT_ONCE:
            return index + 1
    return min(len(keys), position + SNAPSHOTS_AT_ONCE)


def key_text(key: Key) -> str:
    """A share-partition as FindCoordinator names it."""
    return f"{key.group_id}:{uuid_to_text(key.topic_id)}:{key.partition}"
