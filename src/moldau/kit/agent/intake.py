"""Takes messages in, writes them to their lanes' spools, and answers when they are on the disk.

    submit ──> pending ──(everything pending, in one go)──> writing thread: append, sync each lane ──> answers

While a write runs, what arrives waits for the next one: the busier the agent, the more messages share a sync.
What is pending or being written is bounded by bytes: at the limit listeners stop reading (`on_full`,
`on_room`), and datagrams are discarded.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from moldau.common.core.files import OsFiles
from moldau.kit.agent.counters import Counters
from moldau.kit.agent.lane import SOURCES_MAX, Lane
from moldau.kit.agent.message import Message
from moldau.kit.agent.settings import AgentSettings
from moldau.kit.spool import SpoolError, SpoolFull

log = logging.getLogger("moldau.agent")

WRITE_BYTES_MAX = 8 << 20
"""How much goes into one append."""


class Outcome(NamedTuple):
    """The answer to a message: `reason` "" when it is on the disk, with its number in the topic's spool."""

    topic: str
    number: int = -1
    reason: str = ""
    text: str = ""


class Origin:
    """A connection, as the order of its numbered messages needs it.

    A client may have sent 7, 8 and 9 when 7 is refused for want of room. Then 8 and 9 are refused too, or 7,
    sent again, would look like a duplicate. It sends again on a new connection. Used by the writing thread.
    """

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def refuse(self, source: str) -> None:
        """A message of this source was refused."""
        if source and len(self._refused) < SOURCES_MAX:
            self._refused.add(source)

    def is_refused(self, source: str) -> bool:
        """Whether an earlier message of this source was refused."""
        return source in self._refused or len(self._refused) >= SOURCES_MAX


class Submission(NamedTuple):
    """A message on its way to the disk."""

    lane: Lane
    data: bytes
    source: str
    sequence: int
    answer: Callable[[Outcome], None]
    origin: Origin
    refusal: Outcome | None = None
    """A refusal that waits for its turn, as the messages before it are not written yet."""


class Intake:
    """The way in. All methods are called on the event loop, which also calls the answers."""

    def __init__(
        self,
        settings: AgentSettings,
        counters: Counters,
        wake_delivery: Callable[[], None],
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lanes: dict[str, Lane] = {}
        self.on_full: Callable[[], None] = lambda: None
        self.on_room: Callable[[], None] = lambda: None
        self.waiting_bytes = 0
        self._settings = settings
        self._counters = counters
        self._wake_delivery = wake_delivery
        self._now_seconds = now_seconds
        self._pending: list[Submission] = []
        self._writing: asyncio.Task[None] | None = None
        self._full = False
        self._closed = False
        self._writer = ThreadPoolExecutor(1, "moldau-agent-disk")

    @property
    def has_room(self) -> bool:
        """Whether more may be read from clients."""
        return not self._full and not self._closed

    def lane(self, topic: str) -> Lane | None:
        """The topic's lane, made if there is room for another topic."""
        lane = self.lanes.get(topic)
        if lane is None and len(self.lanes) < self._settings.topics_max:
            folder = self._settings.folder / "topics" / topic
            lane = self.lanes[topic] = Lane(topic, folder, self._settings.quota(topic))
        return lane

    def submit(self, message: Message, answer: Callable[[Outcome], None], origin: Origin) -> None:
        """Take a message; `answer` is called when it is on the disk, or at once when it is refused."""
        topic = message.topic
        data = message.encode()
        if self._closed:
            self._refuse(topic, "stopping", "the agent stops: send it again when it is back", answer)
        elif len(data) > self._settings.message_bytes_max:
            self._refuse(
                topic, "too_large", f"a message may have {self._settings.message_bytes_max} bytes", answer
            )
        elif (lane := self.lane(topic)) is None:
            self._refuse(
                topic,
                "too_many_topics",
                f"the agent serves {self._settings.topics_max} topics: raise --topics",
                answer,
            )
        elif not lane.may_take(len(data), self._now_seconds()):
            text = f"{topic} may send {lane.quota.bytes_per_second} bytes a second: send it again later"
            refusal = Outcome(topic, reason="quota", text=text)
            self._put(Submission(lane, b"", message.source, message.sequence, answer, origin, refusal))
        else:
            self._put(Submission(lane, data, message.source, message.sequence, answer, origin))

    def _put(self, submission: Submission) -> None:
        self._pending.append(submission)
        self.waiting_bytes += len(submission.data) + 200
        if self.waiting_bytes > self._settings.intake_bytes_max and not self._full:
            self._full = True
            self.on_full()
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def _refuse(self, topic: str, reason: str, text: str, answer: Callable[[Outcome], None]) -> None:
        self._counters.of(topic).refused[reason] += 1
        answer(Outcome(topic, reason=reason, text=text))

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                try:
                    outcomes = await loop.run_in_executor(self._writer, self._write_batch, batch)
                except Exception:  # an error of this program: no client may wait for ever
                    log.exception("messages could not be written")
                    lost = "an unexpected error, which is in the agent's log"
                    outcomes = [Outcome(each.lane.topic, reason="internal", text=lost) for each in batch]
                self._wake_delivery()
                for submission, outcome in zip(batch, outcomes, strict=True):
                    self.waiting_bytes -= len(submission.data) + 200
                    self._count(submission, outcome)
                    try:
                        submission.answer(outcome)
                    except Exception:  # one connection's fault: the others wait for their answers
                        log.exception("an answer could not be given")
                if self._full and self.waiting_bytes < self._settings.intake_bytes_max // 2:
                    self._full = False
                    self.on_room()
        finally:
            self._writing = None

    def _count(self, submission: Submission, outcome: Outcome) -> None:
        counters = self._counters.of(outcome.topic)
        if outcome.reason:
            counters.refused[outcome.reason] += 1
        elif outcome.number < 0:
            counters.duplicates += 1
        else:
            counters.accepted += 1
            counters.accepted_bytes += len(submission.data)

    # -- in the writing thread -----------------------------------------------------------------------

    def _write_batch(self, batch: list[Submission]) -> list[Outcome]:
        by_lane: dict[str, list[int]] = {}
        for index, submission in enumerate(batch):
            by_lane.setdefault(submission.lane.topic, []).append(index)
        outcomes: list[Outcome | None] = [None] * len(batch)
        for indexes in by_lane.values():
            lane = batch[indexes[0]].lane
            # Of one append all messages are refused together: a small spool gets them in small appends.
            size_bytes_max = min(WRITE_BYTES_MAX, lane.quota.spool_bytes // 8)
            start, size_bytes = 0, 0
            for end, index in enumerate(indexes, 1):
                size_bytes += len(batch[index].data)
                if size_bytes > size_bytes_max or end == len(indexes):
                    self._write_lane(lane, batch, indexes[start:end], outcomes)
                    start, size_bytes = end, 0
        return [outcome or Outcome("", reason="lost", text="not written") for outcome in outcomes]

    def _write_lane(
        self, lane: Lane, batch: list[Submission], indexes: list[int], outcomes: list[Outcome | None]
    ) -> None:
        """Write some of a lane's messages: what is no duplicate, in one append and one sync."""
        topic = lane.topic
        fresh: list[int] = []
        sequences: dict[str, int] = {}
        number = -1
        failure: tuple[str, str] | None = None
        try:
            spool = lane.open()
            for index in indexes:
                _, _, source, sequence, _, origin, refusal = batch[index]
                if refusal is not None:
                    origin.refuse(source)
                    outcomes[index] = refusal
                elif source and origin.is_refused(source):
                    outcomes[index] = Outcome(
                        topic,
                        reason="out_of_order",
                        text="an earlier one of this source was refused: connect again, send that first",
                    )
                elif lane.is_duplicate(source, sequence) or sequence <= sequences.get(source, sequence - 1):
                    outcomes[index] = Outcome(topic)
                else:
                    fresh.append(index)
                    if source:
                        sequences[source] = sequence
            if fresh:
                number = spool.append([batch[index].data for index in fresh])
                spool.sync()
                self._counters.syncs += 1
        except SpoolFull as problem:
            failure = "spool_full", str(problem)
        except SpoolError as problem:
            failure = "spool", str(problem)
        except OSError as problem:
            self._counters.disk_errors += 1
            reason = "disk_full" if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else "disk"
            failure = reason, f"the agent's disk: {problem.strerror}: make room, and send it again"
        if failure is None:
            lane.remember(sequences.items())
            for at, index in enumerate(fresh):
                outcomes[index] = Outcome(topic, number + at)
            return
        log.error("%s: %d messages refused: %s", topic, len(indexes), failure[1])
        for index in indexes:
            batch[index].origin.refuse(batch[index].source)
            outcomes[index] = Outcome(topic, reason=failure[0], text=failure[1])

    # -- start and end -------------------------------------------------------------------------------

    def open_lanes(self) -> None:
        """Open the lanes that are on the disk. Raises SpoolError, OSError. Blocks."""
        folder = self._settings.folder / "topics"
        OsFiles().make_directory(str(folder))
        for path in sorted(folder.iterdir()):
            lane = self.lanes[path.name] = Lane(path.name, path, self._settings.quota(path.name))
            lane.open()

    async def drain(self) -> None:
        """Take nothing more, and return when everything taken is answered."""
        self._closed = True
        while self._writing is not None:
            await asyncio.shield(self._writing)

    def close(self) -> None:
        """Close the lanes. Logs what a disk refuses."""
        self._writer.shutdown()
        for lane in self.lanes.values():
            try:
                lane.close()
            except OSError as problem:
                log.error("%s: the position was not saved: %s", lane.topic, problem)
