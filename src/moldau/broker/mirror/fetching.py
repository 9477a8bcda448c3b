"""Fetches from one broker of the source: one request at a time, for all partitions that it leads and that are
fetched, as a consumer that reads uncommitted records.

    due partitions ──> Fetch (by topic id where all ids are known) ──> rows ──> machine ──> append, in slices

The answer is appended a slice at a time, so that other requests of this broker go on. The next request leaves
when all of it is.
"""

import asyncio
from typing import TYPE_CHECKING

from moldau.broker.mirror.outputs import Append
from moldau.broker.mirror.parts import MirrorParts
from moldau.broker.mirror.pulled import Pulled
from moldau.broker.mirror.source import FETCH, SourceCluster, SourcePartition
from moldau.broker.peers.peers import PeerError
from moldau.common.protocol.errors import error_name
from moldau.common.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from moldau.broker.mirror.puller import LinkPuller

_BY_NAME_MAX = 12
_VERSION_MIN = 4
_READ_UNCOMMITTED = 0
_NO_SESSION, _FULL_FETCH = 0, -1
_SPARE_MS = 10_000
_PARTITIONS_MAX = 500
_SHORT_WAIT_MS = 20
_EMPTY_PAUSE_MS = 20.0


class SourceFetch:
    """The fetch loop at one broker of the source."""

    def __init__(self, leader: int, parts: MirrorParts, source: SourceCluster, puller: "LinkPuller") -> None:
        self.leader = leader
        self._parts = parts
        self._source = source
        self._puller = puller
        self._news = asyncio.Event()
        self._closed = False
        self._turn = 0

    def tell(self) -> None:
        """A partition may be due."""
        self._news.set()

    def close(self) -> None:
        """Fetch nothing more."""
        self._closed = True
        self._news.set()

    async def run(self) -> None:
        """Fetch until closed."""
        while not self._closed:
            self._news.clear()
            due = self._due()
            if not due:
                await self._news.wait()
                continue
            began_ms, bytes_before = self._puller.now_ms(), self._puller.bytes_pulled
            try:
                await self._fetch(due)
            except Exception:
                self._puller.failed_by_bug(due)
            # A source that does not wait until it has something is not asked as fast as it answers.
            took_ms = self._puller.now_ms() - began_ms
            if self._puller.bytes_pulled == bytes_before and took_ms < _EMPTY_PAUSE_MS:
                await self._parts.pause(_EMPTY_PAUSE_MS - took_ms)

    def _due(self) -> list[Pulled]:
        """Partitions for the next request, each time beginning with another one: an answer has a limit, which
        the first ones may use up. Of two topics here that mirror the same one, only one is asked for at a
        time, since an answer tells its source alone.
        """
        led = [each for each in self._puller.all() if each.machine.leader == self.leader]
        due = [each for each in led if each.may_fetch]
        start = self._turn % max(1, len(due))
        found: dict[tuple[str, int], Pulled] = {}
        for taken, each in enumerate([*due[start:], *due[:start]], 1):
            found.setdefault((each.source, each.partition.index), each)
            if len(found) == _PARTITIONS_MAX:
                self._turn = start + taken
                break
        else:
            self._turn = start + 1
        return list(found.values())

    async def _fetch(self, due: list[Pulled]) -> None:
        parts, now_ms = self._parts, self._puller.now_ms()
        by_id = all(any(each.source_id) for each in due)
        wait_ms = parts.fetch_wait_ms() if len(due) < _PARTITIONS_MAX else _SHORT_WAIT_MS
        for each in due:
            each.machine.asked(each.partition.log.log_end_offset, now_ms)
        asked = [(each, each.leader) for each in due]
        try:
            answer: FetchResponse = await self._source.send(
                self.leader,
                self._request(due, wait_ms),
                purpose=FETCH,
                timeout_ms=wait_ms + _SPARE_MS,
                version_min=_VERSION_MIN,
                version_max=None if by_id else _BY_NAME_MAX,
            )
        except PeerError as error:
            self._failed(due, str(error))
            return
        if answer.error_code:
            self._failed(due, f"the source answered {error_name(answer.error_code)}")
            return
        await self._take(asked, answer)

    def _request(self, due: list[Pulled], wait_ms: int) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        bytes_max = self._parts.partition_bytes_max()
        for each in due:
            topic = topics.get(each.source)
            if topic is None:
                topic = topics[each.source] = FetchTopic(
                    topic=each.source, topic_id=each.source_id, partitions=[]
                )
            topic.partitions.append(
                FetchPartition(
                    partition=each.partition.index,
                    current_leader_epoch=each.machine.source_epoch,
                    fetch_offset=each.partition.log.log_end_offset,
                    partition_max_bytes=bytes_max,
                )
            )
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._parts.fetch_bytes_max(),
            isolation_level=_READ_UNCOMMITTED,
            session_id=_NO_SESSION,
            session_epoch=_FULL_FETCH,
            topics=list(topics.values()),
        )

    def _failed(self, due: list[Pulled], problem: str) -> None:
        for each in due:
            outputs = each.machine.leader_lost(problem, self._puller.now_ms())
            self._puller.carry_out(each, outputs)

    async def _take(self, due: list[tuple[Pulled, SourcePartition]], answer: FetchResponse) -> None:
        """Append the answer to partitions that are led at the source as they were when it was asked for: what
        a leader says that was deposed meanwhile may be lost there.
        """
        asked = {(each.source, each.partition.index): (each, leader) for each, leader in due}
        names = {each.source_id: each.source for each, _ in due}
        slices = self._parts.lane.slices()
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for row in topic.partitions:
                each, leader = asked.get((name, row.partition_index), (None, None))
                if each is None or each.leader != leader:
                    continue
                left = self._take_row(each, row)
                while left is not None:
                    if slices.spent():
                        end_offset = each.partition.log.log_end_offset
                        await slices.next_slice()
                        if each.leader != leader or each.partition.log.log_end_offset != end_offset:
                            break
                    left = self._puller.append(each, left, row.log_start_offset)
                if slices.spent():
                    await slices.next_slice()

    def _take_row(self, pulled: Pulled, row: PartitionData) -> memoryview | None:
        """Append the row's first batches; what is left of them."""
        if not pulled.is_led:
            return None
        records = memoryview(row.records or b"")
        outputs = pulled.machine.fetched(
            row.error_code,
            row.high_watermark,
            row.log_start_offset,
            records,
            pulled.ends(),
            self._puller.now_ms(),
        )
        left = None
        for output in outputs:
            if isinstance(output, Append):
                left = self._puller.append(pulled, output.records, output.source_start_offset)
            else:
                self._puller.carry_out(pulled, [output])
        return left
