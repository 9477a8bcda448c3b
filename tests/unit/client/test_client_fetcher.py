"""Ranges, from a broker that answers what real ones answer seldom: gaps, quotas, damage, another leader."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from scripted_broker import ScriptedBroker

from moldau.client.cluster import Cluster
from moldau.client.errors import ClusterTimeout, CorruptRecords, RequestRefused, UnknownTopic
from moldau.client.fetcher import fetch_range
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from moldau.common.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from moldau.common.records.record import Record

OPTIONS = {"default.api.timeout.ms": "700", "retry.backoff.ms": "1", "retry.backoff.max.ms": "2"}


def answer(records: bytes = b"", *, throttle_ms: int = 0, **partition: object) -> FetchResponse:
    values = {"high_watermark": 100, "last_stable_offset": 100, "records": records, **partition}
    topic = FetchableTopicResponse(topic_id=b"i" * 16, partitions=[PartitionData(**values)])
    return FetchResponse(responses=[topic], throttle_time_ms=throttle_ms)


def batch(*offsets: int, producer_id: int = -1, **more: object) -> bytes:
    records = [Record(offset, 0, None, b"v" * 10) for offset in offsets]
    if producer_id >= 0:
        more |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    return build_batch(records, base_offset=offsets[0], **more)


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    return build_end_transaction_marker(
        EndTransactionMarker(kind, 0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )


def in_turn(answers: Iterable[Message | None]) -> Callable[[Message], Message | None]:
    """The answers one after the other, the last again and again."""
    waiting = list(answers)
    return lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]


def read(broker: ScriptedBroker, start: int, end: int, committed: bool = False) -> list[tuple[int, int]]:
    """First and last offset of each batch of a range."""
    with Cluster(broker.address, OPTIONS) as cluster:
        batches = fetch_range(cluster, "t", 0, start, end, read_committed=committed)
        return [(each.base_offset, each.last_offset) for each in batches]


def offsets_asked(broker: ScriptedBroker) -> list[int]:
    asked = [each for each in broker.requests if isinstance(each, FetchRequest)]
    return [each.topics[0].partitions[0].fetch_offset for each in asked]


def serving(*answers: Message | None, version: int = 18) -> ScriptedBroker:
    return ScriptedBroker({FetchRequest: in_turn(answers)}, versions={FetchRequest: version})


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_a_range_is_read_in_every_version(version: int) -> None:
    with serving(answer(batch(0, 1) + batch(2, 3)), answer(batch(4, 5)), version=version) as broker:
        assert read(broker, 1, 5) == [(0, 1), (2, 3), (4, 5)]
        assert offsets_asked(broker) == [1, 4]


def test_a_leader_that_the_cluster_has_no_more_is_looked_up_again() -> None:
    """Metadata for something else said so first: the partition's own leader was known from before."""
    leaders = iter([2, 1])

    def metadata(request: Message) -> Message:
        assert isinstance(request, MetadataRequest)
        here = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=broker.port)
        answer = MetadataResponse(brokers=[here])
        if request.topics:
            partition = MetadataResponsePartition(partition_index=0, leader_id=next(leaders))
            answer.topics = [MetadataResponseTopic(name="t", topic_id=b"i" * 16, partitions=[partition])]
            answer.brokers = [here, MetadataResponseBroker(node_id=2, host="127.0.0.1", port=1)]
        return answer

    with (
        ScriptedBroker({FetchRequest: in_turn([answer(batch(0, 1))]), MetadataRequest: metadata}) as broker,
        Cluster(broker.address, OPTIONS) as cluster,
    ):
        assert cluster.place("t", 0).leader == 2
        assert cluster.topics() == {}
        batches = fetch_range(cluster, "t", 0, 0, 2, read_committed=False)
        assert [each.base_offset for each in batches] == [0]


def test_a_gap_that_reaches_beyond_the_end_ends_the_range() -> None:
    with serving(answer(batch(2, 3)), answer(batch(20, 21))) as broker:
        assert read(broker, 0, 10) == [(2, 3)]


def test_a_batch_that_breaks_off_is_asked_for_again() -> None:
    whole = batch(2, 3)
    with serving(answer(batch(0, 1) + whole[:70]), answer(whole)) as broker:
        assert read(broker, 0, 4) == [(0, 1), (2, 3)]
        assert offsets_asked(broker) == [0, 2]


def test_a_first_batch_that_breaks_off_is_asked_for_with_more_bytes() -> None:
    whole = batch(0, 1)
    with serving(answer(whole[:70]), answer(whole)) as broker:
        assert read(broker, 0, 2) == [(0, 1)]
        limits = [each.max_bytes for each in broker.requests if isinstance(each, FetchRequest)]
        assert limits[1] >= 2 * limits[0]


def test_an_answer_without_records_says_nothing_about_the_log() -> None:
    """It may be held back by a quota, whether the answer says so or not."""
    empty = [*[answer(throttle_ms=5)] * 4, *[answer()] * 4, answer(error_code=-1)]
    with serving(*empty, answer(batch(0, 1))) as broker:
        assert read(broker, 0, 2) == [(0, 1)]
    with (
        serving(answer(batch(0, 1)), answer()) as broker,
        pytest.raises(ClusterTimeout, match=r"up to offset 10: at offset 2 .*answered without records"),
    ):
        read(broker, 0, 10)


def test_a_range_above_the_high_watermark_ends_in_a_timeout() -> None:
    with (
        serving(answer(high_watermark=0)) as broker,
        pytest.raises(ClusterTimeout, match=r"up to offset 2: at offset 0 .*its high watermark is 0"),
    ):
        read(broker, 0, 2)


def test_a_damaged_batch_is_not_handed_on() -> None:
    damaged = bytearray(batch(0, 1))
    damaged[-1] ^= 1
    with serving(answer(bytes(damaged))) as broker:
        with pytest.raises(CorruptRecords, match="t-0: the checksum of the batch at 0 is wrong"):
            read(broker, 0, 2)
        with Cluster(broker.address, {**OPTIONS, "check.crcs": "false"}) as cluster:
            assert len(list(fetch_range(cluster, "t", 0, 0, 2, read_committed=False))) == 1


def test_bytes_that_are_no_batch_and_batches_of_the_past_are_refused() -> None:
    with serving(answer(b"x" * 80)) as broker, pytest.raises(CorruptRecords, match="t-0 at offset 0"):
        read(broker, 0, 2)
    with serving(answer(batch(0, 1))) as broker, pytest.raises(CorruptRecords, match="before offset 5"):
        read(broker, 5, 9)


def test_a_lost_connection_and_a_lost_leader_are_lived_through() -> None:
    moved = answer(error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    late = answer(error_code=int(ErrorCode.KAFKA_STORAGE_ERROR))
    with serving(None, moved, answer(batch(0, 1)), late, None, answer(batch(2, 3))) as broker:
        assert read(broker, 0, 4) == [(0, 1), (2, 3)]


def test_an_error_that_stays_is_a_sentence() -> None:
    with (
        serving(answer(error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))) as broker,
        pytest.raises(RequestRefused, match=r"cannot read t-0: Not allowed on this topic") as caught,
    ):
        read(broker, 0, 4)
    assert caught.value.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_topic_made_anew_is_not_taken_for_the_old_one() -> None:
    unknown = answer(error_code=int(ErrorCode.UNKNOWN_TOPIC_ID))
    with ScriptedBroker({FetchRequest: in_turn([answer(batch(0)), unknown])}) as broker:
        ids = iter((b"1" * 16, b"2" * 16, b"2" * 16))
        original = broker._metadata

        def renamed(request: Message) -> Message:
            response = original(request)
            response.topics[0].topic_id = next(ids)
            return response

        broker._answers = {
            each: renamed if each.KEY == 3 else broker._answers[each] for each in broker._answers
        }
        with pytest.raises(UnknownTopic, match="topic t was deleted and created anew while it was read"):
            read(broker, 0, 4)


def test_read_committed_leaves_out_exactly_what_was_aborted() -> None:
    records = (
        batch(0, producer_id=7)
        + batch(1, producer_id=8)
        + batch(2)
        + marker(3, 7, ControlType.ABORT)
        + batch(4, producer_id=7)
        + marker(5, 8, ControlType.COMMIT)
        + marker(6, 7, ControlType.COMMIT)
        + batch(7, producer_id=8)
        + marker(8, 8, ControlType.ABORT)
        + batch(9)
    )
    aborted = [
        AbortedTransaction(producer_id=8, first_offset=7),
        AbortedTransaction(producer_id=7, first_offset=0),
    ]
    with serving(answer(records, aborted_transactions=aborted)) as broker:
        assert [first for first, _ in read(broker, 0, 10, committed=True)] == [1, 2, 4, 9]
        assert [first for first, _ in read(broker, 0, 10)] == [0, 1, 2, 4, 7, 9]
        isolation = [each.isolation_level for each in broker.requests if isinstance(each, FetchRequest)]
        assert isolation == [1, 0]
