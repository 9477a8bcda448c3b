"""A consumer loop with a delivery guarantee: at most once, at least once, or a commit for each record.

    loop = ConsumerLoop("orders", group="billing", bootstrap_servers="HOST:9092", delivery="at_least_once")
    loop.run(handle)                  # handle(record), one by one
    loop.run_batches(handle_many)     # handle_many(records)
    await loop.run_async(handle)      # async def handle(record)

What each word commits, and what a crash (kill -9, power cut) does to a record:

    word           committed                                   a crash
    at_most_once   a batch, before its first record is handled  loses what was left of one batch
    at_least_once  what was handled: every `commit_seconds`,     repeats what came since the last commit
                   when partitions go, and at the end
    each_record    every record, before the next is handled     repeats one record at most

Invariant: a record is handled only while its partition is this member's (group_reader.py), and the committed
offset never lies beyond a record that was not handled (at_most_once: never before one that was).

A handler that raises is failures.py's matter. Not here: exactly once; handlers that run longer
than max.poll.interval.ms: the client leaves the group then, as Kafka wants it, and a warning says so.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

from confluent_kafka import Message

from moldau.kit.client_config import Config, client_config, log, positive, topic_names
from moldau.kit.errors import BadCall
from moldau.kit.failures import Failures
from moldau.kit.group_reader import GroupReader, Offsets, Partition, ends, names, starts
from moldau.kit.handlers import Attempt, EachRecord, EachRecordAsync, Whole, WholeAsync
from moldau.kit.in_thread import run_in_thread

Delivery = Literal["at_most_once", "at_least_once", "each_record"]
DELIVERIES = ("at_most_once", "at_least_once", "each_record")
START = {"beginning": "earliest", "end": "latest"}
OWNED_SETTINGS = {
    "enable.auto.commit": "when offsets are committed is what delivery='...' says",
    "enable.auto.offset.store": "when offsets are committed is what delivery='...' says",
    "on_commit": "the loop itself hears how its commits ended",
    "group.id": "pass group='...'",
}
_WAIT_SECONDS = 0.25  # how long a stop may go unnoticed while nothing comes
_LAST_COMMIT_SECONDS = 15.0


class ConsumerLoop:
    """Reads topics as a member of `group` and hands records to a handler until `stop`.

    `batch`: records a turn at most; `linger_seconds`: how long to wait until it is full; `start`: where a
    group without offsets begins, "beginning" or "end". `on_error`, `retries`, `retry_seconds` and
    `dead_letters` say what happens to a record whose handler raises (failures.py). `config`: librdkafka's
    settings. Raises BadCall for what cannot be, KitError for what does not get better by waiting.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        *,
        group: str,
        delivery: Delivery = "at_least_once",
        bootstrap_servers: str | None = None,
        config: Config | None = None,
        batch: int = 500,
        linger_seconds: float = 0.0,
        commit_seconds: float = 1.0,
        start: Literal["beginning", "end"] = "beginning",
        on_error: Literal["stop", "skip"] | Callable[[Message, Exception], None] = "stop",
        retries: int = 0,
        retry_seconds: float = 0.5,
        dead_letters: str | None = None,
    ) -> None:
        if delivery not in DELIVERIES:
            raise BadCall(f"delivery={delivery!r} is none of {', '.join(DELIVERIES)}")
        if start not in START:
            raise BadCall(f"start={start!r} is neither 'beginning' nor 'end'")
        if not isinstance(group, str) or not group:
            raise BadCall(f"group={group!r}: a consumer loop needs the name of its group")
        if delivery == "at_most_once" and retries:
            raise BadCall(
                "delivery='at_most_once' and retries exclude each other: a retry may do a thing twice"
            )
        self._topics = topic_names(topics)
        self._group = group
        self._delivery = delivery
        self._batch = int(positive(batch, "batch"))
        self._linger_seconds = linger_seconds
        self._commit_seconds = commit_seconds
        given = dict(config or {})
        reset = given.pop("auto.offset.reset", START[start])
        self._config = client_config(
            bootstrap_servers, given, OWNED_SETTINGS, group_id=group, enable_auto_commit=False,
            enable_auto_offset_store=False, auto_offset_reset=reset,
        )  # fmt: skip
        max_poll_ms = int(given.get("max.poll.interval.ms", 300_000))
        self._failures = Failures(
            bootstrap_servers,
            given,
            on_error,
            retries,
            retry_seconds,
            dead_letters,
            self._is_stopped,
            max_poll_ms,
        )
        self._stop = threading.Event()
        self._reader: GroupReader | None = None
        self._handled: Offsets = {}  # not committed yet
        self._flying: Offsets = {}  # commits without an answer
        self._commit_at = 0.0
        self.handled_count = 0

    @property
    def skipped_count(self) -> int:
        """Records that were given up: skipped, or sent to the dead letters."""
        return self._failures.skipped_count

    @property
    def rebalance_count(self) -> int:
        """How often partitions came or went."""
        return self._reader.rebalance_count if self._reader is not None else 0

    def stop(self) -> None:
        """End the loop after the record (or batch) in hand; from any thread, and from signal handlers."""
        self._stop.set()

    def stop_on_signals(self, *numbers: signal.Signals) -> None:
        """Stop at SIGINT and SIGTERM (or those given); call it in the main thread."""
        for number in numbers or (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.stop())

    def _is_stopped(self) -> bool:
        return self._stop.is_set()

    def run(self, handler: Callable[[Message], object]) -> None:
        """Hand over one record after the other until `stop`."""
        self._run(EachRecord(handler, self._stop))

    def run_batches(self, handler: Callable[[list[Message]], object]) -> None:
        """Hand over lists of records until `stop`."""
        self._run(Whole(handler))

    async def run_async(self, handler: Callable[[Message], Awaitable[object]]) -> None:
        """As `run`, in an event loop: the client waits in a thread, the handler runs here."""
        attempt = EachRecordAsync(handler, self._stop, asyncio.get_running_loop())
        await run_in_thread(lambda: self._run(attempt), self.stop, attempt.cancel)

    async def run_batches_async(self, handler: Callable[[list[Message]], Awaitable[object]]) -> None:
        """As `run_batches`, in an event loop."""
        attempt = WholeAsync(handler, asyncio.get_running_loop())
        await run_in_thread(lambda: self._run(attempt), self.stop, attempt.cancel)

    def _run(self, attempt: Attempt) -> None:
        if self._reader is not None:
            raise BadCall("this loop has run already: make a new one")
        reader = self._reader = GroupReader(self._topics, self._config, self)
        reader.on_commits(self._committed, self._not_committed)
        deliver = {
            "at_most_once": self._at_most_once,
            "at_least_once": self._at_least_once,
            "each_record": self._each_record,
        }[self._delivery]
        try:
            while not self._stop.is_set():
                records = reader.read(self._batch, _WAIT_SECONDS, self._linger_seconds)
                if records:
                    deliver(reader, records, attempt)
                if self._handled and time.monotonic() >= self._commit_at:
                    self._commit_soon(reader)
        finally:
            self._end(reader)

    # --- the three words --------------------------------------------------------------------------

    def _at_least_once(self, reader: GroupReader, records: list[Message], attempt: Attempt) -> None:
        if not self._handled:
            self._commit_at = time.monotonic() + self._commit_seconds
        self._handle(records, attempt)

    def _at_most_once(self, reader: GroupReader, records: list[Message], attempt: Attempt) -> None:
        if not reader.commit_now(ends(records), self._goes_on):
            reader.rewind(starts(records))  # nobody has handled them
            return
        before, seen, attempt.reached = self.handled_count, 0, 0
        try:
            self._handle(records, attempt, noted=False)
            seen = self.handled_count - before
        except BaseException:  # also Ctrl-C and a cancelled task, which come without a count of the handled
            seen = max(self.handled_count - before + 1, attempt.reached)
            raise
        finally:
            # Stopped in the middle: what no handler has seen is given back. Of a list it may have seen all.
            rest = records[seen:] if not attempt.whole else []
            if rest and not reader.commit_now(starts(rest)):
                log.warning("%s: %d records were committed and not handled", self._group, len(rest))

    def _each_record(self, reader: GroupReader, records: list[Message], attempt: Attempt) -> None:
        for index, record in enumerate(records):
            if self._stop.is_set():
                return
            self._handle([record], attempt)
            if not reader.commit_now(self._handled, self._goes_on):
                self._handled = {}
                reader.rewind(starts(records[index + 1 :]))
                return
            self._handled = {}

    def _goes_on(self) -> bool:
        return not self._stop.is_set()

    def _handle(self, records: list[Message], attempt: Attempt, noted: bool = True) -> None:
        """Hand over records; what was handled is noted, also when a handler raises in the middle."""
        count = 0
        try:
            for done in self._failures.handle(records, attempt, whole=self._delivery == "at_most_once"):
                count = done
        finally:
            self.handled_count += count
            if noted and count:
                self._handled.update(ends(records if count == len(records) else records[:count]))

    # --- commits ----------------------------------------------------------------------------------

    def _commit_soon(self, reader: GroupReader) -> None:
        self._flying.update(self._handled)
        sent, self._handled = self._handled, {}
        self._commit_at = time.monotonic() + self._commit_seconds
        reader.commit_soon(sent)

    def _committed(self, offsets: Offsets) -> None:
        for key, offset in offsets.items():
            if self._flying.get(key, -1) <= offset:
                self._flying.pop(key, None)

    def _not_committed(self, offsets: Offsets) -> None:
        owned = self._reader.owned if self._reader is not None else set()
        for key in offsets:
            if key in self._flying and key in owned:
                self._handled.setdefault(key, self._flying[key])
            self._flying.pop(key, None)

    def _take_uncommitted(self, partitions: Iterable[Partition]) -> Offsets:
        taken = {}
        for key in partitions:
            flying, handled = self._flying.pop(key, None), self._handled.pop(key, None)
            offset = handled if handled is not None else flying
            if offset is not None:
                taken[key] = offset
        return taken

    def assigned(self, partitions: list[Partition]) -> Offsets | None:
        """Partitions have come: they start where the group has committed."""
        log.info("%s: %s has got %s", self._group, ", ".join(self._topics), names(partitions))
        return None

    def revoked(self, partitions: list[Partition]) -> None:
        """Partitions go: what was handled is committed before others read on."""
        if self._reader is not None and (left := self._take_uncommitted(partitions)):
            self._commit_last(self._reader, left)

    def lost(self, partitions: list[Partition]) -> None:
        """Partitions have gone: others handle again what was not committed."""
        if left := self._take_uncommitted(partitions):
            log.warning("%s lost %s; what was not committed is handled again", self._group, names(left))

    def _commit_last(self, reader: GroupReader, left: Offsets) -> None:
        deadline = time.monotonic() + _LAST_COMMIT_SECONDS
        if not reader.commit_now(left, lambda: time.monotonic() < deadline):
            log.warning("%s: what was handled in %s is handled again", self._group, names(left))

    def _end(self, reader: GroupReader) -> None:
        try:
            if left := self._take_uncommitted(list(self._handled) + list(self._flying)):
                self._commit_last(reader, left)
        finally:
            reader.close()
            self._failures.close()
