"""Reads a compacted topic into a dictionary, and goes on reading: the thread behind a table.

A start takes the snapshot if the topic is still the one it was taken of, and reads what came after; else it
reads the topic from its beginning. A snapshot is not used, with a word why, if

    it is damaged                 it is renamed to .damaged
    the topic's id is another     it was deleted and made anew
    delete.retention.ms is over   deletions may have been compacted away since: keys would come back
    a partition begins behind it  records after it were removed
    a partition ends before it    the topic lost records
    the log was truncated         the client finds it by the leader epoch (KIP-320)

The same happens to a running table whose topic is made anew or loses what it has not read, or that was cut
off for as long as deletions are kept: it is built again aside while the old content can be read, and then
exchanged.

Invariant: the content is what reading the topic from its beginning up to the positions would give. Not here:
writing (table.py).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from moldau.common.core.unreadable import UNREADABLE
from moldau.kit.client_config import client_log, log, sentence, unreadable
from moldau.kit.errors import KitError
from moldau.kit.table.snapshot import DamagedSnapshot, Position, Snapshot, read_snapshot, write_snapshot
from moldau.kit.topics import Topics

Told = Callable[[list[tuple[bytes, bytes | None, bytes | None]]], None]
"""Changes: key, old and new content (None: absent)."""

_WAIT_SECONDS = 0.1
_RECORDS_A_TURN = 10_000
_CHECK_SECONDS = 30.0
_CHECK_TIMEOUT_SECONDS = 5.0
_PAUSE_SECONDS = 1.0
_CLOCK_MARGIN_MS = 60_000
_AWAY_SECONDS_MIN = 120.0  # the ends are asked for every 30 s only
_START_AGAIN = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError._LOG_TRUNCATION,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
    }
)
_HOPELESS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    }
)


class Follower:
    """One thread; `data` may be read by any. `told` is called in the thread with changes of a whole table."""

    def __init__(
        self,
        topic: str,
        config: Mapping[str, Any],
        snapshot: Path | None,
        snapshot_seconds: float,
        damaged: Literal["rebuild", "refuse"],
        told: Told,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.data: dict[bytes, bytes] = {}
        self.started_from = ""
        self.skipped_count = 0
        self.rebuilt_count = 0
        self.failure: BaseException | None = None
        self.whole = False  # everything is there that was there at the start
        self.changed = threading.Condition()
        self.watched = False
        self._topic = topic
        self._path = snapshot
        self._snapshot_seconds = snapshot_seconds
        self._damaged = damaged
        self._told = told
        self._wall_clock = wall_clock
        self._topics = Topics(config)
        self._quick_topics = Topics(config, _CHECK_TIMEOUT_SECONDS)
        self._config = {
            **config, "group.id": "moldau-table", "enable.auto.commit": False, "auto.offset.reset": "error",
            "enable.partition.eof": True, "error_cb": self._note_error,
        }  # fmt: skip
        self._consumer: Consumer | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"table {topic}", daemon=True)
        self._loading: dict[bytes, bytes] | None = None  # built aside; exchanged when it is whole
        self._positions: dict[int, Position] = {}
        self._targets: dict[int, int] = {}
        self._topic_id = ""
        self._asked_at = 0.0
        self._as_of = 0.0
        self._asked_ends: tuple[float, dict[int, int]] | None = None  # as of their time once they are reached
        self._delete_retention_seconds = 86_400.0
        self._unsaved = False
        self._again = ""  # why the table is to be built anew

    # --- the outside ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Write a last snapshot and end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def position(self, partition: int) -> int:
        """The next offset to be read."""
        found = self._positions.get(partition)
        return found.next_offset if found is not None and self._loading is None and self.whole else 0

    @property
    def topic_id(self) -> str:
        """The id of the topic that is followed."""
        return self._topic_id

    def wait(self, condition: Callable[[], bool], timeout_seconds: float | None) -> bool:
        """Wait until the condition holds; raises what has ended the thread."""

        def done() -> bool:
            return self.failure is not None or condition()

        with self.changed:
            self.changed.wait_for(done, timeout_seconds)
        if self.failure is not None:
            raise self.failure
        return condition()

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._consumer = Consumer(self._config, logger=client_log)
            self._begin(self._usable_snapshot())
            last_snapshot = last_check = time.monotonic()
            while not self._stopping.is_set():
                self._turn(self._consumer)
                now = time.monotonic()
                if now - last_check > min(_CHECK_SECONDS, self._snapshot_seconds):
                    self._check_topic(self._consumer)
                    last_check = now
                if self._again:
                    self._begin_again()
                if now - last_snapshot > self._snapshot_seconds:
                    self.save()
                    last_snapshot = time.monotonic()
            self.save()
        except BaseException as error:
            if isinstance(error, KafkaException):
                error = KitError(f"the table of {self._topic} cannot be read: {sentence(error)}")
            self.failure = error
            log.error("%s", error)
        finally:
            with contextlib.suppress(Exception):
                if self._consumer is not None:
                    self._consumer.close()
            with self.changed:
                self.changed.notify_all()

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in _HOPELESS:
            self.failure = KitError(f"the table of {self._topic} cannot be read: {sentence(error)}")
            self._stopping.set()

    def _begin(self, snapshot: Snapshot | None) -> None:
        """Read from a snapshot on, or everything."""
        assert self._consumer is not None
        self._asked_at = self._wall_clock()
        self._topic_id, count = self._topics.describe(self._topic)
        ends = self._topics.end_offsets([(self._topic, number) for number in range(count)])
        if self._again:
            log.warning("the table of %s is built anew: %s", self._topic, self._again)
            self._again = ""
            self.rebuilt_count += 1
        self._targets = {number: offset for (_, number), offset in ends.items()}
        self._positions = dict(snapshot.positions) if snapshot is not None else {}
        self._loading = snapshot.data if snapshot is not None else {}
        assigned = []
        for number in range(count):
            found = self._positions.setdefault(number, Position(0, -1))
            if snapshot is not None and number in snapshot.positions:
                place = TopicPartition(self._topic, number, found.next_offset)
                if found.leader_epoch >= 0:
                    place = TopicPartition(
                        self._topic, number, found.next_offset, leader_epoch=found.leader_epoch
                    )
                assigned.append(place)
            else:
                assigned.append(TopicPartition(self._topic, number, OFFSET_BEGINNING))
        self._consumer.assign(assigned)
        for number, end in list(self._targets.items()):
            if self._positions[number].next_offset >= end:
                self._targets.pop(number)
        self._exchange_if_whole()

    def _begin_again(self) -> None:
        try:
            self._begin(None)
        except KitError as error:  # the old content stays until the brokers answer
            log.warning("%s: %s; still trying", self._again, error)
            self._stopping.wait(_PAUSE_SECONDS)

    def _turn(self, consumer: Consumer) -> None:
        first = consumer.poll(_WAIT_SECONDS)
        if first is None:
            return
        records = [first, *consumer.consume(_RECORDS_A_TURN, 0.0)]
        reached: dict[int, int] = {}
        if any(map(Message.error, records)):
            records = self._without_errors(records, reached)
            if self._again:
                return
        if records:
            self._apply(records)
        for number, offset in reached.items():
            if (before := self._positions[number]).next_offset < offset:
                self._positions[number] = before._replace(next_offset=offset)
        if self._targets:
            self._targets = {
                number: end
                for number, end in self._targets.items()
                if self._positions[number].next_offset < end
            }
        self._exchange_if_whole()
        with self.changed:
            self.changed.notify_all()

    def _without_errors(self, records: list[Message], reached: dict[int, int]) -> list[Message]:
        """The records; `reached` gets the ends of partitions that were reached."""
        good = []
        for record in records:
            error = record.error()
            if error is None:
                good.append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                # Behind the last record there may be marks of transactions: the end is reached all the same.
                number, offset = record.partition() or 0, record.offset() or 0
                reached[number] = max(offset, reached.get(number, 0))
                if self._targets.get(number, offset + 1) <= offset:
                    self._targets.pop(number)
            elif error.code() in _START_AGAIN:
                self._again = f"{self._topic}[{record.partition()}]: {sentence(error)}"
            elif error.name() in UNREADABLE:
                raise KitError(f"the table of {self._topic} cannot be read: {unreadable(record, error)}")
            elif error.code() in _HOPELESS or error.fatal():
                raise KitError(f"the table of {self._topic} cannot be read: {sentence(error)}")
            else:
                log.warning("%s: %s; still trying", self._topic, sentence(error))
        return good

    def _apply(self, records: list[Message]) -> None:
        keys: list[Any] = list(map(Message.key, records))
        values: list[Any] = list(map(Message.value, records))
        data = self.data if self._loading is None else self._loading
        watched = self.watched and self._loading is None
        if watched or None in keys or None in values:
            self._apply_each(data, keys, values, watched)
        else:
            data.update(zip(keys, values, strict=True))
        last: Any = dict(zip(map(Message.partition, records), records, strict=True))
        for number, record in last.items():
            epoch = record.leader_epoch()
            self._positions[number] = Position(record.offset() + 1, -1 if epoch is None else epoch)
        self._unsaved = True

    def _apply_each(
        self, data: dict[bytes, bytes], keys: list[Any], values: list[Any], watched: bool
    ) -> None:
        changes: list[tuple[bytes, bytes | None, bytes | None]] = []
        for key, value in zip(keys, values, strict=True):
            if key is None:
                self.skipped_count += 1
                if self.skipped_count == 1:
                    log.warning("%s has records without a key: they belong to no table", self._topic)
                continue
            old = data.get(key)
            if value is None:
                data.pop(key, None)
            else:
                data[key] = value
            if watched and old != value:
                changes.append((key, old, value))
        if changes:
            self._told(changes)

    def _exchange_if_whole(self) -> None:
        if self._loading is None or self._targets:
            return
        old, self.data, self._loading = self.data, self._loading, None
        self._as_of, self._asked_ends = self._asked_at, None
        self.whole = True
        if self.watched:
            keys = dict.fromkeys([*old, *self.data])
            changes = [(key, old.get(key), self.data.get(key)) for key in keys]
            self._told([change for change in changes if change[1] != change[2]])
        with self.changed:
            self.changed.notify_all()

    # --- the topic is still the same --------------------------------------------------------------

    def _check_topic(self, consumer: Consumer) -> None:
        """See that the topic is the same, and how far the table reaches; nothing while no broker answers."""
        asked_at = self._wall_clock()
        try:
            topic_id, count = self._quick_topics.describe(self._topic)
            ends = self._quick_topics.end_offsets([(self._topic, number) for number in range(count)])
        except KitError as error:
            log.info("%s", error)
            return
        if topic_id != self._topic_id:
            self._again = "the topic was deleted and made anew"
            return
        new = [number for number in range(count) if number not in self._positions]
        if new:
            self._positions.update({number: Position(0, -1) for number in new})
            consumer.incremental_assign(
                [TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in new]
            )
        if self._loading is not None:
            return
        self._note_progress()
        away_seconds = asked_at - self._as_of
        if away_seconds > max(self._delete_retention_seconds - _CLOCK_MARGIN_MS / 1000, _AWAY_SECONDS_MIN):
            self._again = (
                f"it has not been up to date for {away_seconds:.0f} s, and deletions are kept for "
                f"delete.retention.ms = {self._delete_retention_seconds * 1000:.0f} only"
            )
            return
        if self._asked_ends is None:  # of a busy topic they are reached a little later
            self._asked_ends = asked_at, {number: end for (_, number), end in ends.items()}
            self._note_progress()

    def _note_progress(self) -> None:
        """Everything is there that was there when the ends were asked for, once these are reached."""
        if self._asked_ends is None:
            return
        asked_at, ends = self._asked_ends
        if all(self._positions[number].next_offset >= end for number, end in ends.items()):
            self._as_of, self._asked_ends = asked_at, None

    # --- snapshots --------------------------------------------------------------------------------

    def _usable_snapshot(self) -> Snapshot | None:
        policy = self._topics.settings(self._topic)
        self._delete_retention_seconds = int(policy.get("delete.retention.ms", "86400000")) / 1000
        if "compact" not in policy.get("cleanup.policy", ""):
            raise KitError(
                f"{self._topic} has cleanup.policy={policy.get('cleanup.policy')}: keys that nobody writes "
                "again would vanish from the table. Set cleanup.policy=compact"
            )
        if self._path is None:
            self.started_from = "the topic: no snapshot was asked for"
            return None
        try:
            self._path.with_name(self._path.name + ".new").unlink(missing_ok=True)  # a crash left it
            found = read_snapshot(self._path)
        except DamagedSnapshot as error:
            if self._damaged == "refuse":
                raise
            self._path.replace(self._path.with_name(self._path.name + ".damaged"))
            self.started_from = f"the topic: {error} (kept as {self._path.name}.damaged)"
            log.warning("the table of %s is read from %s", self._topic, self.started_from)
            return None
        except OSError as error:
            raise KitError(f"the snapshot {self._path} cannot be read: {error.strerror}") from error
        if found is None:
            self.started_from = f"the topic: there is no snapshot {self._path}"
            return None
        if reason := self._why_not(found, int(self._delete_retention_seconds * 1000)):
            self.started_from = f"the topic: {reason}"
            log.warning("the table of %s is read from %s", self._topic, self.started_from)
            return None
        self.started_from = f"the snapshot {self._path} with {len(found.data)} keys"
        return found

    def _why_not(self, found: Snapshot, delete_retention_ms: int) -> str:
        if found.topic != self._topic:
            raise KitError(
                f"{self._path} is a snapshot of {found.topic}, not of {self._topic}: name another file"
            )
        topic_id, count = self._topics.describe(self._topic)
        if topic_id != found.topic_id:
            return f"{self._topic} was deleted and made anew after the snapshot"
        age_ms = int(self._wall_clock() * 1000) - found.as_of_ms
        if age_ms + _CLOCK_MARGIN_MS > delete_retention_ms:
            return (
                f"the snapshot is {age_ms // 1000} s old, and deletions are kept for delete.retention.ms = "
                f"{delete_retention_ms} only"
            )
        if age_ms < -_CLOCK_MARGIN_MS:
            return f"the snapshot was taken {-age_ms // 1000} s in the future: the clock was changed"
        if len(found.positions) > count:
            return f"{self._topic} has {count} partitions, the snapshot {len(found.positions)}"
        places = [(self._topic, number) for number in found.positions]
        first, last = self._topics.first_offsets(places), self._topics.end_offsets(places)
        for number, position in found.positions.items():
            place, where = (self._topic, number), f"{self._topic}[{number}]"
            if position.next_offset < first[place] and first[place] > 0:
                return f"{where} begins at {first[place]}, the snapshot ends at {position.next_offset}"
            if position.next_offset > last[place]:
                return (
                    f"{self._topic}[{number}] ends at {last[place]}, the snapshot at {position.next_offset}"
                )
        return ""

    def save(self) -> None:
        """Write a snapshot if something has changed. What goes wrong is a warning: the old one stays."""
        if self._path is None or not self._unsaved or self._loading is not None or self._again:
            return
        if self._consumer is not None:
            self._check_topic(self._consumer)
        if self._again:
            return
        snapshot = Snapshot(
            self._topic, self._topic_id, int(self._as_of * 1000), dict(self._positions), self.data
        )
        try:
            write_snapshot(self._path, snapshot)
            self._unsaved = False
        except OSError as error:
            log.warning(
                "no snapshot of %s was written to %s: %s; the one before stays", self._topic, self._path,
                error.strerror,
            )  # fmt: skip
