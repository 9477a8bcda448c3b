"""Loading a shard: its log is read back into an empty state.

    all is committed ──> read (in slices) ──> last value of every key ──> replay (in slices)
        └── fails ──> again after a second, until            ──> open transactions ──> serve
                      this broker no longer leads

Only the last value of every key is replayed, in the order of the last writes: the topic is compacted, so a
state must not depend on anything else (last_values.py). A `SequentialMachine` gets every record. A leader
first waits until all that is in the log is committed: it would miss records that the last leader
acknowledged, or, loading again in the same epoch, its own append of unknown outcome. A slice is one turn of
the event loop; requests are refused with COORDINATOR_LOAD_IN_PROGRESS meanwhile. A record that cannot be
decoded is logged and skipped.

Not here: what serves afterwards (shard.py).
"""

import logging
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from moldau.broker.coordinator.last_values import LastValues
from moldau.broker.coordinator.machine import (
    Appended,
    CoordinatorLog,
    Loaded,
    Machine,
    SequentialMachine,
    TransactionalMachine,
)
from moldau.broker.coordinator.shard import Shard
from moldau.common.protocol.errors import ErrorCode, error_name

LOAD_SLICE_RECORDS = 2000
"""Records read or replayed in one turn of the event loop: some milliseconds."""

LOAD_RETRY_MS = 1000

_log = logging.getLogger("moldau.coordinator.loading")


class Loader:
    """Loads the shards of one topic."""

    def __init__(self, topic: str, log: CoordinatorLog) -> None:
        self._topic = topic
        self._coordinator_log = log
        self._failing: set[int] = set()
        """Partitions whose last load failed; each is logged once."""

    def load(self, shard: Shard[Any]) -> None:
        """Load `shard`, which is new, and let it serve. Ends early if the shard is given up."""
        self._next_slice(shard, self._slices(shard))

    def _next_slice(self, shard: Shard[Any], slices: Iterator[None]) -> None:
        try:
            for _ in slices:
                shard.later(0, lambda: self._next_slice(shard, slices))
                return
        except Exception:
            self._failed(shard)
            return
        self._failing.discard(shard.index)
        shard.serve()

    def _slices(self, shard: Shard[Any]) -> Iterator[None]:
        """Load, and pause after every slice. Raises what reading the log raises."""
        records = self._coordinator_log.committed_records(self._topic, shard.index, shard.leader_epoch)
        if isinstance(shard.state, SequentialMachine):
            yield from self._in_order(shard, records)
            return
        values = LastValues()
        while chunk := list(islice(records, LOAD_SLICE_RECORDS)):
            values.add(chunk)
            if len(chunk) == LOAD_SLICE_RECORDS:
                yield
        state: Machine = shard.state
        items = iter(values.latest.items())
        while pairs := list(islice(items, LOAD_SLICE_RECORDS)):
            for key, value in pairs:
                try:
                    state.load(key, value)
                except Exception:
                    self._unreadable(shard, key)
            if len(pairs) == LOAD_SLICE_RECORDS:
                yield
        if isinstance(state, TransactionalMachine):
            for producer, key, pending in values.pending():
                try:
                    state.load_pending(producer, key, pending)
                except Exception:
                    self._unreadable(shard, key)

    def _in_order(self, shard: Shard[Any], records: Iterator[Loaded]) -> Iterator[None]:
        """Replay every record, for a log whose records build on those before."""
        state: SequentialMachine = shard.state
        while chunk := list(islice(records, LOAD_SLICE_RECORDS)):
            for record in chunk:
                if record.__class__ is not tuple:
                    continue
                key, value = cast("tuple[bytes | None, bytes | None]", record)
                if key is not None:
                    try:
                        state.load(key, value)
                    except Exception:
                        self._unreadable(shard, key)
            yield

    def _load_when_committed(self, shard: Shard[Any]) -> None:
        def go_on(committed: Appended) -> None:
            failed = committed.cancelled() or committed.exception() is not None
            shard.later(LOAD_RETRY_MS if failed else 0, lambda: self.load(shard))

        place = (self._topic, shard.index, shard.leader_epoch)
        self._coordinator_log.all_committed(*place).add_done_callback(go_on)

    def _unreadable(self, shard: Shard[Any], key: bytes) -> None:
        _log.exception("%s: skipping a record that cannot be read: %r", shard.name, key)

    def _failed(self, shard: Shard[Any]) -> None:
        """Reading failed, and nothing has been replayed: try again later."""
        error_code = getattr(sys.exc_info()[1], "error_code", None)
        if error_code == ErrorCode.OFFSET_NOT_AVAILABLE:
            self._load_when_committed(shard)
            return
        if shard.index not in self._failing:
            # Fifty partitions that fail every second would fill the disk whose fullness made them fail.
            first = not self._failing
            self._failing.add(shard.index)
            if error_code is None:
                _log.exception("%s cannot be loaded; trying again", shard.name)
            elif first:
                # The log refuses and has logged the cause; a traceback of this code would explain nothing.
                _log.error(
                    "%s cannot be loaded (%s); trying again, also with other partitions that fail so",
                    shard.name,
                    error_name(error_code),
                )
        shard.later(LOAD_RETRY_MS, lambda: self.load(shard))
