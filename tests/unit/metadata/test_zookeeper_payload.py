"""Entries and snapshots as bytes: packed and unpacked they are the same, whole or in parts."""

import random

import pytest

from moldau.broker.metadata.changes import (
    AclsCreated,
    ClusterCreated,
    ConfigsChanged,
    PartitionsChanged,
    TopicCreated,
    replay,
)
from moldau.broker.metadata.codec import encode_image, to_json
from moldau.broker.metadata.image import EMPTY_IMAGE, PartitionState, ResourceType
from moldau.broker.metadata.zookeeper.payload import (
    decode_entry,
    decode_snapshot,
    encode_snapshot,
    entry_in_slices,
    fresh_id,
    pack,
    read_header,
    unpack,
)
from moldau.common.core.slow_lane import all_steps
from moldau.common.protocol.acls import Acl

STATE = PartitionState(1, 5, 7, (1, 2, 3), (1, 2), (3,))
CHANGES = [
    ClusterCreated("line\nbreak"),
    TopicCreated("a", bytes(range(16)), (STATE,) * 200),
    PartitionsChanged("a", tuple((index, STATE._replace(leader=2)) for index in range(100))),
    ConfigsChanged(ResourceType.TOPIC, "ü\n", {"x": "1\n2", "y": None}),
]


def test_an_entry():
    payload = all_steps(entry_in_slices(CHANGES))
    assert payload.count(b"\n") == len(CHANGES) - 1
    assert decode_entry(payload) == CHANGES
    assert decode_entry(b"") == []


def test_a_snapshot():
    image = replay(EMPTY_IMAGE, 1, CHANGES)
    image = replay(image, 2, [TopicCreated("b", bytes(16), (STATE, STATE._replace(elr=())))])
    assert decode_snapshot(encode_snapshot(image)) == image
    assert decode_snapshot(encode_snapshot(EMPTY_IMAGE)) == EMPTY_IMAGE
    with pytest.raises(ValueError, match="holds topics and ACLs, not ClusterCreated"):
        decode_snapshot(encode_snapshot(EMPTY_IMAGE) + b"\n" + all_steps(entry_in_slices(CHANGES[:1])))


def test_a_snapshot_of_many_acls_has_no_long_line():
    acls = tuple([Acl(2, f"topic-{number}", 3, "User:alice", "*", 3, 3) for number in range(2_500)])
    image = replay(EMPTY_IMAGE, 1, [*CHANGES, AclsCreated(acls)])
    payload = encode_snapshot(image)
    found = decode_snapshot(payload)
    assert found == image
    assert tuple(found.acls) == acls  # in their order
    assert max(map(len, payload.split(b"\n"))) < len(payload) / 2
    older = to_json(encode_image(image._replace(topics={}, topic_names={})))
    assert decode_snapshot(older).acls == image.acls


@pytest.mark.parametrize("size_bytes", [0, 1, 1_023, 1_024, 100_000])
@pytest.mark.parametrize("node_bytes_max", [900_000, 10_000])
def test_payloads_are_cut_where_they_must_be(size_bytes, node_bytes_max):
    payload = random.Random(size_bytes).randbytes(size_bytes)
    packed = pack("id", payload, 7, node_bytes_max)
    header = read_header(packed.data)
    assert (header.payload_id, header.version, header.part_count) == ("id", 7, len(packed.parts))
    assert bool(packed.parts) == (size_bytes > node_bytes_max)
    assert all(0 < len(part) <= node_bytes_max for part in packed.parts)
    assert unpack(header, packed.parts) == payload


def test_ids_differ():
    source = random.Random(1)
    assert len({fresh_id(source) for _ in range(1_000)}) == 1_000
