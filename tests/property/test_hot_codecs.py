"""The hand-tuned Produce and Fetch codecs mean what the declarations mean, and survive any bytes."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.common.protocol import hot_fetch, hot_produce
from moldau.common.protocol.messages import fetch, produce
from moldau.common.protocol.wire import MalformedMessage

names = st.text(min_size=1, max_size=12)
ids = st.binary(min_size=16, max_size=16)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
produce_versions = st.integers(*produce.ProduceRequest.VERSIONS)
fetch_versions = st.integers(*fetch.FetchRequest.VERSIONS)


def _bytes(value: object) -> bytes | None:
    return None if value is None else bytes(value)  # type: ignore[call-overload]


@settings(max_examples=150)
@given(data=st.data(), version=produce_versions)
def test_produce_request_means_the_same(data: st.DataObject, version: int) -> None:
    by_id = version >= 13
    rows = data.draw(
        st.lists(
            st.tuples(
                ids if by_id else names,
                st.lists(st.tuples(int32, st.none() | st.binary(max_size=200)), max_size=3),
            ),
            max_size=3,
        )
    )
    transactional_id = data.draw(st.none() | names)
    acks = data.draw(st.integers(-5, 5))
    request = produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=data.draw(int32),
        topic_data=[
            produce.TopicProduceData(
                **({"topic_id": key} if by_id else {"name": key}),
                partition_data=[
                    produce.PartitionProduceData(index=index, records=records) for index, records in parts
                ],
            )
            for key, parts in rows
        ],
    )
    prefix = data.draw(st.binary(max_size=9))
    frame = prefix + request.encode(version)
    got_id, got_acks, got_timeout_ms, topics = hot_produce.decode_produce(
        memoryview(frame), len(prefix), version
    )
    assert _bytes(got_id) == (None if transactional_id is None else transactional_id.encode())
    assert (got_acks, got_timeout_ms) == (acks, request.timeout_ms)
    assert [(key, [(i, _bytes(r)) for i, r in parts]) for key, parts in topics] == [
        (key if by_id else key.encode(), parts) for key, parts in rows
    ]


@settings(max_examples=150)
@given(data=st.data(), version=produce_versions)
def test_produce_response_is_the_same_bytes(data: st.DataObject, version: int) -> None:
    by_id = version >= 13
    refused = st.builds(
        hot_produce.RecordsRefused, names, st.lists(st.tuples(st.integers(0, 2**31 - 1), names), max_size=3)
    )
    row = st.tuples(int32, st.integers(-1, 100), int64, int64, int64, st.none() | names | refused)
    topics = data.draw(st.lists(st.tuples(ids if by_id else names, st.lists(row, max_size=3)), max_size=3))
    message = produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                **({"topic_id": key} if by_id else {"name": key}),
                partition_responses=[
                    produce.PartitionProduceResponse(
                        index=index,
                        error_code=error_code,
                        base_offset=base,
                        log_append_time_ms=time_ms,
                        log_start_offset=start,
                        record_errors=[
                            produce.BatchIndexAndErrorMessage(
                                batch_index=batch_index, batch_index_error_message=reason
                            )
                            for batch_index, reason in (
                                text.record_errors if isinstance(text, hot_produce.RecordsRefused) else ()
                            )
                        ],
                        error_message=(
                            text.message if isinstance(text, hot_produce.RecordsRefused) else text
                        ),
                    )
                    for index, error_code, base, time_ms, start, text in rows
                ],
            )
            for key, rows in topics
        ]
    )
    keyed = [(key if by_id else key.encode(), rows) for key, rows in topics]
    assert hot_produce.encode_produce_response(version, keyed) == message.encode(version)


@settings(max_examples=150)
@given(data=st.data(), version=fetch_versions)
def test_fetch_request_means_the_same(data: st.DataObject, version: int) -> None:
    by_id = version >= 13
    part = st.tuples(int32, int32, int64, int32, int64, int32)
    rows = data.draw(st.lists(st.tuples(ids if by_id else names, st.lists(part, max_size=3)), max_size=3))
    gone = data.draw(st.lists(st.tuples(ids if by_id else names, st.lists(int32, max_size=3)), max_size=2))
    if version < 7:
        gone = []
    rack = data.draw(names) if version >= 11 else ""
    replica_id = data.draw(st.integers(-1, 5))
    key_name = "topic_id" if by_id else "topic"
    request = fetch.FetchRequest(
        max_wait_ms=data.draw(int32),
        min_bytes=data.draw(int32),
        max_bytes=data.draw(int32),
        isolation_level=data.draw(st.integers(0, 1)),
        session_id=data.draw(int32) if version >= 7 else 0,
        session_epoch=data.draw(int32) if version >= 7 else -1,
        topics=[
            fetch.FetchTopic(
                **{key_name: key},
                partitions=[
                    fetch.FetchPartition(
                        partition=index,
                        current_leader_epoch=epoch if version >= 9 else -1,
                        fetch_offset=offset,
                        last_fetched_epoch=last if version >= 12 else -1,
                        log_start_offset=start if version >= 5 else -1,
                        partition_max_bytes=limit,
                    )
                    for index, epoch, offset, last, start, limit in parts
                ],
            )
            for key, parts in rows
        ],
        forgotten_topics_data=[
            fetch.ForgottenTopic(**{key_name: key}, partitions=parts) for key, parts in gone
        ],
        rack_id=rack,
    )
    if version >= 15:
        broker_epoch = data.draw(int64)
        request.replica_state = fetch.ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch)
    else:
        request.replica_id = replica_id
    frame = request.encode(version)
    got = hot_fetch.decode_fetch(memoryview(frame), 0, version)
    encode_key = (lambda key: key) if by_id else (lambda key: key.encode())
    assert got[0] == replica_id
    assert got[1:7] == (
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
    )
    assert got[7] == [
        (
            encode_key(key),
            [
                (
                    index,
                    epoch if version >= 9 else -1,
                    offset,
                    last if version >= 12 else -1,
                    start if version >= 5 else -1,
                    limit,
                )
                for index, epoch, offset, last, start, limit in parts
            ],
        )
        for key, parts in rows
    ]
    assert got[8] == [(encode_key(key), parts) for key, parts in gone]
    assert got[9] == rack.encode()
    if version >= 15 and replica_id != -1:
        assert got[10] == broker_epoch


@settings(max_examples=150)
@given(data=st.data(), version=fetch_versions)
def test_fetch_response_is_the_same_bytes(data: st.DataObject, version: int) -> None:
    by_id = version >= 13
    aborted = st.none() | st.lists(st.tuples(int64, int64), max_size=2)
    row = st.tuples(int32, st.integers(-1, 100), int64, int64, int64, aborted, st.binary(max_size=100))
    topics = data.draw(st.lists(st.tuples(ids if by_id else names, st.lists(row, max_size=3)), max_size=3))
    error_code, session_id = (data.draw(st.integers(0, 90)), data.draw(int32)) if version >= 7 else (0, 0)
    message = fetch.FetchResponse(
        error_code=error_code,
        session_id=session_id,
        responses=[
            fetch.FetchableTopicResponse(
                **({"topic_id": key} if by_id else {"topic": key}),
                partitions=[
                    fetch.PartitionData(
                        partition_index=index,
                        error_code=error,
                        high_watermark=high,
                        last_stable_offset=stable,
                        log_start_offset=start if version >= 5 else -1,
                        aborted_transactions=None
                        if ended is None
                        else [
                            fetch.AbortedTransaction(producer_id=pid, first_offset=first)
                            for pid, first in ended
                        ],
                        records=records,
                    )
                    for index, error, high, stable, start, ended, records in rows
                ],
            )
            for key, rows in topics
        ],
    )
    keyed = [(key if by_id else key.encode(), rows) for key, rows in topics]
    tagged: dict[tuple[bytes, int], bytes] = {}
    preferred: dict[tuple[bytes, int], int] = {}
    one, other, replica = data.draw(st.tuples(st.integers(0, 9), int64, st.integers(0, 9)))
    kind = data.draw(st.sampled_from(["none", "diverging", "leader", "preferred"]))
    for (key, rows), answered in list(zip(keyed, message.responses, strict=True)):
        if not keyed or key != keyed[0][0]:
            continue
        for row, partition in zip(rows, answered.partitions, strict=True):
            if kind == "preferred" and version >= 11:
                preferred[key, row[0]] = partition.preferred_read_replica = replica
            elif kind == "diverging" and version >= 12:
                tagged[key, row[0]] = hot_fetch.diverging_field(one, other)
                partition.diverging_epoch = fetch.EpochEndOffset(epoch=one, end_offset=other)
            elif kind == "leader" and version >= 12:
                tagged[key, row[0]] = hot_fetch.leader_field(replica, one)
                partition.current_leader = fetch.LeaderIdAndEpoch(leader_id=replica, leader_epoch=one)
    parts = hot_fetch.encode_fetch_response(
        version, keyed, error_code=error_code, session_id=session_id, tagged=tagged, preferred=preferred
    )
    assert b"".join(parts) == message.encode(version)


@pytest.mark.parametrize("decode", [hot_produce.decode_produce, hot_fetch.decode_fetch])
@settings(max_examples=300)
@given(frame=st.binary(max_size=120), version=st.integers(3, 18))
def test_any_bytes_parse_or_are_refused(decode, frame: bytes, version: int) -> None:  # type: ignore[no-untyped-def]
    with contextlib.suppress(MalformedMessage):
        decode(memoryview(frame), 0, version)
