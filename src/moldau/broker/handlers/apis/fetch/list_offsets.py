"""ListOffsets, versions 1-11: offsets by timestamp, and the ends of a partition.

    v2  isolation level    v4  leader epochs    v5  OFFSET_NOT_AVAILABLE (KIP-207)    v6  flexible
    v7  max timestamp (-3, KIP-734)
    v8  earliest local (-4, KIP-405)    v9  last tiered (-5, KIP-1005)    v11 earliest not yet tiered (-6)

A time of 0 or more asks for the first record that is not older. Nothing is tiered here: the earliest local
offset is the earliest one, and there is no tiered one (-1).

The client must have Describe on each topic; the rows of another one are refused without a look at it.

A partition that a request names more than once gets one row, with INVALID_REQUEST, as in Kafka. A few rows
that ask for ends are answered at once; many rows in slices, a search by time too, and the batch that it ends
in, if it is large, is looked into beside the event loop (time_search.py).
"""

import logging

from moldau.broker.handlers.apis.fetch.time_search import Gone, run_search
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may
from moldau.broker.log.files.segment import CorruptSegment
from moldau.broker.log.log import Log, TimestampAndOffset
from moldau.broker.log.reading.timestamps import Search
from moldau.broker.replication.partition import Partition
from moldau.common.core.slow_lane import Slices
from moldau.common.core.waiting import Answer
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.common.protocol.operations import Operation, ResourceType
from moldau.common.records.unpack_budget import UnpackBudget

log = logging.getLogger("moldau.handlers")

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_NEVER = 1 << 15
_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version in which a negative timestamp means something; before, and for any other, the row is
answered UNSUPPORTED_VERSION."""
_READ_COMMITTED = 1
_LEADER_EPOCH_FROM = 4
_OFFSET_NOT_AVAILABLE_FROM = 5
_AT_ONCE_ROWS_MAX = 100


@handles(ListOffsetsRequest)
def list_offsets(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> Answer[ListOffsetsResponse]:
    if (
        len(request.topics) > _AT_ONCE_ROWS_MAX
        or sum(len(topic.partitions) for topic in request.topics) > _AT_ONCE_ROWS_MAX
        or any(_is_search(asked.timestamp) for topic in request.topics for asked in topic.partitions)
    ):
        return _answer_in_slices(broker, context, request)
    repeated = _Repeated()
    for topic in request.topics:
        for asked in topic.partitions:
            repeated.note(topic.name, asked.partition_index)
    answers = ListOffsetsResponse()
    lookup = _Lookup(broker, context, request)
    for topic in request.topics:
        answered = ListOffsetsTopicResponse(name=topic.name)
        for asked in topic.partitions:
            if not repeated.is_answered(topic.name, asked.partition_index):
                answer = repeated.answer(topic.name, asked.partition_index)
                answered.partitions.append(answer or lookup.end(topic.name, asked))
        if answered.partitions:
            answers.topics.append(answered)
    return answers


async def _answer_in_slices(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    slices = broker.slow_lane.slices()
    repeated = _Repeated()
    async for topic in slices.each(request.topics):
        async for asked in slices.each(topic.partitions):
            repeated.note(topic.name, asked.partition_index)
    answers = ListOffsetsResponse()
    lookup = _Lookup(broker, context, request)
    budget = UnpackBudget()
    async for topic in slices.each(request.topics):
        answered = ListOffsetsTopicResponse(name=topic.name)
        async for asked in slices.each(topic.partitions):
            if repeated.is_answered(topic.name, asked.partition_index):
                continue
            answer = repeated.answer(topic.name, asked.partition_index)
            if answer is None and _is_search(asked.timestamp):
                answer = await lookup.search(topic.name, asked, slices, budget)
            answered.partitions.append(answer or lookup.end(topic.name, asked))
        if answered.partitions:
            answers.topics.append(answered)
    return answers


def _is_search(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


class _Repeated:
    """Which partitions a request names more than once."""

    def __init__(self) -> None:
        self._seen: dict[str, set[int]] = {}
        self._repeated: dict[str, set[int]] = {}
        self._answered: set[tuple[str, int]] = set()

    def note(self, topic: str, index: int) -> None:
        seen = self._seen.setdefault(topic, set())
        if index in seen:
            self._repeated.setdefault(topic, set()).add(index)
        else:
            seen.add(index)

    def is_answered(self, topic: str, index: int) -> bool:
        return (topic, index) in self._answered

    def answer(self, topic: str, index: int) -> ListOffsetsPartitionResponse | None:
        """The one row of a repeated partition; None for any other."""
        if not self._repeated or index not in self._repeated.get(topic, ()):
            return None
        self._answered.add((topic, index))
        return ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)


class _Lookup:
    """Answers single rows of one request."""

    def __init__(self, broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> None:
        self._broker = broker
        self._session = context.session
        self._version = context.api_version
        self._stable_only = request.isolation_level == _READ_COMMITTED
        self._replica_id = request.replica_id

    def end(self, topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        """A row that asks for an end of the log."""
        partition, answer = self._begin(topic, asked)
        if partition is not None:
            self._fill(answer, _end(partition, asked.timestamp, self._end_offset(partition)))
        return answer

    async def search(
        self, topic: str, asked: ListOffsetsPartition, slices: Slices, budget: UnpackBudget
    ) -> ListOffsetsPartitionResponse:
        """A row that asks for a time."""
        broker = self._broker
        partition, answer = self._begin(topic, asked)
        if partition is None:
            return answer
        end_offset = self._end_offset(partition)

        def still_answers() -> bool:
            now = broker.replicas.partition(topic, asked.partition_index)
            answer.error_code = refusal(broker, topic, asked.partition_index, asked.current_leader_epoch)
            if now is not partition and not answer.error_code:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # deleted, and made again
            return not answer.error_code

        try:
            found = await run_search(
                lambda: _search(partition.log, asked.timestamp, end_offset),
                still_answers,
                slices,
                broker.side_worker,
                budget,
            )
        except Gone:
            return answer
        except OSError as error:
            broker.replicas.storage_failed(partition, error)
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        except CorruptSegment as error:
            log.error("%s-%d cannot be searched: %s", topic, asked.partition_index, error)
            answer.error_code = ErrorCode.CORRUPT_MESSAGE
        else:
            self._fill(answer, found)
        return answer

    def _begin(
        self, topic: str, asked: ListOffsetsPartition
    ) -> tuple[Partition | None, ListOffsetsPartitionResponse]:
        answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
        if not may(self._broker, self._session, Operation.DESCRIBE, ResourceType.TOPIC, topic):
            answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return None, answer
        if asked.timestamp < 0 and self._version < _SINCE.get(asked.timestamp, _NEVER):
            answer.error_code = ErrorCode.UNSUPPORTED_VERSION
            return None, answer
        partition = self._broker.replicas.partition(topic, asked.partition_index)
        answer.error_code = refusal(self._broker, topic, asked.partition_index, asked.current_leader_epoch)
        if partition is not None and not answer.error_code and _asks_for_end(asked.timestamp):
            answer.error_code = self._unknown_end(partition)
        return (None if answer.error_code else partition), answer

    def _end_offset(self, partition: Partition) -> int:
        """Where the log ends for who asks: a follower copies what is not committed, too."""
        if self._is_follower_of(partition):
            return partition.log.written_end_offset
        return partition.last_stable_offset if self._stable_only else partition.high_watermark

    def _is_follower_of(self, partition: Partition) -> bool:
        return self._replica_id in partition.replicas and self._replica_id != partition.leader

    def _unknown_end(self, partition: Partition) -> int:
        """A new leader's high watermark may be lower than what clients have seen (KIP-207)."""
        if partition.end_is_known() or self._is_follower_of(partition):
            return 0  # (a follower's fetches are what makes it known)
        late = self._version >= _OFFSET_NOT_AVAILABLE_FROM
        return ErrorCode.OFFSET_NOT_AVAILABLE if late else ErrorCode.LEADER_NOT_AVAILABLE

    def _fill(
        self, answer: ListOffsetsPartitionResponse, found: TimestampAndOffset | tuple[int, int, int] | None
    ) -> None:
        if found is not None:
            answer.timestamp, answer.offset, leader_epoch = found
            if self._version >= _LEADER_EPOCH_FROM:
                answer.leader_epoch = leader_epoch


def _asks_for_end(timestamp: int) -> bool:
    """Whether the answer depends on how far the partition is committed."""
    return timestamp in (LATEST, MAX_TIMESTAMP) or timestamp >= 0


def refusal(broker: Broker, topic: str, index: int, leader_epoch: int = -1) -> int:
    """Why this broker cannot answer a client that knows `leader_epoch` (-1: none); 0 if it can."""
    partition = broker.replicas.partition(topic, index)
    return broker.replicas.absence(topic, index) if partition is None else partition.refusal(leader_epoch)


def _end(partition: Partition, timestamp: int, end_offset: int) -> tuple[int, int, int] | None:
    """(no timestamp, offset, leader epoch) of an end of the log; None for what there is not."""
    if timestamp == LATEST:
        return -1, end_offset, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD):
        start_offset = partition.log.log_start_offset
        return -1, start_offset, partition.log.epochs.epoch_at(start_offset)
    return None


def _search(searched: Log, timestamp: int, end_offset: int) -> Search:
    if timestamp == MAX_TIMESTAMP:
        return searched.max_timestamp(end_offset)
    return searched.offset_for_timestamp(timestamp, end_offset)
