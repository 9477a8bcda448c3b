"""A dictionary that lives in a compacted topic: every process that opens it sees the same content.

    with Table("prices", bootstrap_servers="HOST:9092", snapshot="/var/lib/app/prices.snapshot") as prices:
        prices["EURUSD"] = 1.09
        prices.flush()                 # on the brokers, and in this dictionary
        prices.wait_for("USDJPY", 10)  # until somebody has written it

Reading is a look into memory. Writing sends a record; it is visible here, as to everybody else, when it has
come back through the topic, so that all see the same order. `flush` waits for that. Content is kept as bytes
and decoded on access.

Two writers of one key: the last record wins. All writers must choose partitions alike; this one does as
Java's clients do (murmur2 of the key). Not here: reading the topic, snapshots (follower.py, snapshot.py).
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, ItemsView, Iterator, MutableMapping, ValuesView
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from moldau.kit.client_config import Config, client_config, client_log, log, positive, sentence
from moldau.kit.errors import BadCall, KitError, TimedOut
from moldau.kit.table.codecs import JSON, TEXT, Codec
from moldau.kit.table.follower import Follower
from moldau.kit.topics import Topics

_OWNED = {
    "enable.auto.commit": "a table commits nothing",
    "auto.offset.reset": "a table is read from its beginning",
    "group.id": "a table has no group",
    "enable.partition.eof": "the table needs it",
}
_CREATE_SECONDS = 30.0


class Change(NamedTuple):
    """A key's content before and after; None: it was or is not there."""

    key: Any
    old: Any
    new: Any


class _Items(ItemsView[Any, Any]):
    """Looks up nothing while it goes on: the key may have been deleted by then."""

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping._pairs()  # type: ignore[attr-defined, no-any-return]


class _Values(ValuesView[Any]):
    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping._pairs())  # type: ignore[attr-defined]


class Table(MutableMapping[Any, Any]):
    """The content of a compacted topic. `start` (or `with`) reads it; any thread may use it.

    `keys`, `values`: codecs; by default text and JSON. `snapshot`: a file, so that a restart reads only what
    is new; written every `snapshot_seconds` and at the end. `damaged`: what to do with a snapshot that cannot
    be read: "rebuild" from the topic, or "refuse" to start. `create_partitions`: make the topic if it is not
    there.
    """

    def __init__(
        self,
        topic: str,
        *,
        bootstrap_servers: str | None = None,
        config: Config | None = None,
        keys: Codec = TEXT,
        values: Codec = JSON,
        snapshot: str | Path | None = None,
        snapshot_seconds: float = 300.0,
        damaged: Literal["rebuild", "refuse"] = "rebuild",
        create_partitions: int = 0,
        timeout_seconds: float = 60.0,
    ) -> None:
        if not isinstance(topic, str) or not topic:
            raise BadCall(f"topic={topic!r}: a table needs the name of its topic")
        if damaged not in ("rebuild", "refuse"):
            raise BadCall(f"damaged={damaged!r} is neither 'rebuild' nor 'refuse'")
        self.topic = topic
        self._keys = keys
        self._values = values
        self._timeout_seconds = positive(timeout_seconds, "timeout_seconds")
        self._create_partitions = create_partitions
        path = Path(snapshot) if snapshot is not None else None
        if path is not None and not path.parent.is_dir():
            raise BadCall(f"snapshot={str(snapshot)!r}: there is no folder {path.parent}")
        self._config = client_config(bootstrap_servers, config, _OWNED)
        self._follower = Follower(
            topic, self._config, path, positive(snapshot_seconds, "snapshot_seconds"), damaged, self._tell
        )
        self._producer: Producer | None = None
        self._lock = threading.Lock()
        self._written: dict[int, int] = {}  # partition -> offset of the last write of our own
        self._written_to = ""  # the topic's id then
        self._is_lost = False  # there were such writes to a topic that is gone
        self._refused: list[KafkaError] = []
        self._watchers: list[Callable[[Change], object]] = []

    # --- life -------------------------------------------------------------------------------------

    def start(self, timeout_seconds: float | None = None) -> Table:
        """Read the content; returns when all is there that was there now. Raises KitError, TimedOut."""
        if self._producer is not None:
            raise BadCall(f"the table of {self.topic} has been started already: make a new one")
        if self._create_partitions:
            self._create()
        self._producer = Producer(
            {"linger.ms": 5, **self._config, "enable.idempotence": True, "partitioner": "murmur2_random"},
            logger=client_log,
        )
        self._follower.start()
        if not self._follower.wait(lambda: self._follower.whole, timeout_seconds):
            self._follower.stop()
            raise TimedOut(f"the table of {self.topic} was not read within {timeout_seconds:.0f} s")
        return self

    def _create(self) -> None:
        topics = Topics(self._config, min(self._timeout_seconds, _CREATE_SECONDS))
        topics.create(self.topic, self._create_partitions, {"cleanup.policy": "compact"})

    def close(self) -> None:
        """Send what was written, take a snapshot, end. Raises KitError for writes that were not taken."""
        try:
            if self._producer is not None:
                self._send_all(self._timeout_seconds)
        finally:
            self._follower.stop()

    def __enter__(self) -> Table:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def started_from(self) -> str:
        """Where the content came from, in words: the snapshot, or the topic and why."""
        return self._follower.started_from

    @property
    def rebuilt_count(self) -> int:
        """How often the running table was built anew, because its topic had been."""
        return self._follower.rebuilt_count

    # --- reading ----------------------------------------------------------------------------------

    def _content(self) -> dict[bytes, bytes]:
        if self._follower.failure is not None:
            raise self._follower.failure
        if not self._follower.whole:
            raise BadCall(f"the table of {self.topic} is not open: start() it, or use it in a with block")
        return self._follower.data

    def _key(self, key: Any) -> bytes:
        try:
            return self._keys.encode(key)
        except (TypeError, ValueError) as error:
            raise BadCall(f"key of {self.topic}: {error} (keys are {self._keys.name})") from error

    def _decode(self, codec: Codec, content: bytes | None, key: object) -> Any:
        if content is None:
            return None
        try:
            return codec.decode(content)
        except (TypeError, ValueError) as error:
            raise KitError(f"{self.topic}, {key!r}: {content[:40]!r} is not {codec.name}: {error}") from error

    def __getitem__(self, key: Any) -> Any:
        content = self._content().get(self._key(key))
        if content is None:
            raise KeyError(key)
        return self._decode(self._values, content, key)

    def __contains__(self, key: object) -> bool:
        return self._key(key) in self._content()

    def __len__(self) -> int:
        return len(self._content())

    def __iter__(self) -> Iterator[Any]:
        """The keys as they are now."""
        return (self._decode(self._keys, key, key) for key in list(self._content()))

    def items(self) -> ItemsView[Any, Any]:
        """Keys and values as they are when the iteration begins."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """The values as they are when the iteration begins."""
        return _Values(self)

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        for key, content in list(self._content().items()):
            name = self._decode(self._keys, key, key)
            yield name, self._decode(self._values, content, name)

    def wait_for(
        self,
        key: Any,
        timeout_seconds: float | None = None,
        condition: Callable[[Any], bool] = lambda value: True,
    ) -> Any:
        """The key's value, once it is there and the condition holds for it. Raises TimedOut."""
        wanted = self._key(key)
        found: list[Any] = []

        def there() -> bool:
            content = self._content().get(wanted)
            if content is None:
                return False
            value = self._decode(self._values, content, key)
            found[:] = [value]
            return condition(value)

        if not self._follower.wait(there, timeout_seconds):
            raise TimedOut(f"{key!r} was not in the table of {self.topic} within {timeout_seconds} s")
        return found[0]

    def watch(self, callback: Callable[[Change], object]) -> Callable[[], None]:
        """Call back for every change from now on, in the table's thread; returns a function that ends it."""
        self._watchers.append(callback)
        self._follower.watched = True

        def end() -> None:
            if callback in self._watchers:
                self._watchers.remove(callback)
            self._follower.watched = bool(self._watchers)

        return end

    def _tell(self, changes: list[tuple[bytes, bytes | None, bytes | None]]) -> None:
        for key, old, new in changes:
            try:
                name = self._decode(self._keys, key, key)
                change = Change(
                    name, self._decode(self._values, old, name), self._decode(self._values, new, name)
                )
            except KitError as error:
                log.error("watchers are not told of %r: %s", key, error)
                continue
            for callback in list(self._watchers):
                try:
                    callback(change)
                except Exception:  # a watcher's fault must not end the table, nor be the others'
                    log.exception("a watcher of %s failed at %r", self.topic, key)

    # --- writing ----------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> None:
        try:
            content = self._values.encode(value)
        except (TypeError, ValueError) as error:
            raise BadCall(f"{self.topic}, {key!r}: {error} (values are {self._values.name})") from error
        self._write(self._key(key), content)

    def __delitem__(self, key: Any) -> None:
        """Delete the key for everybody; no error if it is not there."""
        self._write(self._key(key), None)

    def clear(self) -> None:
        """Delete all keys that are there now."""
        for key in list(self._content()):
            self._write(key, None)

    def popitem(self) -> tuple[Any, Any]:
        """Not for a table: what one process pops, another may be popping."""
        raise BadCall("a table has no popitem: other processes may pop the same item")

    def _write(self, key: bytes, value: bytes | None) -> None:
        self._content()
        producer = self._producer
        assert producer is not None
        deadline = time.monotonic() + self._timeout_seconds
        delivered = functools.partial(self._delivered, self._follower.topic_id)
        while True:
            try:
                producer.produce(self.topic, value, key, on_delivery=delivered)
                producer.poll(0)
                return
            except BufferError:
                producer.poll(0.1)
                if time.monotonic() > deadline:
                    raise TimedOut(
                        f"{self.topic} takes no writes: the client's queue has been full for "
                        f"{self._timeout_seconds:.0f} s"
                    ) from None
            except KafkaException as error:
                raise KitError(f"{self.topic}, {key!r} was not written: {sentence(error)}") from error

    def _delivered(self, topic_id: str, error: KafkaError | None, record: Message) -> None:
        with self._lock:
            if error is not None:
                self._refused.append(error)
                return
            number, offset = record.partition() or 0, record.offset() or 0
            if topic_id != self._written_to:
                self._is_lost = self._is_lost or bool(self._written)
                self._written_to, self._written = topic_id, {}
            self._written[number] = max(offset, self._written.get(number, -1))

    def _send_all(self, timeout_seconds: float) -> None:
        assert self._producer is not None
        left = self._producer.flush(timeout_seconds)
        with self._lock:
            refused, self._refused = self._refused, []
        if refused:
            raise KitError(f"{len(refused)} writes to {self.topic} were not taken: {sentence(refused[0])}")
        if left:
            raise TimedOut(
                f"{left} writes to {self.topic} were not acknowledged within {timeout_seconds:.0f} s"
            )

    def flush(self, timeout_seconds: float | None = None) -> None:
        """Wait until all writes are on the brokers and in this table. Raises KitError, TimedOut."""
        limit = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        deadline = time.monotonic() + limit
        self._content()
        self._send_all(limit)
        with self._lock:
            written, topic_id, is_lost = dict(self._written), self._written_to, self._is_lost

        def is_gone() -> bool:
            return is_lost or (bool(written) and topic_id != self._follower.topic_id)

        def read() -> bool:
            positions = ((self._follower.position(number), offset) for number, offset in written.items())
            return is_gone() or all(position > offset for position, offset in positions)

        came_back = self._follower.wait(read, max(0.0, deadline - time.monotonic()))
        if is_gone():
            with self._lock:
                self._written, self._is_lost = {}, False
            raise KitError(
                f"{self.topic} was deleted and made anew: what was written since the last flush may be lost"
            )
        if not came_back:
            raise TimedOut(f"writes to {self.topic} did not come back within {limit:.0f} s")
        with self._lock:
            self._written = {
                number: offset for number, offset in self._written.items() if written.get(number) != offset
            }
