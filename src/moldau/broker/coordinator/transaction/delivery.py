"""Writes the markers of decided transactions, and retries until every partition has its marker.

    Prepare is committed ──> write markers ──┬── every partition done ──> finished (the Complete record)
                                 ^           └── some failed
                                 └── backoff ─────┘

What a partition's answer means is a table. Most errors are transient (a leader moves, a disk fills), so an
error that is not in the table is retried without limit, with backoff up to some seconds. A partition that the
metadata no longer has needs no marker. Markers are idempotent: one that was written and is sent again (an
answer lost, a restart) changes nothing.

A delivery belongs to one loaded shard. After `close`, when that is given up, late answers are ignored; the
next leader finds Prepare in the log and delivers again.

Not here: how a marker gets to its partition (markers.py), and the Complete record (shard.py).
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from moldau.broker.coordinator.markers import Marker, MarkerWriter, TopicPartition
from moldau.broker.coordinator.transaction.metadata import Transaction
from moldau.broker.coordinator.transaction.states import TransactionState
from moldau.broker.metadata.image import Image
from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.protocol.errors import ErrorCode, error_name

RETRY_MIN_MS = 50
RETRY_MAX_MS = 5000
"""The first pause between two attempts, and the longest; each is twice the one before."""

DONE = frozenset(
    {
        ErrorCode.NONE,
        # A newer epoch has written there since: it could not have before the transaction had ended there.
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        # Nothing transactional can have been written there.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Answers after which a partition needs no marker any more."""

DEPOSED = frozenset({ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.NOT_COORDINATOR})
"""Another coordinator has taken over: it delivers, this one stops."""

_log = logging.getLogger("moldau.coordinator.transaction.delivery")


class Pending:
    """One decided transaction whose markers are being written."""

    __slots__ = (
        "attempts",
        "marker",
        "prepared",
        "remaining",
        "reported",
        "since_ms",
        "stopped",
        "timer",
        "woken",
        "writing",
    )

    def __init__(self, prepared: Transaction, marker: Marker, since_ms: int) -> None:
        self.prepared = prepared
        self.marker = marker
        self.remaining = set(prepared.partitions)
        self.since_ms = since_ms
        self.attempts = 0  # since the metadata changed
        self.reported = False
        self.stopped = False
        self.woken = False
        self.timer: TimerHandle | None = None
        self.writing: asyncio.Future[dict[TopicPartition, int]] | None = None


class Delivery:
    """The decided transactions of one shard. `finished` is called with the transaction whose partitions all
    have their marker; it calls `completed`, or `again` if the Complete record could not be written."""

    def __init__(
        self,
        *,
        coordinator_epoch: int,
        writer: MarkerWriter,
        image: Callable[[], Image],
        clock: Clock,
        timers: Timers,
        finished: Callable[[Transaction], None],
    ) -> None:
        self._coordinator_epoch = coordinator_epoch
        self._writer = writer
        self._image = image
        self._clock = clock
        self._timers = timers
        self._finished = finished
        self._pending: dict[str, Pending] = {}
        self._closed = False

    def begin(self, prepared: Transaction) -> None:
        """Start: `prepared` is decided, and its record committed."""
        if self._closed:
            return
        marker = Marker(
            prepared.producer_id,
            prepared.producer_epoch,
            self._coordinator_epoch,
            prepared.state is TransactionState.PREPARE_COMMIT,
            prepared.client_version,
        )
        pending = Pending(prepared, marker, self._clock.now_ms())
        self._pending[prepared.transactional_id] = pending
        self._attempt(pending)

    def completed(self, prepared: Transaction) -> None:
        """The Complete record is committed."""
        pending = self._pending.get(prepared.transactional_id)
        if pending is not None and pending.prepared is prepared:
            del self._pending[prepared.transactional_id]

    def again(self, prepared: Transaction) -> None:
        """The Complete record could not be written: try that again later."""
        pending = self._pending.get(prepared.transactional_id)
        if pending is not None and pending.prepared is prepared:
            pending.attempts += 1
            self._attempt_later(pending)

    def wake(self) -> None:
        """The metadata have changed: retry now what waits for its next attempt, and at once what fails in the
        attempt under way."""
        for pending in list(self._pending.values()):
            pending.woken = True
            # A new leader may still refuse for a moment, because it hears of the change later: the pauses
            # begin with the shortest again.
            pending.attempts = 0
            if pending.timer is not None:
                pending.timer.cancel()
                self._attempt(pending)

    def close(self) -> None:
        """The shard is given up."""
        self._closed = True
        for pending in self._pending.values():
            if pending.timer is not None:
                pending.timer.cancel()
            if pending.writing is not None:
                pending.writing.cancel()
        self._pending.clear()

    def pending(self) -> list[Pending]:
        """The transactions that are not complete yet, oldest first."""
        return list(self._pending.values())

    def remaining(self, transactional_id: str) -> frozenset[TopicPartition] | None:
        """The partitions that still lack their marker; None if nothing is on its way."""
        pending = self._pending.get(transactional_id)
        return None if pending is None else frozenset(pending.remaining)

    # Inside.

    def _attempt(self, pending: Pending) -> None:
        pending.timer = None
        pending.remaining = {partition for partition in pending.remaining if self._exists(partition)}
        if not pending.remaining:
            self._finished(pending.prepared)
            return
        pending.attempts += 1
        pending.woken = False
        try:
            writing = asyncio.ensure_future(self._writer.write(pending.marker, sorted(pending.remaining)))
        except Exception:
            _log.exception("markers of %r cannot be written", pending.prepared.transactional_id)
            self._attempt_later(pending)
            return
        pending.writing = writing
        writing.add_done_callback(partial(self._written, pending))

    def _exists(self, partition: TopicPartition) -> bool:
        topic = self._image().topics.get(partition[0])
        return topic is not None and partition[1] < len(topic.partitions)

    def _written(self, pending: Pending, writing: "asyncio.Future[dict[TopicPartition, int]]") -> None:
        pending.writing = None
        transactional_id = pending.prepared.transactional_id
        if writing.cancelled() or writing.exception() is not None:
            if self._pending.get(transactional_id) is pending:
                error = None if writing.cancelled() else writing.exception()
                _log.error("markers of %r could not be written", transactional_id, exc_info=error)
                self._attempt_later(pending)
            return
        if self._pending.get(transactional_id) is not pending:
            return
        errors = writing.result()
        for partition, error_code in errors.items():
            if error_code in DONE:
                pending.remaining.discard(partition)
        self._report(pending, errors)
        if not pending.remaining:
            self._finished(pending.prepared)
        elif not DEPOSED.isdisjoint(errors.values()):
            pending.stopped = True
        elif pending.woken:
            self._attempt(pending)
        else:
            self._attempt_later(pending)

    def _report(self, pending: Pending, errors: dict[TopicPartition, int]) -> None:
        """Log the refusals of the first attempt."""
        if pending.reported:
            return
        pending.reported = True
        for partition, error_code in errors.items():
            if error_code:
                outcome = "needs none" if error_code in DONE else "is asked again"
                outcome = "has another coordinator" if error_code in DEPOSED else outcome
                what = (pending.prepared.transactional_id, error_name(error_code), outcome)
                _log.warning("%s-%d refused the marker of %r: %s; it %s", *partition, *what)

    def _attempt_later(self, pending: Pending) -> None:
        delay_ms = min(RETRY_MIN_MS << max(0, min(pending.attempts - 1, 10)), RETRY_MAX_MS)
        pending.timer = self._timers.call_later(delay_ms, partial(self._attempt, pending))
