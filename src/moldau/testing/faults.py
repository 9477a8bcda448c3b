"""What goes wrong with a test's broker, when the test says so.

    broker.faults.refuse("Produce", "NOT_LEADER_OR_FOLLOWER", times=2, topic="orders")
                                              answered with the error
    broker.faults.lose_answer("Produce")      carried out, and the connection ends before the answer
    broker.faults.delay("Fetch", 2.0)         handled so much later
    with broker.faults.disk_full(): ...       every write fails with ENOSPC
    with broker.stall(): ...                  the broker stands still: no answer, no heartbeat

Faults of requests hold for a number of requests and are then over; `faults.left` says how many are still
to come. A broker in a thread has them all; one in a process of its own can stand still (and be killed).

Errors are those of the protocol, by Kafka's names. Not here: how an answer with an error looks
(error_answers.py), brokers that die (Broker.kill, Cluster).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moldau.broker.handlers.parts.registry import TABLE
from moldau.common.protocol.errors import ErrorCode
from moldau.testing.full_disk import FullDisk

REFUSE, LOSE, DELAY = "refuse", "lose the answer", "delay"


@dataclass(slots=True)
class Fault:
    """What happens to the next `left` requests of an API."""

    kind: str
    api_key: int
    left: int
    topic: str | None = None
    error_code: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Faults:
    """The faults of one broker; called from the test's thread, asked on the broker's."""

    disk: FullDisk = field(default_factory=FullDisk)
    _planned: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refuse(self, api: str, error: str | int, *, times: int = 1, topic: str | None = None) -> None:
        """Answer the next requests of an API with an error, in every row, without carrying them out.

        With `topic` only those that name it. A Produce request with acks=0 has no answer, and is not refused.
        ValueError: there is no such API or error.
        """
        code = error_code_of(error)
        self._plan(Fault(REFUSE, api_key_of(api), times, topic, code))

    def lose_answer(self, api: str, *, times: int = 1, topic: str | None = None) -> None:
        """Carry the next requests out, and end their connections before the answer: a client cannot know,
        and sends again. ValueError: there is no such API."""
        self._plan(Fault(LOSE, api_key_of(api), times, topic))

    def delay(self, api: str, seconds: float, *, times: int = 1, topic: str | None = None) -> None:
        """Handle the next requests so much later; what comes behind them on the connection waits.
        ValueError: there is no such API."""
        self._plan(Fault(DELAY, api_key_of(api), times, topic, seconds=seconds))

    @contextlib.contextmanager
    def disk_full(self) -> Iterator[None]:
        """Let every write fail with ENOSPC, and files say that nothing is free, until the block ends."""
        self.disk.full = True
        try:
            yield
        finally:
            self.disk.full = False

    @property
    def left(self) -> int:
        """How many requests are still to be hit."""
        return sum(each.left for each in self._planned)

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._planned.clear()
        self.disk.full = False

    def _plan(self, fault: Fault) -> None:
        if fault.left < 1:
            raise ValueError(f"times={fault.left}: a fault hits at least one request")
        with self._lock:
            self._planned.append(fault)

    # What the broker asks

    def concern(self, api_key: int) -> bool:
        """Whether a fault of this API is planned; cheap, and asked for every request."""
        return bool(self._planned) and any(each.api_key == api_key for each in self._planned)

    def take(self, api_key: int, topics: set[str]) -> Fault | None:
        """The fault that this request meets; it counts."""
        with self._lock:
            for fault in self._planned:
                if fault.api_key == api_key and (fault.topic is None or fault.topic in topics):
                    fault.left -= 1
                    if not fault.left:
                        self._planned.remove(fault)
                    return fault
        return None


def api_key_of(api: str) -> int:
    """By Kafka's name, as `Produce`. ValueError names some that there are."""
    for key, entry in TABLE.items():
        if entry.name.lower() == api.lower().removesuffix("request"):
            return key
    some = ", ".join(entry.name for _, entry in sorted(TABLE.items())[:6])
    raise ValueError(f"there is no API {api!r}: {some}, ...")


def error_code_of(error: str | int) -> int:
    """By Kafka's name, as `NOT_LEADER_OR_FOLLOWER`, or by number. ValueError."""
    if isinstance(error, int):
        if error not in {int(each) for each in ErrorCode}:
            raise ValueError(f"there is no error {error}")
        return int(error)
    try:
        return int(ErrorCode[error.upper()])
    except KeyError:
        raise ValueError(f"there is no error {error!r}, as NOT_LEADER_OR_FOLLOWER is one") from None


def topics_in(request: Any, broker: Any) -> set[str]:
    """The topics that a request names, by name or by id."""
    found: set[str] = set()
    rows = [row for name in request.FIELDS for row in _rows(getattr(request, name))]
    for row in rows:
        for name in ("name", "topic"):
            if isinstance(getattr(row, name, None), str):
                found.add(getattr(row, name))
        topic_id = getattr(row, "topic_id", None)
        if topic_id:
            topic = broker.metadata.image.topic_by_id(topic_id)
            if topic is not None:
                found.add(topic.name)
    return found


def _rows(value: Any) -> list[Any]:
    return [row for row in value if hasattr(row, "FIELDS")] if isinstance(value, list) else []
