"""Every message in every version, decoded and encoded in slices: the same as at once, with pauses."""

import random

import pytest
from protocol_oracle import make, pair_id, pairs

from moldau.common.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from moldau.common.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.common.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.common.protocol.release import release
from moldau.common.protocol.wire import MalformedMessage, uvarint

PAIRS = pairs()
PLENTY = 10**6
SLICE_ELEMENTS_MAX = 64
CHUNK_ELEMENTS_MAX = 256


def run(steps):
    """What the steps return, and how many pauses they made."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value, pauses
        pauses += 1


def outcome(decode):
    try:
        return decode()
    except MalformedMessage:
        return "malformed"


@pytest.mark.parametrize("pair", PAIRS, ids=pair_id)
def test_slices_give_the_same_message_and_the_same_bytes(pair):
    cls, version = pair
    for seed in range(4):
        message = make(cls, version, seed)
        data = message.encode(version)
        chunks, _ = run(message.encode_in_slices(version))
        assert b"".join(chunks) == data, f"seed {seed}"
        for given in (data, memoryview(b"front" + data)):
            offset = len(given) - len(data)
            decoded, _ = run(cls.decode_in_slices(given, version, offset, PLENTY))
            assert decoded == message, f"seed {seed}"
            assert decoded.encode(version) == data  # bytes are bytes, not views


@pytest.mark.parametrize("pair", PAIRS, ids=pair_id)
def test_slices_refuse_what_is_refused_at_once(pair):
    cls, version = pair
    source = random.Random(f"{cls.__name__} {version}")
    for seed in range(3):
        data = bytearray(make(cls, version, seed, size=2).encode(version))
        for _ in range(8):
            broken = bytearray(data)
            if broken and source.random() < 0.7:
                broken[source.randrange(len(broken))] = source.randrange(256)
            else:
                del broken[source.randrange(len(broken) + 1) :]
            given = bytes(broken)
            expected = outcome(lambda given=given: cls.decode(given, version))
            found = outcome(lambda given=given: run(cls.decode_in_slices(given, version, 0, PLENTY))[0])
            assert found == expected, given


def test_a_pause_comes_after_a_few_elements_at_whatever_depth():
    count = 10_000
    names = [MetadataRequestTopic(name="") for _ in range(count)]
    nested = [
        CreatableTopic(name="t", assignments=[CreatableReplicaAssignment(broker_ids=[1])] * 5)
        for _ in range(count // 6)
    ]
    for request, version, elements in (
        (MetadataRequest(topics=names), 9, count),
        (CreateTopicsRequest(topics=nested), 7, count // 6 * 6),
    ):
        data = request.encode(version)
        _, pauses = run(type(request).decode_in_slices(data, version, 0, PLENTY))
        assert pauses >= elements // SLICE_ELEMENTS_MAX
        chunks, pauses = run(request.encode_in_slices(version))
        assert pauses >= elements // CHUNK_ELEMENTS_MAX
        assert len(chunks) == pauses + 1


def test_long_lists_of_integers_are_read_and_written_in_pieces():
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=list(range(50_000)))])
    data = request.encode(0)
    decoded, pauses = run(DescribeProducersRequest.decode_in_slices(data, 0, 0, PLENTY))
    assert decoded == request
    assert pauses >= 10
    chunks, pauses = run(request.encode_in_slices(0))
    assert b"".join(chunks) == data
    assert pauses >= 10


def test_unknown_tags_are_stepped_over_in_slices():
    data = MetadataRequest(topics=[]).encode(9)
    assert data.endswith(b"\0")
    tagged = data[:-1] + uvarint(20_000) + b"\5\0" * 20_000
    decoded, pauses = run(MetadataRequest.decode_in_slices(tagged, 9, 0, PLENTY))
    assert decoded == MetadataRequest(topics=[])
    assert pauses >= 20_000 // 512
    with pytest.raises(MalformedMessage):
        run(MetadataRequest.decode_in_slices(tagged[:-1000], 9, 0, PLENTY))


@pytest.mark.parametrize(("elements_max", "fits"), [(9_000, False), (10_000, True)])
def test_a_frame_with_too_many_elements_is_refused_before_it_is_read_to_its_end(elements_max, fits):
    data = MetadataRequest(topics=[MetadataRequestTopic(name="") for _ in range(10_000)]).encode(9)
    steps = MetadataRequest.decode_in_slices(data, 9, 0, elements_max)
    if fits:
        decoded, _ = run(steps)
        assert len(decoded.topics) == 10_000
    else:
        with pytest.raises(MalformedMessage, match=r"moldau\.request\.elements\.max"):
            run(steps)


def test_integers_count_as_elements():
    data = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[1] * 50_000)]).encode(0)
    with pytest.raises(MalformedMessage, match=r"moldau\.request\.elements\.max"):
        run(DescribeProducersRequest.decode_in_slices(data, 0, 0, 10_000))


def test_an_answer_about_one_topic_with_many_partitions_is_written_in_slices():
    rows = [
        MetadataResponsePartition(partition_index=i, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        for i in range(5_000)
    ]
    answer = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=rows)])
    for version in (1, 13):
        chunks, pauses = run(answer.encode_in_slices(version))
        assert b"".join(chunks) == answer.encode(version)
        assert pauses >= 5_000 // CHUNK_ELEMENTS_MAX


def test_a_large_message_is_released_in_steps():
    flat = MetadataRequest(topics=[MetadataRequestTopic(name="") for _ in range(10_000)])
    rows = [CreatableTopic(name="t", assignments=[CreatableReplicaAssignment()] * 5_000) for _ in range(2)]
    for message, elements in ((flat, 10_000), (CreateTopicsRequest(topics=rows), 10_000)):
        _, pauses = run(release(message))
        assert pauses >= elements // 256 - 1
    assert not flat.topics
    assert not rows[0].assignments
    few = MetadataRequest(topics=[MetadataRequestTopic(name="")] * 10)
    run(release(few))
    assert len(few.topics) == 10  # short lists are freed with the message


def test_what_was_read_of_a_refused_frame_is_released_in_steps():
    data = MetadataRequest(topics=[MetadataRequestTopic(name="") for _ in range(20_000)]).encode(9)
    steps = MetadataRequest.decode_in_slices(data, 9, 0, 10_000)
    pauses = 0

    def counting():
        nonlocal pauses
        for _ in steps:
            pauses += 1

    with pytest.raises(MalformedMessage):
        counting()
    assert pauses >= 10_000 // SLICE_ELEMENTS_MAX + 10_000 // 256 - 1
