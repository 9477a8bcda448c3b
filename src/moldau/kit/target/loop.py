"""A consumer that writes each batch and its offsets in one transaction of the target: exactly once.

    def write(connection, records):
        connection.executemany("INSERT INTO orders VALUES (?)", [(one.value(),) for one in records])

    TargetLoop("orders", group="loader", store=SqliteStore("orders.db"), bootstrap_servers=...).run(write)

On assignment the partitions are claimed in the store and read from the offsets there; the group's offsets in
Kafka are only a copy, so that its lag can be seen. When a write fails and nobody knows whether it was
committed (the connection broke at COMMIT), the store is asked: partitions are claimed again and read from its
offsets.

A process that was stopped and wakes up may claim late, after the rightful owner. Both then claim in turns
until the late one hears from the group that it has lost the partitions: a few claims, and no record twice.
Two processes that own the same partition for good (a group name in use on two clusters) end with Fenced.

Invariant: rows in the store say exactly which records its data contains. Not here: the tables (store.py).
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

from confluent_kafka import Message

from moldau.kit.client_config import Config, client_config, log, positive, sentence, topic_names
from moldau.kit.duplicates import Duplicates, unseen
from moldau.kit.errors import BadCall, Fenced, KitError
from moldau.kit.group_reader import GroupReader, Offsets, Partition, ends, names
from moldau.kit.in_thread import run_in_thread
from moldau.kit.target.store import FIRST_CLAIM, Claim, OffsetRow, SeenRow, Store
from moldau.kit.topics import Topics

Handler = Callable[[Any, list[Message]], Any]
_WAIT_SECONDS = 0.25
_CLAIMS_IN_A_ROW = 10
_PAUSE_SECONDS = 0.2
_OWNED = {
    "enable.auto.commit": "offsets lie in the store",
    "enable.auto.offset.store": "offsets lie in the store",
    "auto.offset.reset": "pass start='beginning' or 'end'",
    "on_commit": "the loop itself hears how its commits ended",
    "group.id": "pass group='...'",
}


class TargetLoop:
    """Reads topics as a member of `group` and writes them into `store` until `stop`.

    `start`: where a partition begins that the store does not know. `retry_seconds`: how long a store may be
    away before the loop ends with its error. `on_error`: "stop", "skip", or a function called with a record
    that its handler refuses (then the loop goes on behind it); the records of its batch are written one by
    one. `duplicates`: a filter by the records' own ids, kept in the store. Raises BadCall, KitError, Fenced.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        *,
        group: str,
        store: Store,
        bootstrap_servers: str | None = None,
        config: Config | None = None,
        batch: int = 1000,
        linger_seconds: float = 0.0,
        start: Literal["beginning", "end"] = "beginning",
        retry_seconds: float = 60.0,
        on_error: Literal["stop", "skip"] | Callable[[Message, Exception], None] = "stop",
        duplicates: Duplicates | None = None,
    ) -> None:
        if not isinstance(group, str) or not group:
            raise BadCall(f"group={group!r}: the offsets in the store are kept under the name of a group")
        if start not in ("beginning", "end"):
            raise BadCall(f"start={start!r} is neither 'beginning' nor 'end'")
        if on_error not in ("stop", "skip") and not callable(on_error):
            raise BadCall(f"on_error={on_error!r} is neither 'stop' nor 'skip' nor a function(record, error)")
        is_async = inspect.iscoroutinefunction(getattr(store, "write", None))
        if duplicates is not None and (is_async or not hasattr(store, "remember")):
            raise BadCall(
                f"{type(store).__name__} has no seen() and remember(): it cannot keep ids of records"
            )
        self._topics = topic_names(topics)
        self._group = group
        self._store: Any = store
        self._batch = int(positive(batch, "batch"))
        self._linger_seconds = linger_seconds
        self._start = start
        self._retry_seconds = retry_seconds
        self._on_error = on_error
        self._duplicates = duplicates
        self._config = client_config(
            bootstrap_servers, config, _OWNED, group_id=group, enable_auto_commit=False,
            enable_auto_offset_store=False, auto_offset_reset="error",
        )  # fmt: skip
        self._stop = threading.Event()
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._reader: GroupReader | None = None
        self._cluster: Topics | None = None
        self._claims: dict[Partition, Claim] = {}
        self._claims_in_a_row = 0
        self._failing_since: float | None = None
        self.written_count = 0
        self.skipped_count = 0

    def stop(self) -> None:
        """End the loop after the batch in hand; from any thread, and from signal handlers."""
        self._stop.set()

    def stop_on_signals(self, *numbers: signal.Signals) -> None:
        """Stop at SIGINT and SIGTERM (or those given); call it in the main thread."""
        for number in numbers or (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.stop())

    def run(self, handler: Handler) -> None:
        """Write until `stop`: handler(connection, records), inside the transaction."""
        if self._reader is not None:
            raise BadCall("this loop has run already: make a new one")
        self._cluster = Topics(self._config)
        reader = self._reader = GroupReader(self._topics, self._config, self)
        try:
            while not self._stop.is_set():
                records = reader.read(self._batch, _WAIT_SECONDS, self._linger_seconds)
                if records:
                    self._deliver(reader, records, handler)
        finally:
            reader.close()

    async def run_async(self, handler: Handler) -> None:
        """As `run`, in a thread. Coroutine functions (the handler, the store's methods) are awaited here."""
        self._event_loop = asyncio.get_running_loop()
        await run_in_thread(lambda: self.run(handler), self.stop)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        result = function(*arguments)
        if not inspect.isawaitable(result):
            return result
        if self._event_loop is None:
            raise BadCall(f"{function} is a coroutine function: await loop.run_async(...) instead of run")

        async def wait() -> Any:
            return await result

        return asyncio.run_coroutine_threadsafe(wait(), self._event_loop).result()

    # --- writing ----------------------------------------------------------------------------------

    def _deliver(self, reader: GroupReader, records: list[Message], handler: Handler) -> bool:
        """Write records; False if they are not written, and are read again."""
        try:
            self._write(records, handler)
        except Fenced as error:
            self._claims_in_a_row += 1
            if self._claims_in_a_row > _CLAIMS_IN_A_ROW:
                raise Fenced(
                    f"{error}, again and again: does a process of another cluster write group {self._group}?"
                ) from None
            log.warning("%s; asking the group and the store again", error)
            reader.read(1, _PAUSE_SECONDS)  # a rebalance that is due comes now; the record is read again
            self._claim_again(reader)
            return False
        except BadCall:
            raise
        except Exception as error:
            if not self._store.may_pass(error):
                return self._refused(reader, records, handler, error)
            self._failing_since = self._note_failure(error, self._failing_since)
            self._claim_again(reader)
            return False
        self._claims_in_a_row, self._failing_since = 0, None
        self.written_count += len(records)
        reader.commit_soon(ends(records))
        return True

    def _write(self, records: list[Message], handler: Handler) -> None:
        rows = []
        for (topic, partition), offset in ends(records).items():
            claim = self._claims.get((topic, partition))
            if claim is None:
                raise Fenced(f"{topic}[{partition}] is not claimed")
            rows.append(OffsetRow(topic, partition, offset, claim.number))
        self._call(self._store.write, self._group, rows, lambda handle: self._work(handle, records, handler))

    def _work(self, handle: Any, records: list[Message], handler: Handler) -> Any:
        if self._duplicates is not None:
            records = self._fresh(handle, records, self._duplicates)
        if not records:
            return None
        if inspect.iscoroutinefunction(handler) and inspect.iscoroutinefunction(self._store.write):
            return handler(handle, records)  # awaited by the store
        return self._call(handler, handle, records)

    def _fresh(self, handle: Any, records: list[Message], filter_: Duplicates) -> list[Message]:
        ids = filter_.digests(records)
        asked = sorted({one for one in ids if one is not None})
        known = self._store.seen(handle, self._group, asked)
        kept = unseen(ids, known)
        rows = []
        for index in kept:
            one, record = ids[index], records[index]
            if one is not None:
                place = record.topic() or "", record.partition() or 0, record.offset() or 0
                rows.append(SeenRow(one, *place))
        if rows:
            self._store.remember(handle, self._group, rows, filter_.window)
        filter_.dropped_count += len(records) - len(kept)
        return [records[index] for index in kept]

    def _refused(
        self, reader: GroupReader, records: list[Message], handler: Handler, error: Exception
    ) -> bool:
        """The handler cannot write a batch: find the record, and skip it if told so."""
        first = records[0]
        place = f"{first.topic()}[{first.partition()}]@{first.offset()}"
        if self._on_error == "stop":
            more = f" and {len(records) - 1} more" if len(records) > 1 else ""
            error.add_note(f"while writing {place}{more}")
            raise error
        if len(records) > 1:
            return all(self._deliver(reader, [one], handler) for one in records)
        if callable(self._on_error):
            self._on_error(first, error)
        if not self._deliver(reader, records, lambda handle, left: None):
            return False
        log.warning("%s was skipped: %s: %s", place, type(error).__name__, error)
        self.written_count -= 1
        self.skipped_count += 1
        return True

    def _note_failure(self, error: Exception, since: float | None) -> float:
        """Pause after a failure; returns since when it fails. Raises KitError after `retry_seconds`."""
        now = time.monotonic()
        since = now if since is None else since
        if now - since > self._retry_seconds or self._stop.is_set():
            raise KitError(
                f"{self._group} cannot go on for {now - since:.0f} s: {sentence(error)}. "
                "Nothing is lost: start again when it works"
            ) from error
        log.warning("%s cannot go on: %s; trying again", self._group, sentence(error))
        self._stop.wait(_PAUSE_SECONDS)
        return since

    # --- claims -----------------------------------------------------------------------------------

    def assigned(self, partitions: list[Partition]) -> Offsets | None:
        """Partitions have come: claim them and start at the store's offsets."""
        claims = self._claim(partitions)
        self._claims.update(claims)
        return {place: claim.next_offset for place, claim in claims.items()}

    def revoked(self, partitions: list[Partition]) -> None:
        """Partitions go: everything was written."""
        for place in partitions:
            self._claims.pop(place, None)

    def lost(self, partitions: list[Partition]) -> None:
        """Partitions have gone: others have claimed them, or will."""
        self.revoked(partitions)

    def _claim_again(self, reader: GroupReader) -> None:
        held = sorted(reader.owned)
        self._claims = self._claim(held)
        reader.rewind({place: claim.next_offset for place, claim in self._claims.items()})

    def _claim(self, partitions: list[Partition]) -> dict[Partition, Claim]:
        """Claim partitions; waits for a store that is away."""
        assert self._cluster is not None
        if not partitions:
            return {}
        failing_since: float | None = None
        while True:
            try:
                ids, first, last = self._ask_cluster(self._cluster, partitions)
                begin = first if self._start == "beginning" else last
                wanted = {place: _maker(begin[place], ids[place[0]]) for place in partitions}
                claims: dict[Partition, Claim] = self._call(self._store.claim, self._group, wanted)
                break
            except Exception as error:
                away = isinstance(error, KitError) and not isinstance(error, BadCall)
                if not away and not self._store.may_pass(error):
                    raise
                failing_since = self._note_failure(error, failing_since)
        for place, claim in claims.items():
            self._check(place, claim, ids[place[0]], first[place], last[place])
        log.info("%s: claimed %s", self._group, names(partitions))
        return claims

    @staticmethod
    def _ask_cluster(
        cluster: Topics, partitions: list[Partition]
    ) -> tuple[dict[str, str], dict[Partition, int], dict[Partition, int]]:
        """Topic ids, log start offsets and ends; raises KitError while no broker answers."""
        ids = {topic: cluster.describe(topic)[0] for topic in sorted({topic for topic, _ in partitions})}
        return ids, cluster.first_offsets(partitions), cluster.end_offsets(partitions)

    def _check(self, place: Partition, claim: Claim, topic_id: str, first: int, last: int) -> None:
        offset = claim.next_offset
        if claim.topic_id and topic_id and claim.topic_id != topic_id:
            wrong = f"was deleted and made anew since the store's offset {offset}"
        elif offset < first:
            wrong = f"begins at {first}: records from {offset} on were removed before they were read"
        elif offset > last:
            wrong = f"ends at {last}, before the store's offset {offset}: it lost records"
        else:
            return
        raise KitError(
            f"{place[0]}[{place[1]}] {wrong}. Decide what the data lacks, then set next_offset (and "
            f"topic_id) of group {self._group} in the store, or delete the row to start anew"
        )


def _maker(offset: int, topic_id: str) -> Callable[[], Claim]:
    return lambda: Claim(offset, FIRST_CLAIM, topic_id)
