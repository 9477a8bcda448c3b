"""A follower's hand-tuned Fetch codec means what the declarations mean, and survives any bytes."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.common.core.slow_lane import all_steps
from moldau.common.protocol.messages import fetch
from moldau.common.protocol.replica_fetch import VERSION_MIN, FetchedRow, ReplicaFetchRequest, decode_fetched
from moldau.common.protocol.wire import MalformedMessage

ids = st.binary(min_size=16, max_size=16)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
versions = st.integers(VERSION_MIN, fetch.FetchRequest.VERSIONS[1])
asked_rows = st.lists(st.tuples(int32, int32, int64, int32, int64, int32), min_size=1, max_size=200)


@settings(max_examples=60, deadline=None)
@given(
    head=st.tuples(int32, int32, int32, int32, int32, st.integers(0, 2**31 - 1), int64),
    topics=st.dictionaries(ids, asked_rows, max_size=3),
    forgotten=st.dictionaries(ids, st.lists(int32, min_size=1, max_size=200), max_size=3),
    version=versions,
)
def test_a_request_is_the_same_bytes(
    head: tuple[int, ...],
    topics: dict[bytes, list[tuple[int, ...]]],
    forgotten: dict[bytes, list[int]],
    version: int,
) -> None:
    max_wait_ms, min_bytes, max_bytes, session_id, session_epoch, replica_id, replica_epoch = head
    request = ReplicaFetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        forgotten=forgotten,
    )
    request.replica_id, request.replica_epoch = replica_id, replica_epoch
    for topic_id, rows in topics.items():
        for index, leader_epoch, offset, last_epoch, start_offset, bytes_max in rows:
            request.add(topic_id, index, leader_epoch, offset, last_epoch, start_offset, bytes_max)
    declared = fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            fetch.FetchTopic(
                topic_id=topic_id,
                partitions=[
                    fetch.FetchPartition(
                        partition=index,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_epoch,
                        log_start_offset=start_offset,
                        partition_max_bytes=bytes_max,
                    )
                    for index, leader_epoch, offset, last_epoch, start_offset, bytes_max in rows
                ],
            )
            for topic_id, rows in topics.items()
        ],
        forgotten_topics_data=[
            fetch.ForgottenTopic(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in forgotten.items()
        ],
    )
    assert request.encode(version) == declared.encode(version)


@st.composite
def answered_row(draw: st.DrawFn) -> fetch.PartitionData:
    aborted = draw(st.none() | st.lists(st.tuples(int64, int64), max_size=130))
    row = fetch.PartitionData(
        partition_index=draw(int32),
        error_code=draw(st.integers(-1, 120)),
        high_watermark=draw(int64),
        last_stable_offset=draw(int64),
        log_start_offset=draw(int64),
        preferred_read_replica=draw(int32),
        records=draw(st.none() | st.binary(max_size=300)),
        aborted_transactions=None
        if aborted is None
        else [fetch.AbortedTransaction(producer_id=one, first_offset=other) for one, other in aborted],
    )
    if draw(st.booleans()):
        row.diverging_epoch = fetch.EpochEndOffset(epoch=draw(st.integers(-1, 9)), end_offset=draw(int64))
    if draw(st.booleans()):
        row.current_leader = fetch.LeaderIdAndEpoch(leader_id=draw(int32), leader_epoch=draw(int32))
    return row


def as_fetched(row: fetch.PartitionData) -> FetchedRow:
    epoch, end_offset = row.diverging_epoch.epoch, row.diverging_epoch.end_offset
    return FetchedRow(
        row.partition_index,
        row.error_code,
        row.high_watermark,
        row.log_start_offset,
        row.records or b"",
        (epoch, end_offset) if epoch >= 0 or end_offset >= 0 else None,
    )


answers = st.builds(
    fetch.FetchResponse,
    throttle_time_ms=int32,
    error_code=st.integers(0, 120),
    session_id=int32,
    responses=st.lists(
        st.builds(
            fetch.FetchableTopicResponse, topic_id=ids, partitions=st.lists(answered_row(), max_size=3)
        ),
        max_size=3,
    ),
)
nodes = st.lists(st.builds(fetch.NodeEndpoint, node_id=int32, host=st.just("h"), port=int32), max_size=2)


@settings(max_examples=150, deadline=None)
@given(answer=answers, endpoints=nodes, version=versions, before=st.binary(max_size=9))
def test_a_response_means_the_same(
    answer: fetch.FetchResponse, endpoints: list[fetch.NodeEndpoint], version: int, before: bytes
) -> None:
    if version >= 16:
        answer.node_endpoints = endpoints
    frame = memoryview(before + answer.encode(version))
    got = all_steps(decode_fetched(frame, version, len(before)))
    assert (got.error_code, got.session_id) == (answer.error_code, answer.session_id)
    assert got.topics == [
        (topic.topic_id, [as_fetched(row) for row in topic.partitions]) for topic in answer.responses
    ]


@settings(max_examples=150, deadline=None)
@given(answer=answers, version=versions, data=st.data())
def test_a_response_that_is_cut_or_too_long_is_refused(
    answer: fetch.FetchResponse, version: int, data: st.DataObject
) -> None:
    frame = answer.encode(version)
    cut = data.draw(st.integers(0, len(frame) - 1))
    for damaged in (frame[:cut], frame + b"\0"):
        with contextlib.suppress(MalformedMessage):
            all_steps(decode_fetched(memoryview(damaged), version, 0))
            raise AssertionError("it was read")


@settings(max_examples=300)
@given(frame=st.binary(max_size=120), version=versions)
def test_any_bytes_parse_or_are_refused(frame: bytes, version: int) -> None:
    with contextlib.suppress(MalformedMessage):
        all_steps(decode_fetched(memoryview(frame), version, 0))


def test_many_rows_are_read_in_steps() -> None:
    rows = [fetch.PartitionData(partition_index=index) for index in range(1000)]
    topic = fetch.FetchableTopicResponse(topic_id=bytes(16), partitions=rows)
    frame = memoryview(fetch.FetchResponse(responses=[topic] * 100).encode(17))
    steps = 0
    reading = decode_fetched(frame, 17, 0)
    while True:
        try:
            next(reading)
        except StopIteration as stop:
            fetched = stop.value
            break
        steps += 1
    assert sum(len(each) for _, each in fetched.topics) == 100_000
    assert steps >= 1000
