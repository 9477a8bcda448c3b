"""What is in the nodes: entries and snapshots as lines of JSON behind a header line.

    {"id":"9f3c...","zlib":true}\n  payload                      fits into one node
    {"id":"9f3c...","zlib":true,"parts":3}\n                     lies in /moldau/parts/9f3c...-0000 to -0002

`id` is unique for each attempt to write: by it a writer recognises what it wrote. A line of an entry is one
change; a snapshot has the image without its topics and ACLs in the first line, and in each other a topic or
some ACLs. So the longest piece that is decoded at once, with the interpreter's lock held, is one topic's.

ZooKeeper's limit for a node and for a request is 1 MiB (jute.maxbuffer); `NODE_BYTES_MAX` leaves room for
the rest of the request.
"""

import json
import random
import zlib
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple

from moldau.broker.metadata.changes import AclsCreated, Change, TopicCreated
from moldau.broker.metadata.codec import change_in_slices, decode_changes, decode_image, encode_image, to_json
from moldau.broker.metadata.image import Image, TopicState
from moldau.common.core.slow_lane import all_steps

NODE_BYTES_MAX = 900_000
_COMPRESSED_FROM_BYTES = 1_024
_ACLS_A_LINE = 1_000


class Packed(NamedTuple):
    """A payload ready to be written: the node's data, and the parts that must be there before it."""

    payload_id: str
    data: bytes
    parts: Sequence[bytes]

    @property
    def size_bytes(self) -> int:
        """What it takes in ZooKeeper."""
        return len(self.data) + sum(map(len, self.parts))


class Header(NamedTuple):
    """A node's header, and the payload that follows it in the node (compressed, if it is)."""

    payload_id: str
    part_count: int
    compressed: bool
    version: int
    body: bytes


def fresh_id(source: random.Random) -> str:
    """An id that no other attempt to write has."""
    return f"{source.getrandbits(96):024x}"


def pack(payload_id: str, payload: bytes, version: int, node_bytes_max: int = NODE_BYTES_MAX) -> Packed:
    """Compress and cut a payload. `version`: of the log, after the entry or at the snapshot."""
    header: dict[str, Any] = {"id": payload_id, "version": version}
    if len(payload) >= _COMPRESSED_FROM_BYTES:
        payload, header["zlib"] = zlib.compress(payload, 1), True
    if len(payload) <= node_bytes_max:
        return Packed(payload_id, to_json(header) + b"\n" + payload, ())
    parts = [payload[start : start + node_bytes_max] for start in range(0, len(payload), node_bytes_max)]
    header["parts"] = len(parts)
    return Packed(payload_id, to_json(header) + b"\n", parts)


def read_header(data: bytes) -> Header:
    """A node's header. ValueError when it is none."""
    line, _, body = data.partition(b"\n")
    value = json.loads(line)
    return Header(value["id"], value.get("parts", 0), value.get("zlib", False), value["version"], body)


def unpack(header: Header, parts: Sequence[bytes]) -> bytes:
    """The payload of a node with its parts."""
    body = b"".join(parts) if header.part_count else header.body
    return zlib.decompress(body) if header.compressed else body


# Entries


def entry_in_slices(changes: Sequence[Change]) -> Generator[None, None, bytes]:
    """The payload of an entry, a few changes or partitions a step."""
    lines = []
    for change in changes:
        lines.append((yield from change_in_slices(change)))
    return b"\n".join(lines)


def decode_entry(payload: bytes) -> list[Change]:
    """The changes of an entry. ValueError when one is unknown or cannot be read."""
    return [change for line in _lines(payload) for change in decode_changes([json.loads(line)])]


# Snapshots


def encode_snapshot(image: Image) -> bytes:
    """The payload of a snapshot."""
    lines = [to_json(encode_image(image._replace(topics={}, topic_names={}, acls={})))]
    acls = tuple(image.acls)
    for start in range(0, len(acls), _ACLS_A_LINE):
        lines.append(all_steps(change_in_slices(AclsCreated(acls[start : start + _ACLS_A_LINE]))))
    for topic in image.topics.values():
        lines.append(all_steps(change_in_slices(TopicCreated(topic.name, topic.topic_id, topic.partitions))))
    return b"\n".join(lines)


def decode_snapshot(payload: bytes) -> Image:
    """The image of a snapshot. ValueError when it cannot be read."""
    lines = _lines(payload)
    image = decode_image(json.loads(next(lines)))
    topics = {}
    acls = dict(image.acls)
    for line in lines:
        (change,) = decode_changes([json.loads(line)])
        if isinstance(change, AclsCreated):
            acls.update(dict.fromkeys(change.acls))
            continue
        if not isinstance(change, TopicCreated):
            raise ValueError(f"a snapshot holds topics and ACLs, not {type(change).__name__}")
        topics[change.name] = TopicState(change.name, change.topic_id, change.partitions)
    topic_names = {each.topic_id: each.name for each in topics.values()}
    return image._replace(topics=topics, topic_names=topic_names, acls=acls)


def _lines(payload: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(payload):
        end = payload.find(b"\n", start)
        end = len(payload) if end < 0 else end
        yield payload[start:end]
        start = end + 1
